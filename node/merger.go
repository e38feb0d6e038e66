package node

import (
	"fmt"
	"math"

	"github.com/simnode/simnode/sim"
)

// An observation frame is a row of blocks, one for each region that observed something: its number, how
// many observations follow, and these.
const leastObservation = 5*8 + 4 + 2 + 2 + 1 + 4

func appendObservations(dst []byte, pending []pendingObs) []byte {
	for _, p := range pending {
		dst = le.AppendUint16(dst, uint16(p.region))
		dst = le.AppendUint32(dst, uint32(len(p.obs)))
		for i := range p.obs {
			dst = appendObservation(dst, &p.obs[i])
		}
	}
	return dst
}

func appendObservation(dst []byte, o *sim.Observation) []byte {
	dst = le.AppendUint64(dst, uint64(o.Time))
	dst = le.AppendUint64(dst, o.Key)
	dst = le.AppendUint64(dst, o.Seq)
	dst = le.AppendUint64(dst, uint64(o.Entity))
	dst = le.AppendUint64(dst, math.Float64bits(o.Value))
	dst = le.AppendUint32(dst, o.Index)
	dst = le.AppendUint16(dst, o.Series)
	dst = le.AppendUint16(dst, o.Kind)
	dst = append(dst, byte(o.Op))
	return appendBytes(dst, o.Row)
}

// observation reads an observation of the program, whose row is part of the frame.
func (d *reader) observation(p *sim.Program) sim.Observation {
	o := sim.Observation{Time: d.time(), Key: d.u64(), Seq: d.u64(), Entity: sim.EntityID(d.u64()), Value: d.float(),
		Index: d.u32(), Series: d.u16(), Kind: d.kind(len(p.Kinds)), Op: sim.Op(d.u8())}
	if o.Row = d.bytes(); len(o.Row) == 0 {
		o.Row = nil
	}
	if d.err == nil && (int(o.Series) >= len(p.Series) && o.Series != sim.TraceSeries || o.Op > sim.OpRow) {
		d.fail("observation of series %d (of %d) with operation %d", o.Series, len(p.Series), o.Op)
	}
	return o
}

// Merger brings the observations of all members into one order, that of the events that made them, and
// hands them to a sink. Not safe for concurrent use.
type Merger struct {
	prog    *sim.Program
	sink    sim.Sink
	collect collector
	// received counts the frames of each member.
	received []uint64
	waiting  int
	// floor is the latest that was announced, once frames are in; done is up to where the sink has all.
	floor  sim.Time
	frames []uint64
	done   sim.Time
}

// NewMerger returns a merger for the observations of so many members.
func NewMerger(p *sim.Program, members int, sink sim.Sink) *Merger {
	return &Merger{prog: p, sink: sink, received: make([]uint64, members)}
}

// Take takes in observation frame n of a member; the frames of a member come in order. Data is kept.
func (m *Merger) Take(from int, n uint64, data []byte) error {
	if from < 0 || from >= len(m.received) {
		return fmt.Errorf("observations of member %d of %d", from, len(m.received))
	}
	if want := m.received[from] + 1; n != want {
		return fmt.Errorf("observation frame %d of member %d, but %d is next: a frame was lost or came twice", n, from, want)
	}
	d := &reader{data: data}
	for len(d.data) > 0 && d.err == nil {
		region := d.region(MaxRegions)
		obs := make([]sim.Observation, 0, d.count(leastObservation))
		for range cap(obs) {
			o := d.observation(m.prog)
			if d.err != nil {
				break
			}
			if o.Time < m.done {
				d.fail("observation at %v, but all below %v has been handed on", o.Time, m.done)
			}
			obs = append(obs, o)
		}
		m.collect.add(region, obs)
		m.waiting += len(obs)
	}
	if err := d.done(); err != nil {
		return fmt.Errorf("observations of member %d: %w", from, err)
	}
	m.received[from] = n
	return m.hand()
}

// Floor tells that everything below at has run and is among the first frames[i] frames of each member i:
// the sink is handed all below it once those are in. A later call replaces an earlier one.
func (m *Merger) Floor(at sim.Time, frames []uint64) error {
	if len(frames) != len(m.received) {
		return fmt.Errorf("floor of %d members, %d are there", len(frames), len(m.received))
	}
	if at < m.floor {
		return nil
	}
	m.floor, m.frames = at, append(m.frames[:0], frames...)
	return m.hand()
}

// Waiting returns how many observations have not been handed over.
func (m *Merger) Waiting() int { return m.waiting }

// Done returns up to which time everything has been handed over.
func (m *Merger) Done() sim.Time { return m.done }

// hand hands over what is below the floor, if all of it is there.
func (m *Merger) hand() error {
	if m.frames == nil || m.floor <= m.done {
		return nil
	}
	for i, n := range m.frames {
		if m.received[i] < n {
			return nil
		}
	}
	m.done = m.floor
	obs := m.collect.take(m.floor)
	m.waiting -= len(obs)
	if len(obs) == 0 {
		return nil
	}
	return m.sink.Observe(obs)
}
