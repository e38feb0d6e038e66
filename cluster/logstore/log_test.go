package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const owner = "cluster/a"

func open(t testing.TB, d Disk) *Log {
	t.Helper()
	l, err := Open(d, Options{Owner: owner, SegmentSize: 300})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

func entry(index uint64, size int) *raft.Log {
	e := &raft.Log{Index: index, Term: 1 + index/7, Type: raft.LogType(index % 4), AppendedAt: time.Unix(0, int64(index)*1000+1)}
	if size > 0 {
		e.Data = bytes.Repeat([]byte{byte(index)}, size)
	}
	if index%5 == 0 {
		e.Extensions = []byte("ext")
	}
	return e
}

// content is all that a log holds.
type content struct {
	First, Last    uint64
	Entries        []raft.Log
	Term, VoteTerm uint64
	Formation      uint64
	Vote           string
}

func read(l *Log) (content, error) {
	var c content
	c.First, _ = l.FirstIndex()
	c.Last, _ = l.LastIndex()
	for i := c.First; i > 0 && i <= c.Last; i++ {
		var e raft.Log
		if err := l.GetLog(i, &e); err != nil {
			return c, err
		}
		c.Entries = append(c.Entries, e)
	}
	c.Term, _ = l.GetUint64([]byte(keyTerm))
	c.VoteTerm, _ = l.GetUint64([]byte(keyVoteTerm))
	c.Formation, _ = l.GetUint64([]byte(KeyFormation))
	vote, err := l.Get([]byte(keyVote))
	if err != nil && err.Error() != "not found" {
		return c, err
	}
	c.Vote = string(vote)
	return c, nil
}

// op is an operation of raft on its log.
type op struct {
	kind     int
	from, to uint64
	sizes    []int
	text     string
}

// apply does an operation on the model.
func (o op) apply(c content) content {
	c.Entries = append([]raft.Log(nil), c.Entries...)
	switch o.kind {
	case 0:
		for i, size := range o.sizes {
			c.Entries = append(c.Entries, *entry(o.from+uint64(i), size))
		}
	case 1:
		var kept []raft.Log
		for _, e := range c.Entries {
			if e.Index < o.from || e.Index > o.to {
				kept = append(kept, e)
			}
		}
		c.Entries = kept
	case 2:
		c.Term = o.from
	case 3:
		c.VoteTerm = o.from
	case 4:
		c.Vote = o.text
	case 5:
		c.Formation = o.from
	}
	c.First, c.Last = 0, 0
	if n := len(c.Entries); n > 0 {
		c.First, c.Last = c.Entries[0].Index, c.Entries[n-1].Index
	}
	return c
}

func (o op) do(l *Log) error {
	switch o.kind {
	case 0:
		var es []*raft.Log
		for i, size := range o.sizes {
			es = append(es, entry(o.from+uint64(i), size))
		}
		return l.StoreLogs(es)
	case 1:
		return l.DeleteRange(o.from, o.to)
	case 2:
		return l.SetUint64([]byte(keyTerm), o.from)
	case 3:
		return l.SetUint64([]byte(keyVoteTerm), o.from)
	case 5:
		return l.SetUint64([]byte(KeyFormation), o.from)
	}
	return l.Set([]byte(keyVote), []byte(o.text))
}

func drawOp(rnd *rand.Rand, c content) op {
	switch k := rnd.IntN(11); {
	case k < 5 || c.Last == 0 && k < 7:
		o := op{from: c.Last + 1}
		if c.Last == 0 {
			o.from = 1 + rnd.Uint64N(50)
		}
		for range 1 + rnd.IntN(4) {
			o.sizes = append(o.sizes, rnd.IntN(700)*rnd.IntN(2))
		}
		return o
	case k < 7:
		n := c.Last - c.First + 1
		switch rnd.IntN(5) {
		case 0:
			return op{kind: 1, from: c.First, to: c.Last}
		case 1, 2:
			return op{kind: 1, from: c.First, to: c.First + rnd.Uint64N(n)}
		}
		return op{kind: 1, from: c.Last - rnd.Uint64N(n), to: c.Last}
	case k < 8:
		return op{kind: 2, from: rnd.Uint64N(100)}
	case k < 9:
		return op{kind: 3, from: rnd.Uint64N(100)}
	case k < 10:
		return op{kind: 5, from: rnd.Uint64N(100)}
	}
	return op{kind: 4, text: fmt.Sprintf("node-%d", rnd.IntN(9))}
}

func TestLogAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		d := newMemDisk()
		l, err := Open(d, Options{Owner: owner, SegmentSize: 300})
		if err != nil {
			t.Fatal(err)
		}
		var want content
		for range 40 {
			if rnd.IntN(6) == 0 {
				l.Close()
				if l, err = Open(d, Options{Owner: owner, SegmentSize: 300}); err != nil {
					t.Fatal(err)
				}
			}
			o := drawOp(rnd, want)
			if err := o.do(l); err != nil {
				t.Fatal(err)
			}
			want = o.apply(want)
			got, err := read(l)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("after %+v\n got %+v\nwant %+v", o, got, want)
			}
		}
		l.Close()
	})
}

// The machine dies at any operation on the disk, and what was not synced is torn. What was confirmed is
// there; what was under way is there whole or not at all.
func TestFault25PowerLossKeepsWhatWasConfirmed(t *testing.T) {
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		d := newMemDisk()
		d.crashAt = 1 + rnd.IntN(120)
		var want content
		var under *op
		for range 1 + rnd.IntN(3) {
			l, err := Open(d, Options{Owner: owner, SegmentSize: 300})
			for err == nil {
				o := drawOp(rnd, want)
				under = &o
				if err = o.do(l); err == nil {
					want, under = o.apply(want), nil
				}
			}
			if !errors.Is(err, errCrash) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			d = d.restart(rnd)
			l, err = Open(d, Options{Owner: owner, SegmentSize: 300})
			if err != nil {
				t.Fatalf("seed %d: after the crash: %v", seed, err)
			}
			got, err := read(l)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			after := want
			if under != nil {
				after = under.apply(want)
			}
			if !reflect.DeepEqual(got, want) && !reflect.DeepEqual(got, after) {
				t.Fatalf("seed %d: %+v under way\n  got %+v\n want %+v\n   or %+v", seed, under, got, want, after)
			}
			want, under = got, nil
			d.crashAt = d.ops + 1 + rnd.IntN(60)
		}
	}
}

func filled(t testing.TB) (*memDisk, content) {
	t.Helper()
	d := newMemDisk()
	l := open(t, d)
	ops := []op{
		{from: 5, sizes: []int{10, 100, 0}}, {kind: 2, from: 3}, {kind: 3, from: 3}, {kind: 4, text: "node-b"}, {kind: 5, from: 77},
		{from: 8, sizes: []int{200, 1}}, {from: 10, sizes: []int{50}}, {kind: 1, from: 5, to: 5}, {from: 11, sizes: []int{7, 8}},
	}
	var want content
	for _, o := range ops {
		if err := o.do(l); err != nil {
			t.Fatal(err)
		}
		want = o.apply(want)
	}
	l.Close()
	return d, want
}

func TestFault26BitFlipInLog(t *testing.T) {
	d, want := filled(t)
	found := 0
	names, _ := d.List()
	for _, name := range names {
		for bit := range len(d.files[name].data) * 8 {
			damaged := d.restart(rand.New(rand.NewPCG(0, 0)))
			damaged.files[name].data[bit/8] ^= 1 << (bit % 8)
			l, err := Open(damaged, Options{Owner: owner, SegmentSize: 300})
			var got content
			if err == nil {
				got, err = read(l)
				l.Close()
			}
			var damage *DamageError
			switch {
			case errors.As(err, &damage):
				found++
				if damage.Path != d.Path(name) {
					t.Fatalf("bit %d of %s: blamed on %v", bit, name, err)
				}
			case err != nil:
				t.Fatalf("bit %d of %s: %v", bit, name, err)
			case !reflect.DeepEqual(got, want):
				t.Fatalf("bit %d of %s changed the log silently:\n got %+v\nwant %+v", bit, name, got, want)
			}
		}
	}
	if found == 0 {
		t.Fatal("no flipped bit was found")
	}
}

// A bit that flips while the log is open is found when it is read.
func TestFault26BitFlipInOpenLog(t *testing.T) {
	d, want := filled(t)
	l := open(t, d)
	defer l.Close()
	d.files[l.segments[0].name].data[l.segments[0].end-1] ^= 4
	var damage *DamageError
	if _, err := read(l); !errors.As(err, &damage) || damage.Index != l.segments[0].last() || damage.Index > want.Last {
		t.Fatalf("got %v", err)
	}
}

func TestFault28FileCutOrMissing(t *testing.T) {
	base, want := filled(t)
	names, _ := base.List()
	for _, name := range names {
		for size := -1; size < len(base.files[name].data); size++ {
			d := base.restart(rand.New(rand.NewPCG(0, 0)))
			if size < 0 {
				delete(d.files, name)
			} else {
				d.files[name].data = d.files[name].data[:size]
			}
			l, err := Open(d, Options{Owner: owner, SegmentSize: 300})
			var damage *DamageError
			if err == nil {
				got, _ := read(l)
				t.Fatalf("%s of %d bytes was taken for whole: %+v, want %+v", name, size, got, want)
			}
			if !errors.As(err, &damage) {
				t.Fatalf("%s of %d bytes: %v", name, size, err)
			}
		}
	}
}

func TestFault27FolderOfAnotherNode(t *testing.T) {
	d, _ := filled(t)
	_, err := Open(d, Options{Owner: "cluster/b"})
	if err == nil || !strings.Contains(err.Error(), owner) || !strings.Contains(err.Error(), "cluster/b") {
		t.Fatalf("got %v", err)
	}
}

func TestFault19FullDisk(t *testing.T) {
	d, want := filled(t)
	l := open(t, d)
	var trouble []error
	l.o.Trouble = func(err error) { trouble = append(trouble, err) }
	d.limit = 1
	for _, f := range d.files {
		d.limit += int64(len(f.data))
	}
	big := op{from: want.Last + 1, sizes: []int{500, 500}}
	if err := big.do(l); !IsFull(err) {
		t.Fatalf("got %v", err)
	}
	vote := op{kind: 4, text: "node-c"}
	if err := vote.do(l); err != nil {
		t.Fatalf("a vote on a full disk: %v", err)
	}
	want = vote.apply(want)
	d.limit = 0
	for range 3 { // over what the failed write left, and into the next segment
		o := op{from: want.Last + 1, sizes: []int{1, 301}}
		if err := o.do(l); err != nil {
			t.Fatal(err)
		}
		want = o.apply(want)
	}
	l.Close()
	got, err := read(open(t, d))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v\nwant %+v", got, err, want)
	}
	if len(trouble) != 2 || !IsFull(trouble[0]) || trouble[1] != nil {
		t.Fatalf("trouble told: %v", trouble)
	}
}

func TestFault19FullTmpfs(t *testing.T) {
	dir := tmpfs(t, "size=256k")
	d, err := Folder(dir + "/raft")
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, d)
	defer l.Close()
	stored := uint64(0)
	for err == nil {
		if err = l.StoreLog(entry(stored+1, 5000)); err == nil {
			stored++
		}
	}
	if !IsFull(err) || stored == 0 {
		t.Fatalf("after %d entries: %v", stored, err)
	}
	if err := l.SetUint64([]byte(keyTerm), 9); err != nil {
		t.Fatalf("a term on a full disk: %v", err)
	}
	if err := l.DeleteRange(1, stored-1); err != nil {
		t.Fatalf("deleting on a full disk: %v", err)
	}
	if err := l.StoreLog(entry(stored+1, 5000)); err != nil {
		t.Fatalf("with room again: %v", err)
	}
}

// tmpfs mounts a small file system for a test, or skips it.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can mount a tmpfs of a given size")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no tmpfs can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// Whatever fails other than for want of room: the log takes no more writes, and what was confirmed is there.
func TestFault21FailedWriteIsNeverRetried(t *testing.T) {
	for failOp := 1; ; failOp++ {
		d, want := filled(t)
		l := open(t, d)
		d.failOp, d.failErr = d.ops+failOp, syscall.EIO
		o := op{from: want.Last + 1, sizes: []int{400}}
		err := o.do(l)
		if err == nil {
			if failOp < 4 {
				t.Fatalf("no error with a failure at operation %d", failOp)
			}
			l.Close()
			return
		}
		if !errors.Is(err, ErrAbandoned) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("operation %d: %v", failOp, err)
		}
		if err := (op{kind: 2, from: 8}).do(l); !errors.Is(err, ErrAbandoned) {
			t.Fatalf("a write afterwards: %v", err)
		}
		l.Close()
		d = d.restart(rand.New(rand.NewPCG(uint64(failOp), 0)))
		got, err := read(open(t, d))
		if err != nil || !reflect.DeepEqual(got, want) && !reflect.DeepEqual(got, o.apply(want)) {
			t.Fatalf("operation %d: %+v, %v", failOp, got, err)
		}
	}
}

func TestFault23HangingDiskIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMemDisk()
		hung := make(chan string, 1)
		l, err := Open(d, Options{Owner: owner, WriteLimit: 5 * time.Second,
			Hung: func(what string, limit time.Duration) { hung <- fmt.Sprint(what, " ", limit) }})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.StoreLog(entry(1, 10)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if len(hung) > 0 {
			t.Fatal("called without a write under way")
		}
		d.hang = make(chan struct{})
		done := make(chan error)
		go func() { done <- l.StoreLog(entry(2, 10)) }()
		time.Sleep(5*time.Second - 1)
		synctest.Wait()
		if len(hung) > 0 {
			t.Fatal("called before the limit")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := <-hung; got != "storing entries 5s" {
			t.Fatalf("called with %q", got)
		}
		var e raft.Log
		if err := l.GetLog(1, &e); err != nil {
			t.Fatalf("reading waits for the write: %v", err)
		}
		close(d.hang)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		l.Close()
	})
}

func TestWhatRaftMustNotAskFor(t *testing.T) {
	d, want := filled(t)
	l := open(t, d)
	for name, err := range map[string]error{
		"gap":          l.StoreLog(entry(want.Last+2, 1)),
		"again":        l.StoreLog(entry(want.Last, 1)),
		"middle":       l.DeleteRange(want.First+1, want.Last-1),
		"unknown key":  l.Set([]byte("x"), nil),
		"unknown term": l.SetUint64([]byte("x"), 1),
		"long vote":    l.Set([]byte(keyVote), make([]byte, maxVote+1)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if got, err := read(l); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("refused operations changed the log: %+v, %v", got, err)
	}
	var e raft.Log
	if err := l.GetLog(want.First-1, &e); !errors.Is(err, raft.ErrLogNotFound) {
		t.Fatalf("before the first: %v", err)
	}
	l.Close()
	if err := l.StoreLog(entry(want.Last+1, 1)); !errors.Is(err, ErrClosed) {
		t.Fatalf("after Close: %v", err)
	}
}

func FuzzRecord(f *testing.F) {
	for _, size := range []int{0, 1, 300} {
		b, _ := appendRecord(nil, entry(5, size))
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= headSize {
			if n, err := bodySize(b, int64(len(b))); err == nil && headSize+n > len(b) {
				t.Fatalf("size %d of %d bytes", n, len(b))
			}
		}
		var e raft.Log
		if parseRecord(b, 5, &e) != nil {
			return
		}
		again, err := appendRecord(nil, &e)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x was read and written as %x, %v", b, again, err)
		}
	})
}

func FuzzState(f *testing.F) {
	s := state{serial: 4, owner: owner, term: 2, voteTerm: 2, vote: "b", voted: true, formation: 8, first: 3, last: 9, segment: 3, end: 77}
	f.Add(s.encode())
	f.Add((&state{}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeState(b)
		if err == nil && !bytes.Equal(s.encode(), b) {
			// Bytes that are padding carry no meaning, but the checksum covers them.
			again, err := decodeState(s.encode())
			if err != nil || again != s {
				t.Fatalf("%+v became %+v, %v", s, again, err)
			}
		}
	})
}

func BenchmarkStore1KiB(b *testing.B) {
	d, err := Folder(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	l, err := Open(d, Options{Owner: owner})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for i := range b.N {
		if err := l.StoreLog(entry(uint64(i+1), 1024)); err != nil {
			b.Fatal(err)
		}
	}
}
