package node

import (
	"math/bits"

	"github.com/simnode/simnode/sim"
)

// load counts the events of a region over simulated time, in equal bins from 0 to the end of the run.
// Events come in the order of time, so that a bin costs something only when it is opened.
type load struct {
	end  sim.Time
	bins []uint64
	// bin is open until the time next; from is the count of events when it was opened.
	bin  int
	next sim.Time
	from uint64
}

func newLoad(bins int, end sim.Time) load {
	l := load{end: end, bins: make([]uint64, bins), next: sim.Never}
	if bins > 0 {
		l.next = l.start(1)
	}
	return l
}

// start is when a bin begins: bin x end / bins, rounded up.
func (l *load) start(bin int) sim.Time {
	hi, lo := bits.Mul64(uint64(bin), uint64(l.end))
	lo, carry := bits.Add64(lo, uint64(len(l.bins)-1), 0)
	q, _ := bits.Div64(hi+carry, lo, uint64(len(l.bins)))
	return sim.Time(q)
}

// open closes the bin and opens the one of time t; events counts those before it.
func (l *load) open(t sim.Time, events uint64) {
	l.bins[l.bin] += events - l.from
	l.from = events
	for l.bin+1 < len(l.bins) && t >= l.start(l.bin+1) {
		l.bin++
	}
	l.next = sim.Never
	if l.bin+1 < len(l.bins) {
		l.next = l.start(l.bin + 1)
	}
}

// close returns the bins of a region that has handled as many events.
func (l *load) close(events uint64) []uint64 {
	if len(l.bins) > 0 {
		l.bins[l.bin] += events - l.from
		l.from = events
	}
	return l.bins
}
