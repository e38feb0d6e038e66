package node

import (
	"fmt"

	"github.com/simnode/simnode/sim"
)

// What follows shows what is on the way between members, to those who check a run from outside.

// Content tells the times of what an event frame holds from one region for another. To is -1 for entities
// that a region spawned, of which all regions learn.
type Content struct {
	From, To int
	// Events is the least time of an event; Never where there is none.
	Events sim.Time
}

// Contents reads an event frame without taking it in. A frame that cannot be read is an error.
func Contents(p *sim.Program, data []byte, yield func(Content)) error {
	d := &reader{data: data}
	for len(d.data) > 0 && d.err == nil {
		switch kind := d.u8(); kind {
		case segmentEvents:
			yield(d.content(len(p.Kinds)))
		case segmentBirths:
			yield(Content{From: d.region(MaxRegions), To: -1, Events: sim.Never})
			d.take(8 * d.count(8))
		case segmentDeaths:
			d.take(8 * d.count(8))
		default:
			d.fail("segment of kind %d", kind)
		}
	}
	if err := d.done(); err != nil {
		return fmt.Errorf("contents of an event frame: %w", err)
	}
	return nil
}

func (d *reader) content(kinds int) Content {
	c := Content{From: d.region(MaxRegions), To: d.region(MaxRegions), Events: sim.Never}
	for range d.count(leastMessage) {
		var m sim.Message
		d.message(&m)
		c.Events = min(c.Events, m.Time)
	}
	for range d.count(publicationSize) {
		d.publication(kinds)
	}
	return c
}

// Unsent yields what the part has sealed for other members and Collect has not taken yet, in the form of
// event frames. The data must not be changed.
func (p *Part) Unsent(yield func(to int, data []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for m, pieces := range p.outgoing {
		for _, piece := range pieces {
			yield(m, piece.data)
		}
	}
}
