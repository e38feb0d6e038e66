package node

import "github.com/simnode/simnode/sim"

// entity is what a region knows of one entity besides its state and position: 64 bytes, a cache line.
type entity struct {
	id  sim.EntityID
	rng sim.Rand
	// seq is the last sequence that the entity used, for events and spawned entities alike.
	seq uint64
	// digest is the running digest of the events that the entity handled, in order.
	digest uint64
	// last is the time of the last event handled.
	last sim.Time
	// gen tells the entities that used this slot one after the other apart: an event is for the
	// entity of its generation and is dropped when that one is gone.
	gen uint32
	// state is the place of the state in the store of the kind.
	state uint32
	// zero counts the events without delay that were sent to the entity at time last.
	zero uint32
	kind uint16
	// flags: live, removing.
	flags uint16
}

const (
	flagLive uint16 = 1 << iota
	flagRemoving
)

const (
	entityPageShift = 8
	entityPageSize  = 1 << entityPageShift
)

// table holds the entities of a region by slot. An entity stays at its address until it leaves.
type table struct {
	pages []*[entityPageSize]entity
	used  uint32
	// free slots are reused first in, first out, so that generations grow slowly.
	free     []uint32
	freeHead int
}

func (t *table) at(slot uint32) *entity {
	return &t.pages[slot>>entityPageShift][slot&(entityPageSize-1)]
}

// add returns a free slot; its generation is one that no queued event carries.
func (t *table) add() uint32 {
	if t.freeHead < len(t.free) {
		slot := t.free[t.freeHead]
		t.freeHead++
		if t.freeHead > 1024 && t.freeHead > len(t.free)/2 {
			t.free = append(t.free[:0], t.free[t.freeHead:]...)
			t.freeHead = 0
		}
		return slot
	}
	if t.used&(entityPageSize-1) == 0 {
		t.pages = append(t.pages, new([entityPageSize]entity))
	}
	t.used++
	return t.used - 1
}

// remove gives a slot back.
func (t *table) remove(slot uint32) {
	e := t.at(slot)
	*e = entity{gen: (e.gen + 1) & genMask}
	t.free = append(t.free, slot)
}

// len returns how many entities there are.
func (t *table) len() int { return int(t.used) - (len(t.free) - t.freeHead) }

// each calls f for every entity in the order of slots.
func (t *table) each(f func(slot uint32, e *entity)) {
	for slot := range t.used {
		if e := t.at(slot); e.flags&flagLive != 0 {
			f(slot, e)
		}
	}
}

// place is where an entity is: region, generation and slot in one word. It is also how a message names
// its receiver.
type place uint64

const (
	slotBits   = 28
	genBits    = 20
	genMask    = 1<<genBits - 1
	maxSlots   = 1<<slotBits - 1
	maxRegions = 1 << 10
	// nowhere is the place of an entity that does not exist (any more).
	nowhere = place(maxSlots)
)

func makePlace(region int, slot, gen uint32) place {
	return place(region)<<(slotBits+genBits) | place(gen)<<slotBits | place(slot)
}

func (p place) region() int  { return int(p >> (slotBits + genBits)) }
func (p place) slot() uint32 { return uint32(p) & maxSlots }
func (p place) gen() uint32  { return uint32(p>>slotBits) & genMask }
