package cluster

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/simnode/simnode/control"
)

// What comes from the network or the disk is never believed.

func fullMeta() meta {
	return meta{
		version: 3, boot: strings.Repeat("b", maxBoot), role: control.Works, workers: 1 << 20, api: strings.Repeat("a", maxAPI),
		leaving: true, running: true, founded: true, stopping: true, release: strings.Repeat("v", maxRelease), instance: 1<<64 - 1, formation: 1<<64 - 1, term: 1<<64 - 1,
	}
}

func TestLargestMetadataFits(t *testing.T) {
	m := fullMeta()
	b := m.append(nil)
	if len(b) > maxMeta {
		t.Fatalf("%d bytes", len(b))
	}
	if got, err := parseMeta(b, 3); err != nil || got != m {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := parseMeta(b, 4); err != nil || got.version != 3 {
		t.Fatalf("of another version: %+v, %v", got, err)
	}
}

func FuzzMeta(f *testing.F) {
	m := fullMeta()
	f.Add(m.append(nil))
	m = meta{version: 3, boot: "b", role: control.Both}
	f.Add(m.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMeta(b, 3)
		if err != nil || m.version != 3 {
			return
		}
		if got, err := parseMeta(m.append(nil), 3); err != nil || got != m || len(m.append(nil)) > maxMeta {
			t.Fatalf("%+v became %+v, %v", m, got, err)
		}
	})
}

func FuzzInvitation(f *testing.F) {
	i := invitation{formation: 1, term: 2, boot: "b", instance: 3, reset: true}
	f.Add(i.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if i, err := parseInvitation(b); err == nil && !bytes.Equal(i.encode(), b) {
			t.Fatalf("%x became %x", b, i.encode())
		}
	})
}

func FuzzStatus(f *testing.F) {
	s := status{formation: 5, last: 9, leads: true, member: true}
	f.Add(s.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseStatus(b); err == nil && !bytes.Equal(s.encode(), b) {
			t.Fatalf("%x became %x", b, s.encode())
		}
	})
}

func FuzzMessage(f *testing.F) {
	var b bytes.Buffer
	_ = writeMessage(&b, askApply, []byte("text"))
	f.Add(b.Bytes())
	f.Add([]byte{1, 255, 255, 255, 255, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, body, err := readMessage(bytes.NewReader(b))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := writeMessage(&again, kind, body); err != nil || !bytes.HasPrefix(b, again.Bytes()) {
			t.Fatalf("%x became %x, %v", b, again.Bytes(), err)
		}
	})
}

func FuzzPeers(f *testing.F) {
	f.Add([]byte("127.0.0.1:7000\n[::1]:80\nx\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		addrs := parsePeers(b)
		if again := parsePeers([]byte(strings.Join(addrs, "\n"))); !reflect.DeepEqual(addrs, again) || len(addrs) > maxRemembered {
			t.Fatalf("%q became %q", addrs, again)
		}
	})
}

// fullSnapshot returns a snapshot as it stands on disk.
func fullSnapshot(t testing.TB, list ...string) []byte {
	m := &machine{fsm: &keyed{List: list}, changed: func() {}, formation: 5, founded: true, applied: 9}
	s, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var b sink
	if err := s.Persist(&b); err != nil || !b.closed {
		t.Fatal(err, b.closed)
	}
	return b.Bytes()
}

type sink struct {
	bytes.Buffer
	closed bool
}

func (s *sink) Close() error  { s.closed = true; return nil }
func (s *sink) Cancel() error { return nil }
func (s *sink) ID() string    { return "x" }

func FuzzSnapshot(f *testing.F) {
	f.Add(fullSnapshot(f, "a", "b"))
	huge := fullSnapshot(f)
	huge[8+8+1+8+4] = 1 // claims 4 GiB
	f.Add(huge)
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &machine{fsm: &keyed{}, changed: func() {}}
		_ = m.Restore(io.NopCloser(bytes.NewReader(b)))
	})
}

// Whichever bit of a snapshot flips, it is found, and the state stays as it was.
func TestFault26BitFlipInSnapshot(t *testing.T) {
	good := fullSnapshot(t, "a", "b")
	fsm := &keyed{}
	m := &machine{fsm: fsm, changed: func() {}}
	if err := m.Restore(io.NopCloser(bytes.NewReader(good))); err != nil {
		t.Fatal(err)
	}
	if f, founded, applied := m.facts(); f != 5 || !founded || applied != 9 || !reflect.DeepEqual(fsm.List, []string{"a", "b"}) {
		t.Fatalf("%d %v %d %q", f, founded, applied, fsm.List)
	}
	for bit := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		fsm := &keyed{List: []string{"before"}}
		m := &machine{fsm: fsm, changed: func() {}}
		if err := m.Restore(io.NopCloser(bytes.NewReader(bad))); err == nil {
			t.Fatalf("bit %d was not noticed", bit)
		}
		if f, _, _ := m.facts(); f != 0 || !reflect.DeepEqual(fsm.List, []string{"before"}) {
			t.Fatalf("bit %d: the state was changed", bit)
		}
	}
	for n := range good {
		if err := m.Restore(io.NopCloser(bytes.NewReader(good[:n]))); err == nil {
			t.Fatalf("a snapshot cut to %d bytes was taken", n)
		}
	}
}

// A length that is only claimed costs no memory.
func TestFault32ClaimedLengthAllocatesNothing(t *testing.T) {
	claim := []byte{askApply, 0, 0, 0x7f, 0} // 8 MiB, the most that is taken
	if n := testing.AllocsPerRun(10, func() { _, _, _ = readMessage(bytes.NewReader(claim)) }); n > 20 {
		t.Errorf("%v allocations", n)
	}
	if _, _, err := readMessage(bytes.NewReader([]byte{askApply, 255, 255, 255, 255})); err == nil || !strings.Contains(err.Error(), "claims 4294967295 bytes") {
		t.Errorf("got %v", err)
	}
	r := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			_, _, _ = readMessage(bytes.NewReader(claim))
		}
	})
	if n := r.AllocedBytesPerOp(); n > 64<<10 {
		t.Errorf("%d bytes for a length that was only claimed", n)
	}
}

func TestEntriesThatMakeNoSense(t *testing.T) {
	fsm := &keyed{}
	m := &machine{fsm: fsm, changed: func() {}}
	for _, data := range [][]byte{nil, {entryFormation, 1}, {99}} {
		if a := m.Apply(&raft.Log{Index: 4, Type: raft.LogCommand, Data: data}).(answered); a.err == nil {
			t.Errorf("%v: no error", data)
		}
	}
	if fsm.applied != 0 {
		t.Error("the FSM got one of them")
	}
}
