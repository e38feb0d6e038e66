package node

import (
	"context"
	"fmt"

	"github.com/simnode/simnode/sim"
)

// SavedEntity is an entity in a checkpoint.
type SavedEntity struct {
	ID   sim.EntityID
	Kind uint16
	// Sequence is the last that it used for events and spawned entities, Last the time of its last event.
	Sequence uint64
	Last     sim.Time
	// Published says that Motion is what it published last; Hidden, that it hid itself since. Position is where
	// it is, without a space zero.
	Published, Hidden bool
	Motion            sim.Motion
	Position          sim.Vec
	// Digest is what it adds to the digest of the run.
	Digest uint64
	// State is its encoded state; see StateText.
	State []byte
}

// SavedEvent is a pending event in a checkpoint.
type SavedEvent struct {
	To, From  sim.EntityID
	Time      sim.Time
	Event     uint16
	Priority  sim.Priority
	Cancelled bool
}

// SavedRegion sums a region of a checkpoint up, as CapturedRegion did when it was written. Events may be fewer:
// those for entities that are gone are not all kept.
type SavedRegion struct{ Entities, Events, Digest uint64 }

// ReadSaved reads one region of a checkpoint at time at: each entity, and then its pending events. Either function
// may be nil; an error of one ends the reading.
func ReadSaved(ctx context.Context, p *sim.Program, at sim.Time, chunks RegionChunks, entity func(*SavedEntity) error, event func(*SavedEvent) error) (SavedRegion, error) {
	s := &savedReader{prog: p, at: at, onEntity: entity, onEvent: event}
	if p.Space.Kind != sim.NoSpace {
		space, err := newSpace(p)
		if err != nil {
			return s.sum, err
		}
		s.position = space.Position
	}
	if err := readRegion(ctx, len(p.Kinds), at, chunks, s, now); err != nil {
		return s.sum, fmt.Errorf("reading the checkpoint at %v: %w", at, err)
	}
	return s.sum, nil
}

// StateText shows the state of an entity to people.
func StateText(p *sim.Program, e *SavedEntity) (string, error) {
	store := p.Kinds[e.Kind].NewStore()
	i := store.Add()
	if err := store.Load(i, e.State); err != nil {
		return "", fmt.Errorf("entity %d: %w", e.ID, err)
	}
	return store.Text(i), nil
}

// savedReader is a taker that shows what it takes.
type savedReader struct {
	prog     *sim.Program
	at       sim.Time
	position func(m sim.Motion, t sim.Time) sim.Vec
	onEntity func(*SavedEntity) error
	onEvent  func(*SavedEvent) error
	sum      SavedRegion
}

func (r *savedReader) entity(d *reader, s *saved, _ []byte) {
	e := SavedEntity{
		ID: s.id, Kind: s.kind, Sequence: s.seq, Last: s.last, Position: s.pos, State: s.state,
		Published: s.flags&savedPublished != 0, Hidden: s.flags&savedHidden != 0, Motion: s.motion,
		Digest: digestSaved(&s.header, s.encoded),
	}
	if e.Published && r.position != nil {
		e.Position = r.position(s.motion, r.at)
	}
	r.sum.Entities++
	r.sum.Digest += e.Digest
	if r.onEntity != nil && d.err == nil {
		d.err = r.onEntity(&e)
	}
}

func (r *savedReader) event(d *reader, m *sim.Message, _ []byte, cancelled bool) {
	r.sum.Events++
	if r.onEvent != nil && d.err == nil {
		d.err = r.onEvent(&SavedEvent{sim.EntityID(m.Dst), m.Source(), m.Time, m.Event(), m.Priority(), cancelled})
	}
}

func (r *savedReader) orphan(sim.Time) { r.sum.Events++ }

func (r *savedReader) rest(d *reader) {
	kinds := len(r.prog.Kinds)
	switch kind := d.u8(); kind {
	case savedCounts:
		c := d.counts()
		r.sum.Digest += c.gone
	case savedWaiting:
		d.publication(kinds)
	case savedRemnant:
		d.remnant(kinds)
	case savedOrphan:
		d.time()
		r.sum.Events++
	default:
		d.fail("record of kind %d", kind)
	}
}
