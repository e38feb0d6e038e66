package chaos

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// reference is what an undisturbed run of a program gives.
type reference struct {
	digest   uint64
	events   uint64
	entities int
	results  string
	// end is the time reached, stopped that an entity ended the run there.
	end     sim.Time
	stopped bool
	// failure of the model, or nil.
	failure *node.Failure
	obs     []observation
}

// observation is what is kept of an observation to compare it.
type observation struct {
	at   sim.Time
	hash uint64
}

func observed(o *sim.Observation) observation {
	h := sim.Digest(uint64(o.Time), o.Key, o.Seq)
	h = sim.Digest(h, uint64(o.Index)<<16|uint64(o.Series), uint64(o.Entity))
	h = sim.Digest(h, math.Float64bits(o.Value), uint64(o.Kind)<<8|uint64(o.Op))
	return observation{o.Time, sim.DigestBytes(h, o.Row)}
}

// Observe implements sim.Sink.
func (r *reference) Observe(obs []sim.Observation) error {
	for i := range obs {
		r.obs = append(r.obs, observed(&obs[i]))
	}
	return nil
}

// runReference runs a program in one region on one worker.
func runReference(seed uint64, end sim.Time, trace bool) (*reference, error) {
	p, err := newProgram(seed, end)
	if err != nil {
		return nil, fmt.Errorf("program %d: %w", seed, err)
	}
	r := &reference{}
	out, err := node.Run(context.Background(), p, node.Options{Regions: 1, Workers: 1, Sink: r, Trace: trace})
	if err != nil && !errors.As(err, &r.failure) {
		return nil, fmt.Errorf("program %d: %w", seed, err)
	}
	if r.failure != nil {
		r.end = r.failure.Time
		return r, nil
	}
	r.digest, r.events, r.entities, r.end, r.stopped = out.Digest, out.Events, out.Entities, out.End, out.Stopped
	if r.results, err = resultsOf(p, out); err != nil {
		return nil, fmt.Errorf("program %d: %w", seed, err)
	}
	return r, nil
}

func resultsOf(p *sim.Program, out *node.Outcome) (string, error) {
	values, err := p.Results(out.Final(nil))
	if err != nil {
		return "", err
	}
	return fmt.Sprint(values), nil // fmt prints maps in order of key
}

// below returns how many observations lie before a time.
func (r *reference) below(t sim.Time) int {
	lo, hi := 0, len(r.obs)
	for lo < hi {
		mid := (lo + hi) / 2
		if r.obs[mid].at < t {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// references keeps references for the seeds that share a program. It is safe for concurrent use.
type references struct {
	mu   sync.Mutex
	kept map[refKey]*refEntry // looked up, never iterated
	ages []refKey
}

type refKey struct {
	seed  uint64
	trace bool
}

type refEntry struct {
	once sync.Once
	ref  *reference
	err  error
}

// maxKept bounds the references that are kept.
const maxKept = 64

func newReferences() *references { return &references{kept: map[refKey]*refEntry{}} }

func (c *references) of(seed uint64, trace bool) (*reference, error) {
	k := refKey{seed, trace}
	c.mu.Lock()
	e := c.kept[k]
	if e == nil {
		e = &refEntry{}
		c.kept[k] = e
		c.ages = append(c.ages, k)
		if len(c.ages) > maxKept {
			delete(c.kept, c.ages[0])
			c.ages = c.ages[1:]
		}
	}
	c.mu.Unlock()
	e.once.Do(func() { e.ref, e.err = runReference(seed, -1, trace) })
	return e.ref, e.err
}
