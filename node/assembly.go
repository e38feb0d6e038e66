package node

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/partition"
	"github.com/simnode/simnode/sim"
)

// pieceSize is about how large the pieces are in which a member hands over its part of the result.
const pieceSize = 256 << 10

// Result hands over this member's part of the result, once the run has ended at time at and nothing runs
// any more: first digest and counts, then, if the model makes results or pictures of them, the final
// states. Pieces are handed over in order, none after an error; each may be kept.
func (p *Part) Result(at sim.Time, yield func(piece []byte, last bool) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calm()
	if p.running > 0 {
		return errors.New("engine fault: the result of a run that has not ended")
	}
	piece, err := p.summary(at)
	if err != nil {
		return err
	}
	if p.w.prog.ReadsStates() {
		for _, r := range p.own {
			if piece, err = r.states(piece, yield); err != nil {
				return err
			}
		}
	}
	return yield(piece, true)
}

// summary is the first piece of a result: what is not states.
func (p *Part) summary(at sim.Time) ([]byte, error) {
	var digest, events, dropped uint64
	entities := 0
	var loads []byte
	for _, r := range p.own {
		p.takeInbox(r)
		if next := r.next(); next < at && p.failure == nil {
			return nil, fmt.Errorf("engine fault: the run ended at %v while region %d is at %v", at, r.id, next)
		}
		sum, err := r.digest()
		if err != nil {
			return nil, err
		}
		digest += sum
		events += r.events
		dropped += r.dropped
		entities += r.ents.len()
		loads = appendLoad(loads, r)
	}
	var pmap []byte
	if p.w.pmap != nil {
		var err error
		if pmap, err = p.w.pmap.MarshalBinary(); err != nil {
			return nil, err
		}
	}
	digest += p.w.past.gone
	events += p.w.past.events
	dropped += p.w.past.dropped
	piece := le.AppendUint64(nil, digest)
	piece = le.AppendUint64(piece, events)
	piece = le.AppendUint64(piece, dropped)
	piece = le.AppendUint64(piece, uint64(entities))
	piece = le.AppendUint64(piece, uint64(p.cuts))
	piece = le.AppendUint64(piece, uint64(p.migrated))
	piece = appendBytes(piece, pmap)
	piece = le.AppendUint32(piece, uint32(len(p.own)))
	return append(piece, loads...), nil
}

const leastLoad = 2 + 8 + 8 + 8 + 4

func appendLoad(dst []byte, r *region) []byte {
	dst = le.AppendUint16(dst, uint16(r.id))
	dst = le.AppendUint64(dst, r.events)
	dst = le.AppendUint64(dst, uint64(r.ents.len()))
	dst = le.AppendUint64(dst, uint64(r.busy))
	bins := r.load.close(r.events)
	dst = le.AppendUint32(dst, uint32(len(bins)))
	for _, n := range bins {
		dst = le.AppendUint64(dst, n)
	}
	return dst
}

// states hands over the states of a region's entities; the last piece is returned.
func (r *region) states(piece []byte, yield func([]byte, bool) error) (rest []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a state could not be encoded at the end of the run: %v", v)
		}
	}()
	r.ents.each(func(_ uint32, e *entity) {
		if err != nil {
			return
		}
		if len(piece) >= pieceSize {
			err, piece = yield(piece, false), nil
		}
		piece = le.AppendUint64(piece, uint64(e.id))
		piece = le.AppendUint16(piece, e.kind)
		at := len(piece)
		piece = r.kinds[e.kind].store.Append(le.AppendUint32(piece, 0), e.state)
		le.PutUint32(piece[at:], uint32(len(piece)-at-4))
	})
	return piece, err
}

// Assembly puts the results of all members together, on the member that records.
type Assembly struct {
	prog    *sim.Program
	started []bool
	ended   []bool
	out     Outcome
	stores  []*sim.Store
	final   []finalState
}

type finalState struct {
	id   sim.EntityID
	kind uint16
	at   uint32
}

// NewAssembly returns an assembly of the results of so many members.
func NewAssembly(p *sim.Program, members int) *Assembly {
	a := &Assembly{prog: p, started: make([]bool, members), ended: make([]bool, members)}
	for _, k := range p.Kinds {
		a.stores = append(a.stores, k.NewStore())
	}
	return a
}

// Take takes in a piece of a member's part, and reports whether all parts are complete.
func (a *Assembly) Take(from int, piece []byte, last bool) (complete bool, err error) {
	if from < 0 || from >= len(a.ended) || a.ended[from] {
		return false, fmt.Errorf("result of member %d of %d, which is not there or complete already", from, len(a.ended))
	}
	d := &reader{data: piece}
	if !a.started[from] {
		a.started[from] = true
		a.readSummary(d)
	}
	for len(d.data) > 0 && d.err == nil {
		a.readState(d)
	}
	if err := d.done(); err != nil {
		return false, fmt.Errorf("result of member %d: %w", from, err)
	}
	a.ended[from] = last
	return !slices.Contains(a.ended, false), nil
}

func (a *Assembly) readSummary(d *reader) {
	o := &a.out
	o.Digest += d.u64()
	o.Events += d.u64()
	o.Dropped += d.u64()
	o.Entities += int(d.u64())
	o.Cuts = max(o.Cuts, int(d.u64()))
	o.Migrated += int(d.u64())
	if pmap := d.bytes(); len(pmap) > 0 && o.Map == nil {
		o.Map = new(partition.Map)
		if err := o.Map.UnmarshalBinary(pmap); err != nil {
			d.fail("%v", err)
		}
	}
	for range d.count(leastLoad) {
		region := d.region(MaxRegions)
		l := RegionLoad{Events: d.u64(), Entities: int(d.u64()), Busy: time.Duration(d.u64())}
		l.Bins = make([]uint64, d.count(8))
		for i := range l.Bins {
			l.Bins[i] = d.u64()
		}
		for d.err == nil && len(o.Regions) <= region {
			o.Regions = append(o.Regions, RegionLoad{})
		}
		if d.err == nil {
			o.Regions[region] = l
		}
	}
}

func (a *Assembly) readState(d *reader) {
	id, kind, state := sim.EntityID(d.u64()), d.kind(len(a.stores)), d.bytes()
	if d.err != nil {
		return
	}
	s := finalState{id, kind, a.stores[kind].Add()}
	if err := a.stores[kind].Load(s.at, state); err != nil {
		d.fail("entity %d: %v", id, err)
		return
	}
	a.final = append(a.final, s)
}

// Outcome is the end of the run, at time at, as Run gives it. Elapsed is left to the caller.
func (a *Assembly) Outcome(at sim.Time, how control.Ending) (*Outcome, error) {
	if i := slices.Index(a.ended, false); i >= 0 {
		return nil, fmt.Errorf("the result of member %d is not complete", i)
	}
	slices.SortFunc(a.final, func(x, y finalState) int {
		if x.id < y.id {
			return -1
		}
		return 1
	})
	o := a.out
	o.End = min(at, a.prog.End)
	o.Stopped = how == control.EndStopped
	o.Interrupted = !o.Stopped && o.End < a.prog.End
	o.prog, o.states = a.prog, a.each
	return &o, nil
}

// each yields the final states in the order of ids.
func (a *Assembly) each(yield func(id sim.EntityID, kind uint16, state unsafe.Pointer) bool) {
	for _, s := range a.final {
		if !yield(s.id, s.kind, a.stores[s.kind].At(s.at)) {
			return
		}
	}
}
