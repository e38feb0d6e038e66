package node

import (
	"fmt"

	"github.com/simnode/simnode/sim"
)

// What a region sends to regions of other members in a turn is sealed at the end of the turn, outside
// the crew's lock: encoded into one piece for each member. An event frame is a row of pieces.
//
// A piece is a row of segments: what one region sends to another one (events and publications), the
// entities that a region spawned (births), or those that are gone (deaths).
//
// Births let every member find a spawned entity. Who knows its id has it from a message or a publication
// that its region sent after it was born, so that no region can use the id before the birth + the
// lookahead to that region: a birth counts as something sent for that time, and grants wait for it.
// Deaths only save memory: a message to an entity that is gone is dropped wherever it arrives.
const (
	segmentEvents byte = iota + 1
	segmentBirths
	segmentDeaths
)

// piece is what a region sends to one other member.
type piece struct {
	data []byte
	sent []sentTo
}

// sentTo says that something was sent to a region, none of it before least.
type sentTo struct {
	region int
	least  sim.Time
}

// birth is an entity that was spawned.
type birth struct {
	id sim.EntityID
	at sim.Time
}

// seal encodes what the region sent to regions of other members since the last time.
func (r *region) seal() {
	w := r.world
	if !w.divided() {
		return
	}
	for j, o := range r.out {
		if o == nil || len(o.msgs)+len(o.pubs) == 0 || w.isLocal(j) {
			continue
		}
		p := r.pieceFor(w.members.owner[j])
		p.sent = append(p.sent, sentTo{j, r.least(o, j)})
		p.data = appendSegment(p.data, r, j, o)
		o.reset()
	}
	if len(r.births)+len(r.deaths) > 0 {
		r.sealLives()
	}
}

// pieceFor returns the open piece for a member.
func (r *region) pieceFor(member int) *piece {
	if r.pieces == nil {
		r.pieces = make([]*piece, r.world.members.n)
	}
	if r.pieces[member] == nil {
		r.pieces[member] = new(piece)
	}
	return r.pieces[member]
}

// least is the earliest time at which anything in a batch for region to matters there. An entity that
// first publishes while it is outside its region may have far regions in its boundary list. They cannot
// look at it before the lookahead between the regions has passed, longer than it takes to be visible.
func (r *region) least(o *outbox, to int) sim.Time {
	w := r.world
	least := o.least
	for i := range o.pubs {
		published := o.pubs[i].visible - sim.Time(w.lookahead)
		least = min(least, published.Add(w.members.ahead.At(r.id, to)))
	}
	return least
}

func (o *outbox) reset() {
	clear(o.blobs)
	o.msgs, o.blobs, o.pubs, o.least = o.msgs[:0], o.blobs[:0], o.pubs[:0], sim.Never
}

func appendSegment(dst []byte, r *region, to int, o *outbox) []byte {
	dst = append(dst, segmentEvents)
	dst = le.AppendUint16(dst, uint16(r.id))
	dst = le.AppendUint16(dst, uint16(to))
	dst = le.AppendUint32(dst, uint32(len(o.msgs)))
	for i := range o.msgs {
		m := &o.msgs[i]
		var blob []byte
		if len(o.blobs) > 0 && r.isLarge(m) {
			blob = o.blobs[m.Body.A]
		}
		dst = appendMessage(dst, m, blob, false)
	}
	dst = le.AppendUint32(dst, uint32(len(o.pubs)))
	for i := range o.pubs {
		dst = appendPublication(dst, &o.pubs[i])
	}
	return dst
}

// sealLives tells every other member which entities were spawned and which are gone.
func (r *region) sealLives() {
	w := r.world
	first := sim.Never
	for _, b := range r.births {
		first = min(first, b.at)
	}
	for m := range w.members.n {
		if m == w.members.me {
			continue
		}
		p := r.pieceFor(m)
		if len(r.births) > 0 {
			p.data = append(p.data, segmentBirths)
			p.data = le.AppendUint16(p.data, uint16(r.id))
			p.data = le.AppendUint32(p.data, uint32(len(r.births)))
			for _, b := range r.births {
				p.data = le.AppendUint64(p.data, uint64(b.id))
			}
			p.sent = r.toAll(p.sent, m, first)
		}
		if len(r.deaths) > 0 {
			p.data = append(p.data, segmentDeaths)
			p.data = le.AppendUint32(p.data, uint32(len(r.deaths)))
			for _, id := range r.deaths {
				p.data = le.AppendUint64(p.data, uint64(id))
			}
		}
	}
	r.births, r.deaths = r.births[:0], r.deaths[:0]
}

// toAll notes that births from time first on are sent to all regions of a member.
func (r *region) toAll(sent []sentTo, member int, first sim.Time) []sentTo {
	w := r.world
	for j, owner := range w.members.owner {
		if owner == member {
			sent = append(sent, sentTo{j, first.Add(w.members.ahead.At(r.id, j))})
		}
	}
	return sent
}

// arrivals are the batches of an event frame: for local regions, from regions of another member.
type arrival struct {
	from, to int
	box      *outbox
}

// readFrame reads an event frame of another member. Births and deaths are noted in the directory.
func (w *world) readFrame(from int, data []byte, room func() *outbox) (list []arrival, births []int, err error) {
	d := &reader{data: data}
	for len(d.data) > 0 && d.err == nil {
		switch kind := d.u8(); kind {
		case segmentEvents:
			a := arrival{from: d.region(w.regions), to: d.region(w.regions)}
			if d.err == nil && (w.members.owner[a.from] != from || !w.isLocal(a.to)) {
				d.fail("batch from region %d to region %d in a frame of member %d", a.from, a.to, from)
			}
			if d.err != nil {
				break
			}
			a.box = room()
			w.readBatch(d, a.to, a.box)
			list = append(list, a)
		case segmentBirths:
			region := d.region(w.regions)
			if d.err == nil && w.members.owner[region] != from {
				d.fail("births in region %d in a frame of member %d", region, from)
			}
			for range d.count(8) {
				w.dir.set(d.spawned(), makePlace(region, 0, 0))
			}
			births = append(births, region)
		case segmentDeaths:
			for range d.count(8) {
				w.dir.forget(d.spawned())
			}
		default:
			if d.err == nil {
				d.fail("segment of kind %d", kind)
			}
		}
	}
	if err := d.done(); err != nil {
		return nil, nil, fmt.Errorf("member %d: %w", from, err)
	}
	return list, births, nil
}

// spawned reads the id of a spawned entity.
func (d *reader) spawned() sim.EntityID {
	id := sim.EntityID(d.u64())
	if id < 1<<60 && d.err == nil {
		d.fail("spawned entity %d has an id of the scenario's", id)
	}
	return id
}

// readBatch reads the events and publications for region to.
func (w *world) readBatch(d *reader, to int, o *outbox) {
	for range d.count(leastMessage) {
		var m sim.Message
		blob, _ := d.message(&m)
		if d.err != nil {
			return
		}
		if err := w.checkBlob(&m, blob); err != nil {
			d.err, d.data = err, nil
			return
		}
		if m.Dst = uint64(w.resolve(sim.EntityID(m.Dst), to)); blob != nil {
			m.Body.A = uint64(len(o.blobs))
			o.blobs = append(o.blobs, append(alignedBytes(len(blob))[:0], blob...))
		}
		o.msgs = append(o.msgs, m)
		o.least = min(o.least, m.Time)
	}
	for range d.count(publicationSize) {
		o.pubs = append(o.pubs, d.publication(len(w.prog.Kinds)))
	}
}

// resolve returns the place of an entity in region to; nowhere if it is not there (any more).
func (w *world) resolve(id sim.EntityID, to int) place {
	if at := w.dir.find(id); at != nowhere && at.region() == to {
		return at
	}
	return nowhere
}
