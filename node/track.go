package node

import "math/bits"

// slotSet is a set of slots of a region.
type slotSet []uint64

func (s slotSet) has(slot uint32) bool {
	w := slot >> 6
	return int(w) < len(s) && s[w]&(1<<(slot&63)) != 0
}

func (s slotSet) clear(slot uint32) { s[slot>>6] &^= 1 << (slot & 63) }

// add adds a slot, for which there is room.
func (s slotSet) add(slot uint32) { s[slot>>6] |= 1 << (slot & 63) }

func (s slotSet) len() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// addRange adds the slots from first to end, without end.
func (s slotSet) addRange(first, end uint32) {
	for slot := first; slot < end; slot++ {
		if slot&63 == 0 && end-slot >= 64 {
			s[slot>>6] = ^uint64(0)
			slot += 63
			continue
		}
		s.add(slot)
	}
}

func newSlotSet(slots uint32) slotSet { return make(slotSet, (slots+63)/64) }

const (
	// rollingShare is how many of the slots, at least, one checkpoint writes anew though nothing changed: one
	// in so many. After that many checkpoints, at the latest, an increment is not needed any more.
	rollingShare = 256
	// rollingPart is the rolling share as part of what changed: with it, a checkpoint writes at most 1.4
	// times what changed, where much does.
	rollingPart = 0.4
)

// tracker is what a region knows of its changes since the last checkpoint, besides region.changed and region.due.
type tracker struct {
	// scan is the word of due from which on a capture looks.
	scan int
	// taken is what was due when the capture began: it is changed again if the capture is given up.
	taken slotSet
	// digests holds by slot the digest of the entity as it was saved last, 0 for none; sum is their sum.
	digests []uint64
	sum     uint64

	rolling
	before rolling // when the capture began

	// buf is the chunk being filled, sealed are full ones. Who saves an entity fills them: the worker that is
	// about to change it, or the capture.
	buf    []byte
	sealed [][]byte
}

// rolling says how the unchanged are written again, a share at each checkpoint.
type rolling struct {
	// next slot of the round.
	next uint32
	// begun is the checkpoint in which the round began, base that in which the last whole one did.
	begun, base uint64
}

// grow makes room for so many slots.
func (r *region) grow(slots uint32) {
	t := r.track
	for len(r.changed)*64 < int(slots) {
		r.changed = append(r.changed, 0)
	}
	for len(t.digests) < int(slots) {
		t.digests = append(t.digests, 0)
	}
}

// flip begins checkpoint n: what is due is what changed and the next share of the others. It takes the time of
// a few words for each 64 slots.
func (r *region) flip(n uint64) {
	t, used := r.track, r.ents.used
	r.grow(used)
	t.before = t.rolling
	due := r.changed
	if t.base == 0 {
		due.addRange(0, used)
		t.rolling = rolling{base: n}
	} else {
		t.roll(due, n, used)
	}
	r.changed = newSlotSet(uint32(len(due) * 64))
	r.due, t.scan = due, 0
	t.taken = append(t.taken[:0], due...)
}

// roll adds the next share of a round.
func (t *tracker) roll(due slotSet, n uint64, used uint32) {
	share := max(used/rollingShare+1, uint32(rollingPart*float64(due.len())))
	end := min(t.next+share, used)
	if t.next == 0 {
		t.begun = n
	}
	due.addRange(min(t.next, used), end)
	if t.next = end; end == used {
		t.base, t.next = t.begun, 0
	}
}

// keep ends a checkpoint that was committed.
func (r *region) keep() { r.due, r.track.buf, r.track.sealed = nil, nil, nil }

// abandon ends a checkpoint that was given up.
func (r *region) abandon() {
	r.keep()
	for i, w := range r.track.taken {
		r.changed[i] |= w
	}
	r.track.rolling = r.track.before
}

// mark notes that the pending events of the entity in a slot change.
func (r *region) mark(slot uint32) {
	if w := slot >> 6; int(w) < len(r.changed) {
		r.changed[w] |= 1 << (slot & 63)
	}
}

// touch notes that the entity in a slot is about to change, and saves it first if a capture wants it as it is. A
// region that takes no checkpoints has no changed.
func (r *region) touch(slot uint32) {
	if w := slot >> 6; int(w) < len(r.changed) {
		r.changed[w] |= 1 << (slot & 63)
		if r.due != nil && r.due.has(slot) {
			r.save(slot)
		}
	}
}

// save saves the entity in a slot for the capture under way.
func (r *region) save(slot uint32) {
	t := r.track
	r.due.clear(slot)
	var digest uint64
	t.buf, digest = r.appendSaved(t.buf, slot)
	t.sum += digest - t.digests[slot]
	t.digests[slot] = digest
	if len(t.buf) >= chunkSize {
		t.sealed = append(t.sealed, t.buf)
		t.buf = nil
	}
}

// sweep saves entities that are due, at most n, and reports whether there may be more.
func (r *region) sweep(n int) bool {
	t := r.track
	for ; t.scan < len(r.due); t.scan++ {
		for r.due[t.scan] != 0 {
			if n--; n < 0 {
				return true
			}
			r.save(uint32(t.scan*64 + bits.TrailingZeros64(r.due[t.scan])))
		}
	}
	return false
}

// harvest returns the chunks that are full, all of them if last.
func (t *tracker) harvest(last bool) [][]byte {
	if last && len(t.buf) > 0 {
		t.sealed = append(t.sealed, t.buf)
		t.buf = nil
	}
	out := t.sealed
	t.sealed = nil
	return out
}
