package checkpoint

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestPruningKeepsTheDiskBounded takes a thousand checkpoints, or some hundreds.
func TestPruningKeepsTheDiskBounded(t *testing.T) {
	t.Parallel()
	o := small(t.TempDir())
	s := mustOpen(t, o)
	const each = 300 << 10
	var most, written int64
	count := uint64(240)
	if long() {
		count = 1000
	}
	for n := uint64(1); n <= count; n++ {
		chain, base := chainOf(n)
		w, err := s.Write(n, 0, chain, each)
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, 15<<10)
		for i := range each / len(data) {
			data[0], data[1] = byte(n), byte(i)
			if err := w.Put(i%3, 0, data); err != nil {
				t.Fatal(err)
			}
		}
		for region := range 3 {
			if err := w.Describe(RegionPart{Region: region, Base: base}); err != nil {
				t.Fatal(err)
			}
		}
		p, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(manifest(n, n-1, chain, p)); err != nil {
			t.Fatal(err)
		}
		if n%10 == 0 {
			st, err := s.Stats()
			if err != nil {
				t.Fatal(err)
			}
			most, written = max(most, diskUse(t, filepath.Join(o.Dir, dbName))), int64(st.Written)
			if st.Increments > window+3 || st.Checkpoints != 3 {
				t.Fatalf("at %d: %+v", n, st)
			}
		}
	}
	live := int64(each * (window + 3))
	t.Logf("%d MiB written, %d MiB live, at most %d MiB on the disk", written>>20, live>>20, most>>20)
	// Twice what lives, the floor under which no compaction runs, and the logs.
	if bound := 2*live + (compactFloor+3)*s.memtable; most > bound {
		t.Errorf("the disk held %d bytes; %d are allowed", most, bound)
	}
	if err := s.Verify(nil); err != nil {
		t.Error(err)
	}
	// All but the last is removed, and the disk is given back.
	if gone, err := s.Prune(1, 0); err != nil || !slices.Equal(gone, []uint64{count - 2, count - 1}) {
		t.Errorf("removed are %v, %v", gone, err)
	}
	if keys, err := s.keys(nil, 1<<20); err != nil || len(keys) > 150 {
		t.Errorf("%d keys are left, %v", len(keys), err)
	}
	if st, err := s.Stats(); err != nil || st.Tables > live+live/4 {
		t.Errorf("%d bytes live, the tables take %d, %v", live, st.Tables, err)
	}
}

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
