package node

import (
	"math"
	"runtime"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/sim"
)

// shape is what the coordinator must know of the program.
func (w *world) shape() control.Shape {
	s := control.Shape{
		End: w.prog.End, CutEvery: w.cutEvery, StopEvery: w.prog.StopEvery,
		Lookahead: []sim.Duration{w.lookahead}, Digest: w.members.digest,
	}
	if w.regions == 1 {
		s.CutEvery = sim.Forever
	}
	if !w.nearer() {
		return s
	}
	m := w.matrix()
	s.Lookahead = make([]sim.Duration, 0, w.regions*w.regions)
	for to := range w.regions {
		for from := range w.regions {
			if from == to {
				s.Lookahead = append(s.Lookahead, sim.Forever)
				continue
			}
			s.Lookahead = append(s.Lookahead, m.At(from, to))
		}
	}
	return s
}

// note computes the digest of the program and of how it is cut, while the scenario's entities are still
// all there. It covers the processor architecture: floating point may differ between two of them.
func (w *world) note(owner []int32) {
	p := w.prog
	h := sim.DigestBytes(0, []byte(runtime.GOARCH+" "+p.Model.Name))
	h = sim.Digest(h, p.Seed, uint64(p.End))
	h = sim.Digest(h, uint64(w.lookahead), uint64(p.StopEvery))
	h = sim.Digest(h, math.Float64bits(w.limits.Range), math.Float64bits(w.limits.Speed))
	h = sim.Digest(h, math.Float64bits(w.margin), uint64(w.cutEvery))
	for _, k := range p.Kinds {
		h = sim.DigestBytes(h, []byte(k.Name))
	}
	for _, e := range p.Events {
		h = sim.DigestBytes(h, []byte(e.Name))
	}
	var buf []byte
	for i, kind := range p.EntityKind {
		buf = p.Kinds[kind].InitialStore().Append(buf[:0], p.EntityState[i])
		h = sim.DigestBytes(sim.Digest(h, uint64(kind), uint64(owner[i])), buf)
		if w.space != nil {
			at := p.EntityPos[i]
			h = sim.Digest(h, math.Float64bits(at.X)^math.Float64bits(at.Z), math.Float64bits(at.Y))
		}
	}
	for _, e := range p.Initial {
		h = sim.Digest(h, uint64(e.At), uint64(e.Entity)<<16|uint64(e.Event))
		h = sim.Digest(sim.Digest(h, e.Body.A, e.Body.B), e.Body.C, e.Body.D)
	}
	w.members.digest = h
}
