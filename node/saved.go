package node

import (
	"github.com/simnode/simnode/sim"
)

// Kinds of chunks of a checkpoint. A chunk holds whole records, one after the other.
const (
	// ChunkEntities holds entities by slot, or that a slot is empty. Of several of one slot the newest counts.
	ChunkEntities byte = 1
	// ChunkEvents holds pending events by the slot of their receiver. They are all that the slot has pending,
	// and count if the checkpoint is the one that the entity of the slot is from.
	ChunkEvents byte = 2
	// ChunkRegion holds the rest of a region, whole in every checkpoint; the newest counts.
	ChunkRegion byte = 3
)

// chunkSize is from how many bytes on a chunk is full.
const chunkSize = 16 << 10

// A saved entity is its slot, its generation, and what follows here if there is one: flags as below, id, kind,
// sequence, digest of its events, time of the last one, events without delay then, position, length of what
// follows and of the random stream's state, that state, the entity's state; then, by the flags, what it
// published last and what others see of it.
const (
	savedLive byte = 1 << iota
	savedPublished
	savedHidden
	savedVisible
)

// appendSaved appends the entity in a slot, and returns its digest, 0 for none.
func (r *region) appendSaved(dst []byte, slot uint32) ([]byte, uint64) {
	var e *entity
	if slot < r.ents.used {
		e = r.ents.at(slot)
	}
	dst = le.AppendUint32(dst, slot)
	if e == nil || e.flags&flagLive == 0 {
		gen := uint32(0)
		if e != nil {
			gen = e.gen
		}
		return append(le.AppendUint32(dst, gen), 0), 0
	}
	dst = le.AppendUint32(dst, e.gen)
	flags, own, seen := r.shown(slot, e)
	dst = append(dst, flags)
	dst = le.AppendUint64(dst, uint64(e.id))
	dst = le.AppendUint16(dst, e.kind)
	dst = le.AppendUint64(dst, e.seq)
	dst = le.AppendUint64(dst, e.digest)
	dst = le.AppendUint64(dst, uint64(e.last))
	dst = le.AppendUint32(dst, e.zero)
	if r.view != nil {
		dst = appendVec(dst, r.pos[slot])
	} else {
		dst = appendVec(dst, sim.Vec{})
	}
	at := len(dst)
	dst = append(dst, make([]byte, 8)...)
	dst = e.rng.AppendState(dst)
	stream := len(dst) - at - 8
	dst = r.kinds[e.kind].store.Append(dst, e.state)
	le.PutUint32(dst[at:], uint32(len(dst)-at-8))
	le.PutUint32(dst[at+4:], uint32(stream))
	digest := digestSaved(e, dst[at+8:])
	if flags&savedPublished != 0 {
		dst = appendMotion(dst, &own.motion)
		dst = appendVec(dst, own.anchor)
		dst = le.AppendUint64(dst, uint64(own.anchorAt))
	}
	if flags&savedVisible != 0 {
		dst = appendMotion(dst, &seen.motion)
		dst = appendBody(dst, &seen.public)
	}
	return dst, digest
}

// shown returns what the entity in a slot published and what is seen of it.
func (r *region) shown(slot uint32, e *entity) (flags byte, own *ownPublication, seen *seenEntity) {
	flags = savedLive
	if r.view == nil {
		return flags, nil, nil
	}
	i := r.view.published(slot)
	if i == 0 {
		return flags, nil, nil
	}
	own = &r.view.own[i-1]
	flags |= savedPublished
	if own.hidden {
		flags |= savedHidden
	}
	if k := r.view.known[e.id]; k > 0 {
		seen = &r.view.seen[k-1]
		flags |= savedVisible
	}
	return flags, own, seen
}

// digestSaved is what the entity with an encoded stream and state adds to the digest of the run.
func digestSaved(e *entity, encoded []byte) uint64 {
	h := sim.DigestBytes(e.digest^uint64(e.kind), encoded)
	return sim.Finish(sim.Digest(h, e.seq, 1), e.id)
}

// saved is a decoded entity; stream and state are part of the chunk.
type saved struct {
	slot  uint32
	flags byte
	header
	pos           sim.Vec
	encoded       []byte
	stream, state []byte
	motion        sim.Motion
	anchor        sim.Vec
	anchorAt      sim.Time
	seen          seenEntity
}

// header is an entity without its random stream and state.
type header = entity

// saved reads a saved entity of a program with so many kinds.
func (d *reader) saved(kinds int) (s saved) {
	s.slot, s.gen, s.flags = d.u32(), d.u32(), d.u8()
	if s.slot > maxSlots || s.gen > genMask || s.flags&^(savedLive|savedPublished|savedHidden|savedVisible) != 0 {
		d.fail("slot %d, generation %d with mark %#x", s.slot, s.gen, s.flags)
	}
	if s.flags == 0 || d.err != nil {
		return s
	}
	s.id, s.kind = sim.EntityID(d.u64()), d.kind(kinds)
	s.seq, s.digest, s.last, s.zero = d.u64(), d.u64(), d.time(), d.u32()
	s.pos = d.vec()
	size, stream := int(d.u32()), int(d.u32())
	if s.encoded = d.take(size); stream > len(s.encoded) {
		d.fail("random stream of %d bytes in %d", stream, len(s.encoded))
		return s
	}
	s.stream, s.state = s.encoded[:stream:stream], s.encoded[stream:]
	if s.flags&savedPublished != 0 {
		s.motion, s.anchor, s.anchorAt = d.motion(), d.vec(), d.time()
	}
	if s.flags&savedVisible != 0 {
		s.seen = seenEntity{d.motion(), d.body(), s.kind}
	}
	return s
}

// Records of a ChunkRegion begin with one of these.
const (
	// savedCounts: events handled, events dropped, digest of the removed, whether an entity asked for the end.
	savedCounts byte = iota + 1
	// savedWaiting: a publication that is not visible yet.
	savedWaiting
	// savedRemnant: what is still seen of an entity that is gone.
	savedRemnant
	// savedOrphan: the time of a pending event for nobody.
	savedOrphan
)

// counts are totals of a region that no entity holds.
type counts struct {
	events, dropped, gone uint64
	stop                  bool
}

func (c *counts) append(dst []byte) []byte {
	dst = append(dst, savedCounts)
	for _, v := range [...]uint64{c.events, c.dropped, c.gone} {
		dst = le.AppendUint64(dst, v)
	}
	if c.stop {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func (d *reader) counts() counts { return counts{d.u64(), d.u64(), d.u64(), d.u8() == 1} }

func (c *counts) add(o counts) {
	c.events += o.events
	c.dropped += o.dropped
	c.gone += o.gone
	c.stop = c.stop || o.stop
}

// remnant is an entity that is gone and that others still see, or saw until a moment ago and will be told so.
type remnant struct {
	id      sim.EntityID
	visible bool
	seen    seenEntity
}

func (m *remnant) append(dst []byte) []byte {
	dst = le.AppendUint64(append(dst, savedRemnant), uint64(m.id))
	if !m.visible {
		return append(dst, 0)
	}
	dst = appendMotion(append(dst, 1), &m.seen.motion)
	return le.AppendUint16(appendBody(dst, &m.seen.public), m.seen.kind)
}

func (d *reader) remnant(kinds int) remnant {
	m := remnant{id: sim.EntityID(d.u64())}
	if m.visible = d.u8() == 1; m.visible {
		m.seen = seenEntity{d.motion(), d.body(), d.kind(kinds)}
	}
	return m
}
