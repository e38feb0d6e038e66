package chaos

import "time"

// event is something that happens at a time.
type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

// agenda holds what is still to happen, in the order of (time, sequence).
type agenda struct {
	heap []event
	seq  uint64
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// add adds an event; those of one time happen in the order in which they were added.
func (a *agenda) add(at time.Duration, do func()) {
	a.seq++
	a.heap = append(a.heap, event{at, a.seq, do})
	h := a.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// next takes the first event; false if there is none.
func (a *agenda) next() (event, bool) {
	h := a.heap
	if len(h) == 0 {
		return event{}, false
	}
	first := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h[last] = event{}
	h = h[:last]
	a.heap = h
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h[child].before(&h[least]) {
				least = child
			}
		}
		if least == i {
			return first, true
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
