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

// tracker is what a region knows of its changes since the last checkpoint.
type tracker struct {
	// changed are the slots whose entity, or whose pending events, changed since the last checkpoint.
	changed slotSet
	// due are slots that the capture under way has yet to save as they were at its time; nil without one.
	due slotSet
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

func (t *tracker) grow(slots uint32) {
	for len(t.changed)*64 < int(slots) {
		t.changed = append(t.changed, 0)
	}
	for len(t.digests) < int(slots) {
		t.digests = append(t.digests, 0)
	}
}

// flip begins checkpoint n: what is due is what changed and the next share of the others. It takes the time of
// a few words for each 64 slots.
func (t *tracker) flip(n uint64, used uint32) {
	t.grow(used)
	t.before = t.rolling
	due := t.changed
	if t.base == 0 {
		due.addRange(0, used)
		t.rolling = rolling{base: n}
	} else {
		t.roll(due, n, used)
	}
	t.changed = newSlotSet(uint32(len(due) * 64))
	t.due, t.scan = due, 0
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
func (t *tracker) keep() { t.due, t.buf, t.sealed = nil, nil, nil }

// abandon ends a checkpoint that was given up.
func (t *tracker) abandon() {
	t.keep()
	for i, w := range t.taken {
		t.changed[i] |= w
	}
	t.rolling = t.before
}

// mark notes that the pending events of the entity in a slot change.
func (r *region) mark(slot uint32) {
	if t := r.track; t != nil && int(slot>>6) < len(t.changed) {
		t.changed.add(slot)
	}
}

// touch notes that the entity in a slot is about to change, and saves it first if a capture wants it as it is.
func (r *region) touch(slot uint32) {
	t := r.track
	if t == nil {
		return
	}
	if int(slot>>6) >= len(t.changed) {
		t.grow(slot + 1)
	}
	t.changed.add(slot)
	if t.due.has(slot) {
		r.save(slot)
	}
}

// save saves the entity in a slot for the capture under way.
func (r *region) save(slot uint32) {
	t := r.track
	t.due.clear(slot)
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
	for ; t.scan < len(t.due); t.scan++ {
		for t.due[t.scan] != 0 {
			if n--; n < 0 {
				return true
			}
			r.save(uint32(t.scan*64 + bits.TrailingZeros64(t.due[t.scan])))
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
