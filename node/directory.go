package node

import (
	"sync"

	"github.com/simnode/simnode/sim"
)

// directory tells where each entity is. The entities of the scenario stand in an array that changes at
// cuts only. Spawned entities stand in sharded maps: the region that spawns or removes one writes
// while others read. Nobody asks for a spawned entity before its region has written it, since knowing
// the id takes a message or a publication that came after.
type directory struct {
	dense []place
	// starts holds, where entities are cut into regions by id, the first of each region, and their number
	// at the end: then places are computed and dense is nil. scale is regions/entities in 2^-32.
	starts []uint64
	scale  uint64
	// regions holds the region of each of them in a run of several members: most messages are for
	// entities elsewhere, of which the region is all that there is to know, and this array is a quarter
	// of the other; nil in a run of one process.
	regions []uint16
	shards  []shard
}

type shard struct {
	sync.RWMutex
	places map[sim.EntityID]place
}

const directoryShards = 64

func newDirectory(entities int, several bool) *directory {
	d := &directory{dense: make([]place, entities), shards: make([]shard, directoryShards)}
	if several {
		d.regions = make([]uint16, entities)
	}
	for i := range d.shards {
		d.shards[i].places = make(map[sim.EntityID]place)
	}
	return d
}

// byID lets places be computed: entities belong to regions by id, in order, for good, and each has the slot
// that it was given first.
func (d *directory) byID(owner []int32, regions int) {
	d.starts = make([]uint64, regions+1)
	for _, r := range owner {
		d.starts[r+1]++
	}
	for r := range regions {
		d.starts[r+1] += d.starts[r]
	}
	d.scale = uint64(regions) << 32 / uint64(max(len(owner), 1))
	d.dense, d.regions = nil, nil
}

// computed returns the place of entity i, counted from 0, in its first slot.
func (d *directory) computed(i uint64) place {
	r := int(min(i*d.scale>>32, uint64(len(d.starts)-2)))
	for i < d.starts[r] {
		r--
	}
	for i >= d.starts[r+1] {
		r++
	}
	return makePlace(r, uint32(i-d.starts[r]), 0)
}

// find returns the place of an entity, nowhere if it does not exist.
func (d *directory) find(id sim.EntityID) place {
	if n := len(d.starts); n > 0 && uint64(id)-1 < d.starts[n-1] {
		return d.computed(uint64(id) - 1)
	}
	if i := uint64(id) - 1; i < uint64(len(d.dense)) {
		return d.dense[i]
	}
	s := &d.shards[id%directoryShards]
	s.RLock()
	p, ok := s.places[id]
	s.RUnlock()
	if !ok {
		return nowhere
	}
	return p
}

// away returns the region of an entity of the scenario if that belongs to another member.
func (d *directory) away(id sim.EntityID, w *world) (region int, away bool) {
	if i := uint64(id) - 1; i < uint64(len(d.regions)) {
		region = int(d.regions[i])
		return region, !w.isLocal(region)
	}
	return 0, false
}

// set notes the place of an entity. The places of the scenario's entities are set at cuts only.
func (d *directory) set(id sim.EntityID, p place) {
	if n := len(d.starts); n > 0 && uint64(id)-1 < d.starts[n-1] {
		return // computed
	}
	if i := uint64(id) - 1; i < uint64(len(d.dense)) {
		d.dense[i] = p
		if d.regions != nil {
			d.regions[i] = uint16(p.region())
		}
		return
	}
	s := &d.shards[id%directoryShards]
	s.Lock()
	s.places[id] = p
	s.Unlock()
}

// spawned reports whether a spawned entity of this id exists.
func (d *directory) spawned(id sim.EntityID) bool { return d.find(id) != nowhere }

// forget drops a spawned entity that is gone. The scenario's entities keep their last place: the
// generation of the slot tells that they are gone.
func (d *directory) forget(id sim.EntityID) {
	if id < 1<<60 {
		return
	}
	s := &d.shards[id%directoryShards]
	s.Lock()
	delete(s.places, id)
	s.Unlock()
}
