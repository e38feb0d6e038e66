package lbts

import "github.com/simnode/simnode/sim"

// flight is what is known of batches on the way: up to this number, none holds an event before least.
type flight struct {
	batch uint64
	least sim.Time
}

// channel is what was reported of the batches from one region to another.
//
// A receiver acknowledges all batches up to a number. So an entry that a later one undercuts can
// never again be the least, and is dropped: what stays rises both in batch and in least (the sliding
// window minimum), the least is in front, and each call takes constant time on average.
type channel struct {
	sent, got uint64 // latest batch reported as sent, as received; either may be ahead
	ring      []flight
	head      int // index of the first flight in ring
	n         int // flights in ring
}

// send notes the batches after sent up to batch; the receiver may have them already.
func (c *channel) send(batch uint64, least sim.Time) {
	c.sent = batch
	if batch <= c.got {
		return
	}
	for c.n > 0 && c.at(c.n-1).least >= least {
		c.n--
	}
	if c.n == len(c.ring) {
		c.grow()
	}
	c.ring[(c.head+c.n)&(len(c.ring)-1)] = flight{batch, least}
	c.n++
}

// receive notes that all batches up to batch have arrived.
func (c *channel) receive(batch uint64) {
	c.got = batch
	for c.n > 0 && c.at(0).batch <= batch {
		c.head = (c.head + 1) & (len(c.ring) - 1)
		c.n--
	}
}

// least returns the earliest time stamp on the way, Never if none is.
func (c *channel) least() sim.Time {
	if c.n == 0 {
		return sim.Never
	}
	return c.at(0).least
}

// needed returns the last batch on the way that may hold an event before bound, 0 if none does.
func (c *channel) needed(bound sim.Time) uint64 {
	batch := uint64(0)
	for k := 0; k < c.n; k++ {
		f := c.at(k)
		if f.least >= bound {
			break
		}
		batch = f.batch
	}
	return batch
}

func (c *channel) at(k int) flight { return c.ring[(c.head+k)&(len(c.ring)-1)] }

// grow doubles the ring; its length is a power of two.
func (c *channel) grow() {
	ring := make([]flight, max(4, 2*len(c.ring)))
	for k := range c.n {
		ring[k] = c.at(k)
	}
	c.ring, c.head = ring, 0
}

// restart forgets everything but the room.
func (c *channel) restart() { *c = channel{ring: c.ring} }
