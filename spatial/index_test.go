package spatial

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/simnode/simnode/sim"
	"pgregory.net/rapid"
)

// oracle answers queries by looking at every entity.
type oracle struct {
	s       *Space
	motions map[sim.EntityID]sim.Motion
	slots   map[sim.EntityID]uint32
}

func (o *oracle) near(now sim.Time, center sim.Vec, radius float64) []Hit {
	var out []Hit
	for id, m := range o.motions {
		p := o.s.Position(m, now)
		if d := o.s.Distance(center, p); d <= radius {
			out = append(out, Hit{id, o.slots[id], d, p})
		}
	}
	slices.SortFunc(out, byDistance)
	return out
}

func (o *oracle) box(now sim.Time, b sim.Box) []Hit {
	var out []Hit
	for id, m := range o.motions {
		if p := o.s.Position(m, now); o.s.Contains(b, p) {
			out = append(out, Hit{ID: id, Slot: o.slots[id], Pos: p})
		}
	}
	slices.SortFunc(out, byID)
	return out
}

func sameHits(a, b []Hit) bool {
	return slices.EqualFunc(a, b, func(x, y Hit) bool {
		return x.ID == y.ID && x.Slot == y.Slot && x.Pos == y.Pos && math.Float64bits(x.Dist) == math.Float64bits(y.Dist)
	})
}

func (w world) radius() float64 {
	size := 100.0
	if w.s.spec.Kind == sim.Earth {
		size = EarthRadius
	} else if w.s.spec.Bounds.Max.X == 1 {
		size = 1
	}
	return rapid.OneOf(rapid.Float64Range(0, size/10), rapid.Float64Range(0, size*3.2),
		rapid.SampledFrom([]float64{0, size, inf, -1})).Draw(w.t, "radius")
}

func TestIndexEqualsBruteForce(t *testing.T) {
	everywhere(t, func(w world) {
		ix := NewIndex(w.s)
		o := &oracle{w.s, map[sim.EntityID]sim.Motion{}, map[sim.EntityID]uint32{}}
		now := sim.Time(0)
		put := func() {
			id, slot, m := sim.EntityID(rapid.IntRange(1, 150).Draw(w.t, "id")), rapid.Uint32().Draw(w.t, "slot"), w.motion(now)
			ix.Put(id, slot, m, now)
			o.motions[id], o.slots[id] = m, slot
		}
		for range rapid.IntRange(0, 120).Draw(w.t, "crowd") {
			put()
		}
		check := func(got, want []Hit, what string, args ...any) {
			if !sameHits(got, want) {
				w.t.Fatalf("%s at %v:\n got %v\nwant %v", fmt.Sprintf(what, args...), now, got, want)
			}
		}
		w.t.Repeat(map[string]func(*rapid.T){
			"put": func(*rapid.T) { put() },
			"remove": func(*rapid.T) {
				id := sim.EntityID(rapid.IntRange(1, 150).Draw(w.t, "id"))
				ix.Remove(id)
				delete(o.motions, id)
			},
			"time": func(*rapid.T) { now += sim.Time(rapid.Int64Range(0, 5e9).Draw(w.t, "step")) },
			"near": func(*rapid.T) {
				center, r := w.position(), w.radius()
				check(ix.Near(now, center, r, nil), o.near(now, center, r), "near %v, %v m", center, r)
			},
			"nearest": func(*rapid.T) {
				center, k := w.position(), rapid.IntRange(-1, 20).Draw(w.t, "k")
				want := o.near(now, center, inf)
				check(ix.Nearest(now, center, k, nil), want[:max(0, min(k, len(want)))], "nearest %d to %v", k, center)
			},
			"box": func(*rapid.T) {
				b := w.box()
				check(ix.Box(now, b, nil), o.box(now, b), "box %v", b)
			},
			"": func(*rapid.T) {
				if ix.Len() != len(o.motions) || ix.tree.Len() != len(o.motions) {
					w.t.Fatalf("%d entities, %d in the tree, want %d", ix.Len(), ix.tree.Len(), len(o.motions))
				}
			},
		})
	})
}

// TestIndexCrowd is the same at the size of an airspace, with queries as they come in one.
func TestIndexCrowd(t *testing.T) {
	s := mustSpace(t, earthSpec())
	ix, now := crowd(s, 1200)
	o := &oracle{s, map[sim.EntityID]sim.Motion{}, map[sim.EntityID]uint32{}}
	for _, id := range ix.IDs(nil) {
		o.motions[id], o.slots[id], _ = ix.Motion(id)
	}
	r := rand.New(rand.NewPCG(3, 4))
	found := 0
	for range 80 {
		now += sim.Time(r.Int64N(int64(100 * sim.Second)))
		center := vec(-110+30*r.Float64(), 30+15*r.Float64(), 0)
		for _, radius := range []float64{9.3e3, 120e3, 450e3} {
			got := ix.Near(now, center, radius, nil)
			if !sameHits(got, o.near(now, center, radius)) {
				t.Fatalf("at %v round %v, %v m", now, center, radius)
			}
			found += len(got)
		}
		if got := ix.Nearest(now, center, 5, nil); !sameHits(got, o.near(now, center, inf)[:5]) {
			t.Fatalf("nearest at %v round %v", now, center)
		}
	}
	if found < 1000 {
		t.Errorf("only %d hits", found)
	}
}

// TestIndexHistoryDoesNotShow: two indexes with other histories answer alike.
func TestIndexHistoryDoesNotShow(t *testing.T) {
	s := mustSpace(t, earthSpec())
	a, now := crowd(s, 300)
	b := NewIndex(s)
	ids := a.IDs(nil)
	for i := range ids {
		id := ids[len(ids)-1-i]
		m, slot, _ := a.Motion(id)
		b.Put(id, 0, sim.At(vec(float64(i), 0, 0)), 0)
		b.Nearest(0, vec(0, 0, 0), 3, nil)
		b.Put(id, slot, m, 0)
	}
	for i := range 100 {
		center := vec(-120+50*float64(i)/100, 40, 0)
		if !sameHits(a.Near(now, center, 3e5, nil), b.Near(now, center, 3e5, nil)) {
			t.Fatalf("round %v", center)
		}
	}
}

func TestIndexPastQuery(t *testing.T) {
	s := mustSpace(t, specs()["plane2"])
	ix := NewIndex(s)
	ix.Put(1, 0, sim.Motion{Stop: sim.Never, Vel: vec(1, 0, 0)}, 0)
	ix.Near(sim.Time(sim.Hour), vec(0, 0, 0), 1, nil)
	if hits := ix.Near(0, vec(0, 0, 0), 1, nil); len(hits) != 1 || hits[0].Pos.X != 0 {
		t.Errorf("an hour back: %v", hits)
	}
	if hits := ix.Nearest(0, vec(0, 0, 0), 1, nil); len(hits) != 1 || hits[0].Pos.X != 0 {
		t.Errorf("an hour back, nearest: %v", hits)
	}
	if hits := ix.Box(0, box(0, 0, 0, 1, 1, 0), nil); len(hits) != 1 {
		t.Errorf("an hour back, box: %v", hits)
	}
}

func TestIndexAppends(t *testing.T) {
	s := mustSpace(t, specs()["plane2"])
	ix := NewIndex(s)
	ix.Put(5, 7, sim.At(vec(0, 0, 0)), 0)
	first := []Hit{{ID: 99, Dist: 1e9}}
	for _, out := range [][]Hit{ix.Near(0, vec(0, 0, 0), 1, first), ix.Nearest(0, vec(0, 0, 0), 1, first), ix.Box(0, box(0, 0, 0, 1, 1, 1), first)} {
		if len(out) != 2 || out[0].ID != 99 || out[1].ID != 5 || out[1].Slot != 7 {
			t.Errorf("got %v", out)
		}
	}
	if m, slot, ok := ix.Motion(5); !ok || slot != 7 || m != sim.At(vec(0, 0, 0)) {
		t.Errorf("motion %v %v %v", m, slot, ok)
	}
	if _, _, ok := ix.Motion(6); ok {
		t.Error("a motion of nobody")
	}
}

func TestIndexNotFinite(t *testing.T) {
	s := mustSpace(t, specs()["torus2"])
	ix := NewIndex(s)
	ix.Put(1, 0, sim.At(vec(math.NaN(), 0, 0)), 0)
	ix.Put(2, 0, sim.Motion{Stop: sim.Never, Vel: vec(inf, 0, 0)}, 0)
	ix.Put(3, 0, sim.At(vec(1, 1, math.NaN())), 0) // z is not used
	if hits := ix.Near(5, vec(0, 0, 0), inf, nil); len(hits) != 1 || hits[0].ID != 3 {
		t.Errorf("found %v", hits)
	}
	ix.Put(1, 0, sim.At(vec(1, 0, 0)), 0)
	ix.Put(3, 0, sim.At(vec(1, math.NaN(), 0)), 0)
	if hits := ix.Near(5, vec(0, 0, 0), inf, nil); len(hits) != 1 || hits[0].ID != 1 || ix.Len() != 3 {
		t.Errorf("found %v", hits)
	}
	for id := range sim.EntityID(4) {
		ix.Remove(id)
	}
	if ix.Len() != 0 || ix.tree.Len() != 0 || len(ix.due) != 0 {
		t.Error("something is left")
	}
}

func TestCaseCoincident(t *testing.T) {
	s := mustSpace(t, specs()["plane2"])
	ix := NewIndex(s)
	for id := range sim.EntityID(200) {
		ix.Put(200-id, 0, sim.At(vec(0, 40, 0)), 0)
	}
	hits := ix.Near(0, vec(0, 40, 0), 0, nil)
	if len(hits) != 200 || !slices.IsSortedFunc(hits, byID) {
		t.Errorf("%d hits", len(hits))
	}
	if hits = ix.Nearest(0, vec(0, 40, 0), 2, nil); len(hits) != 2 || hits[0].ID != 1 || hits[1].ID != 2 {
		t.Errorf("nearest %v", hits)
	}
}

func TestCaseLeaks(t *testing.T) {
	s := mustSpace(t, earthSpec())
	ix, now := crowd(s, 500)
	for id := range sim.EntityID(501) {
		m, slot, _ := ix.Motion(id)
		ix.Put(id, slot, sim.At(m.From), now) // a still world
	}
	var out []Hit
	query := func() {
		for i := range 10_000 {
			center := vec(-120+50*float64(i)/10_000, 30+float64(i%17), 0)
			out = ix.Near(now, center, 1e5, out[:0])
			out = ix.Nearest(now, center, 3, out[:0])
			out = ix.Box(now, box(center.X, center.Y, -inf, center.X+1, center.Y+1, inf), out[:0])
		}
	}
	query()
	before := heap()
	query()
	if after := heap(); after > before+64<<10 {
		t.Errorf("heap grew from %d to %d bytes", before, after)
	}
	if n := testing.AllocsPerRun(200, func() { out = ix.Near(now, vec(-100, 40, 0), 3e5, out[:0]) }); n != 0 {
		t.Errorf("%v allocations a query", n)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestIndexHeapStaysFlat: entities that come, move and go leave nothing behind.
func TestIndexHeapStaysFlat(t *testing.T) {
	s := mustSpace(t, specs()["torus2"])
	ix := NewIndex(s)
	r := rand.New(rand.NewPCG(1, 2))
	now := sim.Time(0)
	churn := func() {
		for range 10_000 {
			now += sim.Time(r.Int64N(int64(20 * sim.Millisecond)))
			id := sim.EntityID(r.Int64N(200) + 1)
			switch r.IntN(4) {
			case 0:
				ix.Remove(id)
				continue
			case 1:
				ix.Near(now, vec(0, 0, 0), 2, nil)
			}
			ix.Put(id, 0, sim.Motion{Start: now, Stop: sim.Never, From: vec(r.Float64(), r.Float64(), 0), Vel: vec(r.Float64(), 1, 0)}, now)
		}
	}
	churn()
	if len(ix.entries) > 200 || len(ix.due) > 200 {
		t.Errorf("%d entries, %d due", len(ix.entries), len(ix.due))
	}
	before := heap()
	churn()
	if after := heap(); after > before+64<<10 {
		t.Errorf("heap grew from %d to %d bytes", before, after)
	}
	runtime.KeepAlive(ix)
}

// crowd returns aircraft on their way across the United States.
func crowd(s *Space, n int) (*Index, sim.Time) {
	r := rand.New(rand.NewPCG(1, 2))
	place := func() sim.Vec {
		return vec(-122+50*r.Float64(), 27+20*r.Float64(), 9000+3000*r.Float64())
	}
	ix := NewIndex(s)
	for id := range n {
		ix.Put(sim.EntityID(id+1), uint32(id), s.Toward(place(), place(), 230, 0), 0)
	}
	return ix, 0
}

func BenchmarkNear(b *testing.B) {
	s := mustSpace(b, earthSpec())
	for _, radius := range []float64{9.3e3, 450e3} {
		b.Run(fmt.Sprintf("earth/%gkm", radius/1000), func(b *testing.B) {
			r := rand.New(rand.NewPCG(3, 4))
			ix, now := crowd(s, 1200)
			var out []Hit
			hits := 0
			b.ReportAllocs()
			for b.Loop() {
				// 1,200 aircraft that look every 10 seconds; a new crowd when it has landed.
				now += sim.Time(10 * sim.Second / 1200)
				if now > sim.Time(3*sim.Hour) {
					b.StopTimer()
					ix, now = crowd(s, 1200)
					b.StartTimer()
				}
				m, _, _ := ix.Motion(sim.EntityID(1 + r.Int64N(1200)))
				out = ix.Near(now, s.Position(m, now), radius, out[:0])
				hits += len(out)
			}
			b.ReportMetric(float64(hits)/float64(b.N), "hits/op")
		})
	}
}

func BenchmarkPut(b *testing.B) {
	s := mustSpace(b, earthSpec())
	ix, now := crowd(s, 1200)
	r := rand.New(rand.NewPCG(3, 4))
	b.ReportAllocs()
	for b.Loop() {
		now += sim.Time(10 * sim.Millisecond)
		id := sim.EntityID(1 + r.Int64N(1200))
		m, slot, _ := ix.Motion(id)
		p := s.Position(m, now)
		ix.Put(id, slot, sim.Motion{Start: now, Stop: m.Stop, From: p, Vel: s.Velocity(m, now)}, now)
	}
}

func BenchmarkCrossing(b *testing.B) {
	s := mustSpace(b, earthSpec())
	bx := box(-110, 30, -inf, -90, 40, inf)
	m := s.Toward(vec(-120, 35, 0), vec(-80, 38, 0), 230, 0)
	for b.Loop() {
		s.NextLeave(m, bx, s.NextEnter(m, bx, 0))
	}
}

// IDs appends the ids of all entities, ascending.
func (ix *Index) IDs(out []sim.EntityID) []sim.EntityID {
	first := len(out)
	for i := range ix.entries {
		if ix.entries[i].used {
			out = append(out, ix.entries[i].id)
		}
	}
	slices.Sort(out[first:])
	return out
}
