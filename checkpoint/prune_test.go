package checkpoint

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestFault38PruningRacesARestore reads checkpoints while newer ones push them out.
func TestFault38PruningRacesARestore(t *testing.T) {
	o := small(t.TempDir())
	o.KeepLast = 1
	s := mustOpen(t, o)
	mustStep(t, s, 1, 3)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	reads := make([]int, 2)
	for i := range reads {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				m := s.Latest()
				release, err := s.Hold(m.Number)
				if errors.Is(err, ErrUnknown) {
					continue // it went between the two
				}
				if err == nil {
					err = readHeld(s, m)
					release()
				}
				if err != nil {
					t.Errorf("checkpoint %d: %v", m.Number, err)
					return
				}
				reads[i]++
			}
		})
	}
	for n := uint64(2); n <= 60; n++ {
		if err := step(s, n, 3); err != nil {
			t.Fatal(err)
		}
		if n%10 == 0 {
			if _, err := s.Prune(1, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%v reads", reads)
	if len(s.held) != 0 {
		t.Errorf("%d increments are still held", len(s.held))
	}
	mustStep(t, s, 61, 3)
	if st, _ := s.Stats(); st.Increments != window+1 {
		t.Errorf("%d increments are kept", st.Increments)
	}
}

// readHeld compares a checkpoint that is held, and may not be listed any more, with the rule.
func readHeld(s *Store, m *Manifest) error {
	for region := range 3 {
		err := s.Read(m.Number, 0, region, func(n uint64, _ byte, data []byte) error {
			for _, c := range content(n, 0, region) {
				if string(c.data) == string(data) {
					return nil
				}
			}
			return errors.New("a chunk that was not written")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func TestHoldKeeps(t *testing.T) {
	o := small(t.TempDir())
	o.KeepLast = 1
	s := mustOpen(t, o)
	for n := uint64(1); n <= 6; n++ {
		mustStep(t, s, n, 3)
	}
	m := s.Latest()
	release, err := s.Hold(6)
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(7); n <= 20; n++ {
		mustStep(t, s, n, 3)
	}
	if err := readHeld(s, m); err != nil {
		t.Fatal(err)
	}
	release()
	release()
	mustStep(t, s, 21, 3)
	if err := readHeld(s, m); !errors.Is(err, ErrUnknown) {
		t.Fatalf("after its release: %v", err)
	}
}

// TestRetention compares what is kept, over restarts, with a list kept by the rule.
func TestRetention(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := retention{rapid.IntRange(1, 4).Draw(rt, "last"), rapid.IntRange(0, 5).Draw(rt, "every")}
		var all, kept []*stored
		forever := map[uint64]bool{}
		n, parent := uint64(0), uint64(0)
		for range rapid.IntRange(1, 30).Draw(rt, "count") {
			n += uint64(rapid.IntRange(1, 4).Draw(rt, "step"))
			if r.every > 0 {
				for i := parent + 1; i <= n; i++ {
					forever[n] = forever[n] || i%uint64(r.every) == 0
				}
			}
			m := &stored{Manifest: &Manifest{Number: n, Parent: parent}}
			all, kept = append(all, m), append(kept, m)
			parent = n
			keep := r.keeps(kept)
			var next []*stored
			for i := range kept {
				if keep[i] {
					next = append(next, kept[i])
				}
			}
			kept = next
			var want []*stored
			for i, m := range all {
				if i >= len(all)-r.last || forever[m.Manifest.Number] {
					want = append(want, m)
				}
			}
			if !slices.Equal(kept, want) {
				rt.Fatalf("after %d: %d are kept, not %d", n, len(kept), len(want))
			}
		}
	})
}

// TestNoCompactionUnderAWriter prunes while a part is written: the writer goes on undisturbed.
func TestNoCompactionUnderAWriter(t *testing.T) {
	s := mustOpen(t, small(t.TempDir()))
	for n := uint64(1); n <= 12; n++ {
		mustStep(t, s, n, 3)
	}
	before := len(s.dead)
	if before == 0 {
		t.Fatal("nothing is to be compacted")
	}
	w, err := s.Write(13, 0, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	const chunks = 200
	for i := range chunks {
		if i%50 == 10 {
			if _, err := s.Prune(1, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Put(0, byte(i), make([]byte, 20_000)); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.dead) < before {
		t.Errorf("%d increments are dead, of %d before", len(s.dead), before)
	}
	if err := w.Describe(RegionPart{Region: 0, Base: 13}); err != nil {
		t.Fatal(err)
	}
	p, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(manifest(13, 12, nil, p)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prune(1, 0); err != nil || len(s.dead) != 0 {
		t.Errorf("%d increments are still dead, %v", len(s.dead), err)
	}
	got := 0
	if err := s.Read(13, 0, 0, func(uint64, byte, []byte) error { got++; return nil }); err != nil || got != chunks {
		t.Errorf("%d chunks are read, %v", got, err)
	}
}
