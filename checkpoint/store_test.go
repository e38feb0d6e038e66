package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
)

// small are the settings of most tests.
func small(dir string) Options {
	return Options{Dir: dir, Job: "job", Node: "node", Reserve: 1 << 20}
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// chunk is what a test puts and reads.
type chunk struct {
	number uint64
	kind   byte
	data   []byte
}

// content returns the chunks of a region in an increment, by a rule, so that any process knows what must be there.
func content(number uint64, part, region int) []chunk {
	r := rand.New(rand.NewPCG(number, uint64(part)<<16|uint64(region)))
	if r.IntN(6) == 0 {
		return nil
	}
	var out []chunk
	for range 1 + r.IntN(4) {
		n := r.IntN(6000)
		if r.IntN(20) == 0 {
			n = 3*maxPiece - 1 + r.IntN(3)
		}
		data := make([]byte, n)
		for i := 0; i+8 <= n; i += 8 {
			binary.LittleEndian.PutUint64(data[i:], r.Uint64())
		}
		out = append(out, chunk{number, byte(r.IntN(256)), data})
	}
	return out
}

// put writes a part by that rule, its regions interleaved; base is that of all regions.
func put(s *Store, number uint64, part, regions int, chain []uint64, base uint64) (*Part, error) {
	w, err := s.Write(number, part, chain, 1<<20)
	if err != nil {
		return nil, err
	}
	todo := make([][]chunk, regions)
	for region := range todo {
		todo[region] = content(number, part, region)
	}
	for more := true; more; {
		more = false
		for region := range todo {
			if len(todo[region]) == 0 {
				continue
			}
			c := todo[region][0]
			todo[region] = todo[region][1:]
			more = true
			data := slices.Clone(c.data)
			if err := w.Put(region, c.kind, data); err != nil {
				w.Abort()
				return nil, err
			}
			clear(data) // it was to be copied
		}
	}
	for region := range regions {
		if err := w.Describe(RegionPart{Region: region, Base: base, Entities: number * 10, Events: 7, Digest: number ^ uint64(region)}); err != nil {
			w.Abort()
			return nil, err
		}
	}
	p, err := w.Close()
	if err != nil {
		w.Abort()
	}
	return p, err
}

// manifest is the manifest of a checkpoint of the given parts.
func manifest(number, parent uint64, chain []uint64, parts ...*Part) *Manifest {
	m := &Manifest{Format: Format, Number: number, Parent: parent, Chain: append(slices.Clone(chain), number), At: 5, Scenario: "s", Seed: "1"}
	for _, p := range parts {
		m.Parts = append(m.Parts, p.Ref("a", "b"))
	}
	return m
}

// window is how many older increments a checkpoint of the tests builds on.
const window = 4

// chainOf returns the chain of a checkpoint where all numbers from 1 were committed.
func chainOf(number uint64) (chain []uint64, base uint64) {
	base = 1
	if number > window {
		base = number - window
	}
	for n := base; n < number; n++ {
		chain = append(chain, n)
	}
	return chain, base
}

// step takes one checkpoint of one part.
func step(s *Store, number uint64, regions int) error {
	chain, base := chainOf(number)
	return stepOn(s, number, regions, number-1, chain, base)
}

// stepNext takes the next checkpoint, whatever numbers were given up.
func stepNext(s *Store, regions int) error {
	n := s.Next()
	m := s.Latest()
	if m == nil {
		return stepOn(s, n, regions, 0, nil, n)
	}
	chain := m.Chain[max(0, len(m.Chain)-window):]
	return stepOn(s, n, regions, m.Number, chain, chain[0])
}

func stepOn(s *Store, number uint64, regions int, parent uint64, chain []uint64, base uint64) error {
	p, err := put(s, number, 0, regions, chain, base)
	if err != nil {
		return err
	}
	return s.Commit(manifest(number, parent, chain, p))
}

func mustStep(t testing.TB, s *Store, number uint64, regions int) {
	t.Helper()
	if err := step(s, number, regions); err != nil {
		t.Fatalf("checkpoint %d: %v", number, err)
	}
}

// check reads all of a checkpoint made by step, and compares it with the rule.
func check(s *Store, number uint64, regions int) error {
	m, err := s.Manifest(number)
	if err != nil {
		return err
	}
	for region := range regions {
		var want, got []chunk
		for _, n := range slices.Backward(m.Chain) {
			want = append(want, content(n, 0, region)...)
		}
		err := s.Read(number, 0, region, func(n uint64, kind byte, data []byte) error {
			got = append(got, chunk{n, kind, bytes.Clone(data)})
			return nil
		})
		if err != nil {
			return err
		}
		same := func(a, b chunk) bool { return a.number == b.number && a.kind == b.kind && bytes.Equal(a.data, b.data) }
		if !slices.EqualFunc(got, want, same) {
			return fmt.Errorf("checkpoint %d, region %d: %d chunks read, %d written, or they differ", number, region, len(got), len(want))
		}
	}
	return nil
}

// checkAll compares all that a store of step's checkpoints has.
func checkAll(s *Store, regions int) error {
	for _, m := range s.Manifests() {
		if err := check(s, m.Number, regions); err != nil {
			return err
		}
	}
	return s.Verify(nil)
}

func numbers(s *Store) []uint64 {
	var out []uint64
	for _, m := range s.Manifests() {
		out = append(out, m.Number)
	}
	return out
}

func TestCheckpointsComeBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := mustOpen(t, small(dir))
	if s.Latest() != nil || s.Next() != 1 {
		t.Fatalf("a new store has %v, next %d", s.Latest(), s.Next())
	}
	for n := uint64(1); n <= 8; n++ {
		mustStep(t, s, n, 3)
	}
	for range 3 {
		if got := numbers(s); !slices.Equal(got, []uint64{6, 7, 8}) {
			t.Fatalf("kept are %v", got)
		}
		if err := checkAll(s, 3); err != nil {
			t.Fatal(err)
		}
		if s.Next() != 9 {
			t.Fatalf("next is %d", s.Next())
		}
		if m := s.Latest(); m.Number != 8 || m.At != 5 || m.Scenario != "s" || len(m.Parts) != 1 || !slices.Equal(m.Parts[0].Holders, []string{"a", "b"}) {
			t.Fatalf("the manifest is %+v", m)
		}
		mustClose(t, s)
		s = mustOpen(t, small(dir))
	}
	p, err := s.Part(8, 0)
	if err != nil {
		t.Fatal(err)
	}
	if g, ok := p.Region(2); !ok || g.Entities != 80 || g.Events != 7 || g.Digest != 8^2 || g.Base != 4 {
		t.Fatalf("region 2 is %+v", g)
	}
	if _, err := s.Part(1, 0); !errors.Is(err, ErrUnknown) {
		t.Fatalf("increment 1, which nothing needs: %v", err)
	}
	if _, err := s.Part(2, 0); err != nil {
		t.Fatalf("increment 2, which 6 needs: %v", err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("the folder's mode is %v, %v", info.Mode(), err)
	}
}

func TestAbortedIsNeverSeen(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, small(dir))
	mustStep(t, s, 1, 2)
	w, err := s.Write(2, 0, []uint64{1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if err := w.Put(0, 1, make([]byte, 4000)); err != nil {
			t.Fatal(err)
		}
	}
	w.Abort()
	w.Abort()
	if err := w.Put(0, 1, nil); err == nil {
		t.Fatal("an aborted writer takes chunks")
	}
	if _, err := w.Close(); err == nil {
		t.Fatal("an aborted writer closes")
	}
	for range 2 {
		if _, err := s.Write(2, 0, []uint64{1}, 0); !errors.Is(err, ErrUsed) {
			t.Fatalf("its number again: %v", err)
		}
		if s.Next() != 3 {
			t.Fatalf("next is %d", s.Next())
		}
		mustClose(t, s)
		s = mustOpen(t, small(dir))
	}
	chain := []uint64{1}
	p, err := put(s, 3, 0, 2, chain, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(manifest(3, 1, chain, p)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prune(3, 0); err != nil {
		t.Fatal(err)
	}
	keys, err := s.keys(increment{2, 0}.key(keyChunk), 9)
	if err != nil || len(keys) != 0 {
		t.Fatalf("%d chunks of the aborted one are left, %v", len(keys), err)
	}
	if keys, err = s.keys([]byte{keyUsed}, 9); err != nil || len(keys) != 2 {
		t.Fatalf("%d numbers are kept as used, %v", len(keys), err)
	}
}

func TestPartsAndCopies(t *testing.T) {
	a, b := mustOpen(t, small(t.TempDir())), mustOpen(t, small(t.TempDir()))
	var parts []*Part
	for part := range 2 {
		p, err := put(a, 7, part, 3, nil, 7)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, p)
	}
	// A copy of part 1, made from what is stored.
	w, err := b.Write(7, 1, nil, int64(parts[1].bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.ReadIncrement(7, 1, w.Put); err != nil {
		t.Fatal(err)
	}
	for _, g := range parts[1].Regions {
		if err := w.Describe(g); err != nil {
			t.Fatal(err)
		}
	}
	p, err := w.Close()
	if err != nil || p.Root != parts[1].Root {
		t.Fatalf("the copy has root %v, not %v: %v", p, parts[1].Root, err)
	}
	m := manifest(7, 0, nil, parts...)
	for _, s := range []*Store{a, b} {
		if err := s.Commit(m); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(m); err != nil {
			t.Fatalf("the same again: %v", err)
		}
		if err := s.Verify(nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Read(7, 0, 0, nil); !errors.Is(err, ErrUnknown) {
		t.Fatalf("a part that is not here: %v", err)
	}
	bad := manifest(8, 7, nil, parts...)
	bad.Parts[0].Root, bad.Parts[0].Base, bad.Parts[1].Base = "x", 8, 8
	if _, err := put(a, 8, 0, 1, nil, 8); err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(bad); err == nil || !strings.Contains(err.Error(), "root") {
		t.Fatalf("a manifest with another root: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	s := mustOpen(t, small(t.TempDir()))
	p, err := put(s, 5, 0, 1, nil, 5)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(manifest(5, 0, nil, p)); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"number 0":            func() error { _, err := s.Write(0, 0, nil, 0); return err },
		"a huge number":       func() error { _, err := s.Write(1<<63, 0, nil, 0); return err },
		"an old number":       func() error { _, err := s.Write(4, 0, nil, 0); return err },
		"part -1":             func() error { _, err := s.Write(9, -1, nil, 0); return err },
		"part 65536":          func() error { _, err := s.Write(9, 65536, nil, 0); return err },
		"a negative estimate": func() error { _, err := s.Write(9, 0, nil, -1); return err },
		"an unknown chain":    func() error { _, err := s.Write(9, 0, []uint64{4, 5}, 0); return err },
		"a falling chain":     func() error { _, err := s.Write(9, 0, []uint64{5, 5}, 0); return err },
		"a later chain":       func() error { _, err := s.Write(9, 0, []uint64{9}, 0); return err },
		"an old commit":       func() error { return s.Commit(manifest(4, 0, nil)) },
		"another commit":      func() error { return s.Commit(manifest(5, 0, nil)) },
		"another format":      func() error { m := manifest(9, 0, nil); m.Format = 9; return s.Commit(m) },
		"a chain without end": func() error { m := manifest(9, 0, nil); m.Chain = nil; return s.Commit(m) },
		"a later parent":      func() error { return s.Commit(manifest(9, 9, nil)) },
		"keep nothing":        func() error { _, err := s.Prune(0, 0); return err },
		"read an old one":     func() error { return s.Read(1, 0, 0, nil) },
		"no such region":      func() error { return s.Read(5, 0, 4, nil) },
		"hold an old one":     func() error { _, err := s.Hold(1); return err },
	} {
		if do() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	w, err := s.Write(9, 0, []uint64{5}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"region -1":      func() error { return w.Put(-1, 0, nil) },
		"region 65536":   func() error { return w.Put(65536, 0, nil) },
		"a huge chunk":   func() error { return w.Put(0, 0, make([]byte, MaxChunk+1)) },
		"describe -1":    func() error { return w.Describe(RegionPart{Region: -1, Base: 9}) },
		"a strange base": func() error { return w.Describe(RegionPart{Region: 0, Base: 4}) },
	} {
		if do() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := w.Put(3, 0, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err == nil || !strings.Contains(err.Error(), "region 3") {
		t.Errorf("a region without description: %v", err)
	}
	mustClose(t, s)
	if err := s.Commit(manifest(9, 0, nil)); !errors.Is(err, ErrClosed) {
		t.Errorf("commit after close: %v", err)
	}
	if _, err := s.Write(10, 0, nil, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	for _, o := range []Options{{}, {Dir: "x", KeepLast: -1}, {Dir: "x", Memory: -1}} {
		if _, err := Open(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestFoldersOfOthers(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, small(dir))
	mustStep(t, s, 1, 1)
	if _, err := Open(small(dir)); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("twice open: %v", err)
	}
	mustClose(t, s)
	before := sumTree(t, dir)
	for _, o := range []Options{{Dir: dir, Job: "other"}, {Dir: dir, Node: "other"}, {Dir: dir, AtLeast: 2}} {
		_, err := Open(o)
		if as[*IdentityError](err) == nil && as[*StaleError](err) == nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if got := sumTree(t, dir); got != before {
		t.Error("a refusal changed the folder")
	}
	s = mustOpen(t, Options{Dir: dir, AtLeast: 1})
	if s.Job() != "job" || s.Node() != "node" {
		t.Errorf("the folder is of %s, %s", s.Job(), s.Node())
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(small(other)); err == nil || !strings.Contains(err.Error(), "thesis.tex") {
		t.Errorf("a folder of other things: %v", err)
	}
	if _, err := Open(Options{Dir: filepath.Join(other, "none"), ReadOnly: true}); err == nil {
		t.Error("a folder that is not there is read")
	}
}

// as returns the error of a type in err, or nil.
func as[E error](err error) E {
	var e E
	errors.As(err, &e)
	return e
}

// sumTree returns a text that differs when any file but the lock does.
func sumTree(t testing.TB, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == lockName {
			return err
		}
		data, err := os.ReadFile(path)
		out = append(out, fmt.Sprintf("%s %x", path, data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(out, cmp.Compare[string])
	return strings.Join(out, "\n")
}

func TestReadOnlyChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, small(dir))
	o := small(dir)
	o.ReadOnly = true
	if _, err := Open(o); !errors.Is(err, ErrInUse) {
		t.Fatalf("reading while it is written: %v", err)
	}
	mustClose(t, s)
	empty := mustOpen(t, o)
	if empty.Latest() != nil {
		t.Fatal("an empty folder has checkpoints")
	}
	mustClose(t, empty)
	s = mustOpen(t, small(dir))
	for n := uint64(1); n <= 5; n++ {
		mustStep(t, s, n, 2)
	}
	mustClose(t, s)
	before := sumTree(t, dir)
	a, b := mustOpen(t, o), mustOpen(t, o)
	for _, s := range []*Store{a, b} {
		if err := checkAll(s, 2); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(9, 0, nil, 0); !errors.Is(err, ErrReadOnly) {
			t.Errorf("write: %v", err)
		}
		if err := s.Commit(manifest(9, 0, nil)); !errors.Is(err, ErrReadOnly) {
			t.Errorf("commit: %v", err)
		}
		if _, err := s.Prune(1, 0); !errors.Is(err, ErrReadOnly) {
			t.Errorf("prune: %v", err)
		}
		if _, err := s.Stats(); err != nil {
			t.Error(err)
		}
		mustClose(t, s)
	}
	if sumTree(t, dir) != before {
		t.Error("reading changed the folder")
	}
}

// TestMemoryIsBounded writes much more than the database may hold.
func TestMemoryIsBounded(t *testing.T) {
	s := mustOpen(t, Options{Dir: t.TempDir(), Reserve: 1 << 20})
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var most uint64
	data := make([]byte, ChunkSize)
	for n := uint64(1); n <= 4; n++ {
		w, err := s.Write(n, 0, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 32 << 20 / ChunkSize {
			if err := w.Put(0, 0, data); err != nil {
				t.Fatal(err)
			}
			if i%256 == 0 {
				runtime.GC() // so that no garbage is counted
				metrics.Read(sample)
				most = max(most, sample[0].Value.Uint64())
			}
		}
		if err := w.Describe(RegionPart{Region: 0, Base: n}); err != nil {
			t.Fatal(err)
		}
		p, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(manifest(n, n-1, nil, p)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("at most %d MiB live", most>>20)
	if most > defaultMemory {
		t.Errorf("%d bytes live; %d are allowed", most, defaultMemory)
	}
}
