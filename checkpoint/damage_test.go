package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/flock"
)

// long reports whether the long tests were asked for.
func long() bool { return os.Getenv("SIMNODE_LONG_TESTS") != "" }

const damageRegions = 3

// damageStore makes a small store whose data is in tables and, until it is closed, in a log too. It returns what a
// crash at its end would leave, and the folder after it was closed.
func damageStore(t *testing.T) (crashed, closed string) {
	t.Helper()
	closed, crashed = filepath.Join(t.TempDir(), "closed"), filepath.Join(t.TempDir(), "crashed")
	s := mustOpen(t, small(closed))
	for n := uint64(1); n <= 6; n++ {
		if n == 4 {
			mustClose(t, s)
			s = mustOpen(t, small(closed))
		}
		mustStep(t, s, n, damageRegions)
	}
	copyTree(t, closed, crashed)
	mustClose(t, s)
	return crashed, closed
}

// copyTree copies a folder; what is zero is left out, since logs are mostly empty.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		if d.Name() == ballastName {
			return nil
		}
		return copySparse(path, filepath.Join(to, rel))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func copySparse(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	buf := make([]byte, 64<<10)
	zero := string(make([]byte, len(buf)))
	for at := int64(0); ; {
		n, err := io.ReadFull(in, buf)
		if n > 0 && string(buf[:n]) != zero[:n] {
			if _, err := out.WriteAt(buf[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return out.Truncate(at)
		}
		if err != nil {
			return err
		}
	}
}

// files lists the files of a store, relative to it.
func files(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != lockName && d.Name() != probingName && d.Name() != ballastName {
			rel, _ := filepath.Rel(dir, path)
			out = append(out, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rightOrDamaged opens a store that was made by damageStore and then harmed: it has exactly what was committed, or
// says that it is damaged.
func rightOrDamaged(dir string) (damage bool, err error) {
	s, err := Open(small(dir))
	if err == nil {
		defer s.Close()
		if got := numbers(s); !slices.Equal(got, []uint64{4, 5, 6}) {
			return false, fmt.Errorf("kept are %v", got)
		}
		err = checkAll(s, damageRegions)
	}
	if as[*DamageError](err) != nil {
		return true, nil
	}
	return false, err
}

func TestFault26BitFlip(t *testing.T) {
	each := 6
	if long() {
		each = 150
	}
	crashed, closed := damageStore(t)
	for name, from := range map[string]string{"closed": closed, "crashed": crashed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noticed, flips := 0, 0
			for _, file := range files(t, from) {
				for _, at := range places(t, filepath.Join(from, file), each) {
					dir := filepath.Join(t.TempDir(), "s")
					copyTree(t, from, dir)
					flip(t, filepath.Join(dir, file), at)
					damage, err := rightOrDamaged(dir)
					if err != nil {
						t.Errorf("%s, bit %d: %v", file, at, err)
					}
					flips++
					if damage {
						noticed++
					} else if name == "closed" {
						t.Errorf("%s, bit %d: not noticed", file, at)
					}
					if err := os.RemoveAll(dir); err != nil {
						t.Fatal(err)
					}
				}
			}
			t.Logf("%d flips, %d noticed", flips, noticed)
			if noticed < flips/4 {
				t.Errorf("of %d flips only %d were noticed", flips, noticed)
			}
		})
	}
}

// places returns about n bits of a file, most of them in the part that is not empty.
func places(t testing.TB, path string, n int) []int64 {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	used := len(strings.TrimRight(string(data), "\x00"))
	var out []int64
	for i := range n {
		at := int64(used) * int64(i) / int64(n)
		out = append(out, at*8+int64(i%8))
	}
	if used < len(data) {
		out = append(out, int64(used+len(data))/2*8)
	}
	if used == 0 && len(data) == 0 {
		return nil
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func flip(t testing.TB, path string, bit int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], bit/8); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << (bit % 8)
	if _, err := f.WriteAt(b[:], bit/8); err != nil {
		t.Fatal(err)
	}
}

// TestFault28FilesHarmed cuts, removes and exchanges files.
func TestFault28FilesHarmed(t *testing.T) {
	crashed, closed := damageStore(t)
	for name, from := range map[string]string{"closed": closed, "crashed": crashed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := files(t, from)
			try := func(what string, harm func(dir string) error) {
				dir := filepath.Join(t.TempDir(), "s")
				copyTree(t, from, dir)
				if err := harm(dir); err != nil {
					t.Fatal(err)
				}
				damage, err := rightOrDamaged(dir)
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if name == "closed" && !damage {
					t.Errorf("%s is not noticed", what)
				}
			}
			for i, file := range all {
				try(file+" missing", func(dir string) error { return os.Remove(filepath.Join(dir, file)) })
				info, err := os.Stat(filepath.Join(from, file))
				if err != nil {
					t.Fatal(err)
				}
				if info.Size() == 0 {
					continue
				}
				for _, size := range []int64{0, info.Size() / 2, info.Size() - 1} {
					try(fmt.Sprintf("%s cut to %d", file, size), func(dir string) error { return os.Truncate(filepath.Join(dir, file), size) })
				}
				try(file+" exchanged", func(dir string) error {
					a, b := filepath.Join(dir, file), filepath.Join(dir, all[(i+1)%len(all)])
					return swap(a, b)
				})
			}
			try("the database missing", func(dir string) error { return os.RemoveAll(filepath.Join(dir, dbName)) })
			try("another file", func(dir string) error {
				return os.WriteFile(filepath.Join(dir, dbName, "000099.sst"), []byte("x"), 0o600)
			})
		})
	}
}

func swap(a, b string) error {
	if err := os.Rename(a, a+"-"); err != nil {
		return err
	}
	if err := os.Rename(b, a); err != nil {
		return err
	}
	return os.Rename(a+"-", b)
}

// TestFault27StaleDisk puts an old copy of the folder back, whole or in part, and another node's.
func TestFault27StaleDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	s := mustOpen(t, small(dir))
	for n := uint64(1); n <= 4; n++ {
		mustStep(t, s, n, damageRegions)
	}
	mustClose(t, s)
	old := filepath.Join(t.TempDir(), "old")
	copyTree(t, dir, old)
	s = mustOpen(t, small(dir))
	for n := uint64(5); n <= 6; n++ {
		mustStep(t, s, n, damageRegions)
	}
	mustClose(t, s)

	o := small(old)
	o.AtLeast = 6
	_, err := Open(o)
	if e := as[*StaleError](err); e == nil || e.Newest != 4 || e.AtLeast != 6 {
		t.Errorf("an old copy: %v", err)
	}
	o.AtLeast, o.Node = 0, "neighbour"
	_, err = Open(o)
	if e := as[*IdentityError](err); e == nil || e.What != "node" || e.Have != "node" || e.Want != "neighbour" {
		t.Errorf("another node's folder: %v", err)
	}
	for _, part := range [][]string{{dbName}, {dbName, sumsName}, {headName}, {sumsName}, {headName, sumsName}} {
		mixed, again := filepath.Join(t.TempDir(), "mixed"), filepath.Join(t.TempDir(), "again")
		copyTree(t, dir, mixed)
		copyTree(t, old, again)
		for _, name := range part {
			if err := os.RemoveAll(filepath.Join(mixed, name)); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(again, name), filepath.Join(mixed, name)); err != nil {
				t.Fatal(err)
			}
		}
		damage, err := rightOrDamaged(mixed)
		if err != nil || !damage {
			t.Errorf("old %v: damage %v, %v", part, damage, err)
		}
	}
}

// TestFault24TornWrite cuts the log of a crashed store at many places: what was not committed may be lost, and what was
// is there or missed.
func TestFault24TornWrite(t *testing.T) {
	crashed, _ := damageStore(t)
	logs, err := filepath.Glob(filepath.Join(crashed, dbName, "*.mem"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	log := logs[len(logs)-1]
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	used := len(strings.TrimRight(string(data), "\x00"))
	for i := range 12 {
		dir := filepath.Join(t.TempDir(), "s")
		copyTree(t, crashed, dir)
		torn := data[:used-1-(used-1)*i/12]
		torn = append(slices.Clone(torn), make([]byte, len(data)-len(torn))...)
		if err := os.WriteFile(filepath.Join(dir, dbName, filepath.Base(log)), torn, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := rightOrDamaged(dir); err != nil {
			t.Errorf("torn at %d: %v", len(torn), err)
		}
	}
	if damage, err := rightOrDamaged(crashed); err != nil || damage {
		t.Errorf("not torn: damage %v, %v", damage, err)
	}
}

func TestProbeNeedsProbing(t *testing.T) {
	var a probeAnswer
	if a.Sound == probeSound {
		t.Fatal("an empty answer is taken for a sound folder")
	}
	err := Probe(filepath.Join(t.TempDir(), "none"), 0)
	if as[*DamageError](err) == nil {
		t.Fatalf("a folder that is not there: %v", err)
	}
}

// TestFault22ReadFails takes the tables away under an open store: reading is a fault of memory, and says so.
func TestFault22ReadFails(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, small(dir))
	for n := uint64(1); n <= 3; n++ {
		mustStep(t, s, n, damageRegions)
	}
	mustClose(t, s)
	s = mustOpen(t, small(dir))
	tables, err := filepath.Glob(filepath.Join(dir, dbName, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		if err := os.Truncate(table, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkAll(s, damageRegions); as[*DamageError](err) == nil {
		t.Fatalf("the tables are gone: %v", err)
	}
	if err := s.Close(); as[*DamageError](err) == nil {
		t.Fatalf("it closes: %v", err)
	}
	if _, err := Open(small(dir)); as[*DamageError](err) == nil {
		t.Fatalf("it opens again: %v", err)
	}
}

// TestOneProbeAtATime has another process at work in a folder that was not closed.
func TestOneProbeAtATime(t *testing.T) {
	crashed, _ := damageStore(t)
	other := flock.New(filepath.Join(crashed, probingName))
	if ok, err := other.TryLock(); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if _, err := Open(small(crashed)); !errors.Is(err, ErrInUse) {
		t.Fatalf("while another is at work: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	// A reader puts it in order too.
	o := small(crashed)
	o.ReadOnly = true
	s := mustOpen(t, o)
	if err := checkAll(s, damageRegions); err != nil {
		t.Fatal(err)
	}
}

// TestPanicOfTheReaderIsItsOwn has the function that Read calls panic.
func TestPanicOfTheReaderIsItsOwn(t *testing.T) {
	s := mustOpen(t, small(t.TempDir()))
	mustStep(t, s, 1, 3)
	defer func() {
		if r := recover(); r != "mine" {
			t.Errorf("recovered %v", r)
		}
		if len(s.held) != 0 {
			t.Error("the increment is still held")
		}
	}()
	for region := range 3 {
		_ = s.Read(1, 0, region, func(uint64, byte, []byte) error { panic("mine") })
	}
	t.Error("no panic")
}

// TestChunksAreCheckedOneByOne alters chunks behind the database's back, with checksums of its own that fit.
func TestChunksAreCheckedOneByOne(t *testing.T) {
	for name, harm := range map[string]func(s *Store, a, b []byte) error{
		"a bit": func(s *Store, a, _ []byte) error {
			v := value(s, a)
			v[len(v)-1] ^= 4
			return s.set(2, a, v)
		},
		"the kind": func(s *Store, a, _ []byte) error {
			v := value(s, a)
			v[0]++
			return s.set(2, a, v)
		},
		"exchanged": func(s *Store, a, b []byte) error {
			va, vb := value(s, a), value(s, b)
			return errors.Join(s.set(2, a, vb), s.set(2, b, va))
		},
		"cut short":   func(s *Store, a, _ []byte) error { return s.set(2, a, value(s, a)[:20]) },
		"cut shorter": func(s *Store, a, _ []byte) error { return s.set(2, a, value(s, a)[:5]) },
		"longer":      func(s *Store, a, _ []byte) error { return s.set(2, a, append(value(s, a), 0)) },
		"removed": func(s *Store, a, _ []byte) error {
			txn := s.db.NewTransactionAt(2, true)
			defer txn.Discard()
			return errors.Join(txn.Delete(a), txn.CommitAt(2, nil))
		},
		"hashed anew": func(s *Store, a, _ []byte) error { // only the root of the region tells
			v := value(s, a)
			v[len(v)-1] ^= 4
			h := header(a[:chunkPrefix], v[0], v[chunkHeader:])
			return s.set(2, a, append(h[:], v[chunkHeader:]...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, small(t.TempDir()))
			mustStep(t, s, 1, 1)
			w, err := s.Write(2, 0, []uint64{1}, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if err := w.Put(5, byte(i), []byte(strings.Repeat("x", 100+i))); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Describe(RegionPart{Region: 5, Base: 1}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Close(); err != nil {
				t.Fatal(err)
			}
			read := func() error {
				return s.Read(2, 0, 5, func(uint64, byte, []byte) error { return nil })
			}
			if err := read(); err != nil {
				t.Fatal(err)
			}
			key := func(i uint32) []byte { return append(increment{2, 0}.chunkKey(5, i), 0, 0) }
			if err := harm(s, key(1), key(2)); err != nil {
				t.Fatal(err)
			}
			e := as[*DamageError](read())
			if e == nil || e.Number != 2 || e.Part != 0 || e.Region != 5 || e.Chunk != 1 && name != "hashed anew" {
				t.Errorf("the error is %v", e)
			}
		})
	}
}

// value returns the value of a key.
func value(s *Store, key []byte) []byte {
	txn := s.db.NewTransactionAt(1<<62, false)
	defer txn.Discard()
	item, err := txn.Get(key)
	if err != nil {
		return nil
	}
	v, _ := item.ValueCopy(nil)
	return v
}
