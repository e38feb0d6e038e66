package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
)

// model is what a store must hold, kept as plainly as possible.
type model struct {
	r        *rand.Rand
	o        Options
	s        *Store
	all      []*Manifest // committed, ascending
	forever  map[uint64]bool
	bases    map[increment][]uint64 // by region
	chains   map[increment][]uint64 // what was handed to Write
	highest  uint64                 // the highest number ever used
	newest   uint64                 // the highest number committed
	releases []func()
}

const modelRegions = 3

// TestAgainstModel does random things to a store, closing and crashing included, and compares it with the model.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	runs := 5
	if long() {
		runs = 300
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 77))
			m := &model{r: r, o: small(filepath.Join(t.TempDir(), "s")), forever: map[uint64]bool{},
				bases: map[increment][]uint64{}, chains: map[increment][]uint64{}}
			m.o.KeepLast, m.o.KeepEvery = 1+r.IntN(3), r.IntN(4)*3
			m.s = mustOpen(t, m.o)
			for i := range 30 {
				what, err := m.act(t)
				if err == nil {
					err = m.compare()
				}
				if err != nil {
					t.Fatalf("act %d, %s: %v", i, what, err)
				}
			}
		})
	}
}

func (m *model) act(t *testing.T) (string, error) {
	switch m.r.IntN(10) {
	case 0:
		return "close", m.reopen(t, false)
	case 1:
		return "crash", m.reopen(t, true)
	case 2:
		return "abort", m.abort()
	case 3:
		return "prune", m.prune()
	case 4:
		return "hold", m.holdLatest()
	}
	return "checkpoint", m.checkpoint()
}

func (m *model) reopen(t *testing.T, crash bool) error {
	m.releases = nil
	if crash {
		dir := filepath.Join(t.TempDir(), "s")
		copyTree(t, m.o.Dir, dir)
		m.o.Dir = dir
	}
	if err := m.s.Close(); err != nil {
		return err
	}
	m.o.AtLeast = m.newest
	m.s = mustOpen(t, m.o)
	return nil
}

func (m *model) number() uint64 {
	n := m.s.Next() + uint64(m.r.IntN(3))
	m.highest = max(m.highest, n)
	return n
}

func (m *model) abort() error {
	n := m.number()
	w, err := m.s.Write(n, m.r.IntN(2), nil, 0)
	if err != nil {
		return err
	}
	for range m.r.IntN(5) {
		if err := w.Put(m.r.IntN(modelRegions), 1, make([]byte, m.r.IntN(10_000))); err != nil {
			return err
		}
	}
	w.Abort()
	_, err = m.s.Write(n, w.id.part, nil, 0)
	if !errors.Is(err, ErrUsed) {
		return fmt.Errorf("an aborted number is taken again: %w", err)
	}
	return nil
}

// checkpoint writes two parts that go on from the newest checkpoint, or begin a lineage, and mostly commits.
func (m *model) checkpoint() error {
	n := m.number()
	var chain []uint64
	var parent uint64
	if k := len(m.all); k > 0 {
		last := m.all[k-1]
		parent = last.Number
		if m.r.IntN(6) > 0 {
			base := max(last.Parts[0].Base, last.Parts[1].Base) // of both parts, all since then is there
			for _, c := range last.Chain {
				if c >= base && len(last.Chain) < 12 || c == last.Number {
					chain = append(chain, c)
				}
			}
		}
	}
	choices := append(slices.Clone(chain), n)
	var parts []*Part
	for part := range 2 {
		w, err := m.s.Write(n, part, chain, 0)
		if err != nil {
			return err
		}
		id := increment{n, part}
		m.chains[id] = choices
		for region := range modelRegions {
			for _, c := range content(n, part, region) {
				if err := w.Put(region, c.kind, c.data); err != nil {
					return err
				}
			}
			base := choices[m.r.IntN(len(choices))]
			m.bases[id] = append(m.bases[id], base)
			if err := w.Describe(RegionPart{Region: region, Base: base}); err != nil {
				return err
			}
		}
		p, err := w.Close()
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	if m.r.IntN(5) == 0 {
		return nil // the commit never comes
	}
	c := manifest(n, parent, chain, parts...)
	if err := m.s.Commit(c); err != nil {
		return err
	}
	if every := uint64(m.o.KeepEvery); every > 0 {
		m.forever[n] = n/every > parent/every
	}
	m.all = append(m.all, c)
	m.newest = n
	m.retain(m.o.KeepLast)
	return nil
}

func (m *model) retain(last int) {
	var kept []*Manifest
	for i, c := range m.all {
		if i >= len(m.all)-last || m.forever[c.Number] {
			kept = append(kept, c)
		}
	}
	m.all = kept
}

func (m *model) prune() error {
	last := 1 + m.r.IntN(2)
	before := m.all
	m.retain(last)
	var want []uint64
	for _, c := range before {
		if !slices.Contains(m.all, c) {
			want = append(want, c.Number)
		}
	}
	got, err := m.s.Prune(last, m.o.KeepEvery)
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("removed are %v, not %v", got, want)
	}
	return err
}

func (m *model) holdLatest() error {
	if len(m.all) == 0 {
		return nil
	}
	if len(m.releases) > 1 {
		m.releases[0]()
		m.releases = m.releases[1:]
	}
	release, err := m.s.Hold(m.newest)
	if err == nil {
		m.releases = append(m.releases, release)
	}
	return err
}

func (m *model) compare() error {
	if next := m.s.Next(); next <= m.highest {
		return fmt.Errorf("next is %d, %d was used", next, m.highest)
	}
	var want []uint64
	for _, c := range m.all {
		want = append(want, c.Number)
	}
	if got := numbers(m.s); !slices.Equal(got, want) {
		return fmt.Errorf("kept are %v, not %v", got, want)
	}
	for _, c := range m.all {
		for part := range 2 {
			for region := range modelRegions {
				if err := m.compareRegion(increment{c.Number, part}, region); err != nil {
					return fmt.Errorf("checkpoint %d, part %d, region %d: %w", c.Number, part, region, err)
				}
			}
		}
	}
	return m.s.Verify(nil)
}

func (m *model) compareRegion(id increment, region int) error {
	var want []chunk
	for _, n := range slices.Backward(m.chains[id]) {
		if n >= m.bases[id][region] {
			want = append(want, content(n, id.part, region)...)
		}
	}
	err := m.s.Read(id.number, id.part, region, func(n uint64, kind byte, data []byte) error {
		if len(want) == 0 || want[0].number != n || want[0].kind != kind || !bytes.Equal(want[0].data, data) {
			return errors.New("a chunk differs, or there are too many")
		}
		want = want[1:]
		return nil
	})
	if err == nil && len(want) > 0 {
		err = fmt.Errorf("%d chunks are missing", len(want))
	}
	return err
}
