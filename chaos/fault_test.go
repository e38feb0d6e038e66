package chaos

import (
	"testing"
	"time"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
)

// scene is a kind of disturbance on its own: a cluster of three coordinators and three workers, a job that
// takes long enough, and the faults that a test plans.
type scene struct {
	// settings and plan change what is drawn.
	settings func(r *stream, s *settings)
	plan     func(r *stream, p *plan)
}

// leaders and workers of a scene, by number.
const (
	sceneLeaders = 3
	sceneWorkers = 3
)

// run runs a scene for some seeds and returns its worlds, of which all have ended well.
func (x scene) run(t *testing.T) (list []*world) {
	t.Helper()
	seeds := uint64(10)
	if testing.Short() {
		seeds = 4
	}
	refs := newReferences()
	for seed := range seeds {
		w := x.world(seed, refs)
		w.run()
		if w.wrong != "" {
			lines := w.trace.lines()
			for _, l := range lines[max(0, len(lines)-30):] {
				t.Log(l)
			}
			t.Fatalf("seed %d, step %d: %s", seed, w.wrongStep, w.wrong)
		}
		list = append(list, w)
	}
	return list
}

func (x scene) world(seed uint64, refs *references) *world {
	s := drawSettings(seed)
	s.roles, s.workers, s.rates = nil, nil, nil
	for range sceneLeaders {
		s.roles = append(s.roles, control.Coordinates)
	}
	for range sceneWorkers {
		s.roles = append(s.roles, control.Works)
	}
	for range s.roles {
		s.workers, s.rates = append(s.workers, 1), append(s.rates, 1)
	}
	s.jobs = []jobSettings{{program: seed, regions: 6, nodes: sceneWorkers, trace: true}}
	s.turn, s.turnEvents = 10*time.Millisecond, 2
	r := newStream(seed, streamFaults)
	if x.settings != nil {
		x.settings(r, s)
	}
	p := &plan{fromJob: true}
	if x.plan != nil {
		x.plan(r, p)
	}
	p.settle(s)
	return newWorld(seed, s, p, nil, refs)
}

// again adds a fault n times, at random times within a while.
func (p *plan) again(r *stream, n int, within time.Duration, f fault) {
	for range n {
		f.at = r.in(0, within)
		p.faults = append(p.faults, f)
	}
}

// noneLost fails where a job went back.
func noneLost(t *testing.T, list []*world) {
	t.Helper()
	for _, w := range list {
		if w.recoveries > 0 {
			t.Errorf("seed %d: a job went back %d times", w.seed, w.recoveries)
		}
	}
}

// some fails unless a count is above 0 in all worlds together.
func some(t *testing.T, list []*world, what string, count func(w *world) uint64) {
	t.Helper()
	n := uint64(0)
	for _, w := range list {
		n += count(w)
	}
	if n == 0 {
		t.Errorf("%s: none, the scene tests nothing", what)
	}
	t.Logf("%s: %d", what, n)
}

func (w *world) takeovers() uint64 { return w.truth.takeovers }

// refused sums what the agents refused.
func (w *world) refused(count func(c control.AgentCounts) uint64) (n uint64) {
	for _, h := range w.hosts {
		if h.p != nil {
			n += count(h.p.agent.Counts())
		}
	}
	return n
}

func TestFault02CoordinatorKilled(t *testing.T) {
	list := scene{plan: func(r *stream, p *plan) {
		p.again(r, 4, 2*time.Second, fault{kind: crash, a: leaderNode, lasts: 300 * time.Millisecond})
	}}.run(t)
	noneLost(t, list)
	some(t, list, "takeovers", (*world).takeovers)
}

// A process that was stopped for long is replaced, and all that it sends when it goes on is refused.
func TestFault09StoppedAndWokenUp(t *testing.T) {
	list := scene{
		settings: func(_ *stream, s *settings) { s.jobs[0].nodes = sceneWorkers - 1 },
		plan: func(r *stream, p *plan) {
			p.again(r, 1, 300*time.Millisecond, fault{kind: pause, a: sceneLeaders + r.n(sceneWorkers), lasts: 30 * time.Second})
		},
	}.run(t)
	some(t, list, "recoveries", func(w *world) uint64 { return w.recoveries })
	some(t, list, "messages of an old epoch refused", func(w *world) uint64 {
		return w.refused(func(c control.AgentCounts) uint64 { return c.OtherEpoch })
	})
}

// A zombie whose links work again after its job was given to others disturbs nobody.
func TestFault29Zombie(t *testing.T) {
	list := scene{
		settings: func(_ *stream, s *settings) { s.jobs[0].nodes = sceneWorkers - 1 },
		plan: func(r *stream, p *plan) {
			p.again(r, 1, 300*time.Millisecond, fault{kind: isolate, a: sceneLeaders + r.n(sceneWorkers), lasts: 20 * time.Second})
		},
	}.run(t)
	some(t, list, "recoveries", func(w *world) uint64 { return w.recoveries })
	some(t, list, "messages of an old epoch refused", func(w *world) uint64 {
		return w.refused(func(c control.AgentCounts) uint64 { return c.OtherEpoch })
	})
}

func TestFault10CoordinatorPaused(t *testing.T) {
	list := scene{plan: func(r *stream, p *plan) {
		p.again(r, 4, 2*time.Second, fault{kind: pause, a: leaderNode, lasts: 2 * time.Second})
	}}.run(t)
	noneLost(t, list)
	some(t, list, "takeovers", (*world).takeovers)
	some(t, list, "messages of an old term refused", func(w *world) uint64 {
		return w.refused(func(c control.AgentCounts) uint64 { return c.OldTerm })
	})
}

func TestFault11SymmetricPartition(t *testing.T) {
	list := scene{plan: func(r *stream, p *plan) {
		p.again(r, 3, 2*time.Second, fault{kind: isolate, a: leaderNode, lasts: time.Second})
	}}.run(t)
	noneLost(t, list)
	some(t, list, "takeovers", (*world).takeovers)
	// Both sides of a partition through the middle of the members: it stops, and goes on.
	list = scene{plan: func(r *stream, p *plan) {
		p.again(r, 2, 2*time.Second, fault{kind: partition, group: uint(r.n(1 << (sceneLeaders + sceneWorkers))), lasts: time.Second})
	}}.run(t)
	noneLost(t, list)
}

func TestFault12OneWayCut(t *testing.T) {
	list := scene{plan: func(r *stream, p *plan) {
		for range 4 {
			a := r.n(sceneLeaders + sceneWorkers)
			b := (a + 1 + r.n(sceneLeaders+sceneWorkers-1)) % (sceneLeaders + sceneWorkers)
			p.again(r, 1, time.Second, fault{kind: pick(r, oneWay, apart), a: a, b: b, lasts: 1500 * time.Millisecond})
		}
	}}.run(t)
	noneLost(t, list)
	for _, w := range list {
		if n := w.log.elections; n > 1+len(w.plan.faults) {
			t.Errorf("seed %d: %d elections for %d faults: a storm", w.seed, n, len(w.plan.faults))
		}
	}
}

func TestFault13FlappingLinks(t *testing.T) {
	list := scene{plan: func(r *stream, p *plan) {
		for a := range sceneLeaders + sceneWorkers {
			for b := range a {
				if r.Bernoulli(0.5) {
					p.again(r, 1, time.Second, fault{kind: flap, a: a, b: b, lasts: 2 * time.Second, by: r.in(20*time.Millisecond, 300*time.Millisecond)})
				}
			}
		}
	}}.run(t)
	noneLost(t, list)
	for _, w := range list {
		if late := w.now - w.healed; late > patience {
			t.Errorf("seed %d ended %v after the last fault", w.seed, late)
		}
	}
}

func TestFault14LossDuplicationReordering(t *testing.T) {
	list := scene{settings: func(r *stream, s *settings) {
		s.net = netSettings{delay: time.Millisecond, jitter: 5 * time.Millisecond, loss: r.Uniform(0.05, 0.3), twice: r.Uniform(0.05, 0.3), harm: 0.02}
		s.link.Resend = 20 * time.Millisecond
	}}.run(t)
	noneLost(t, list)
	some(t, list, "frames lost", func(w *world) uint64 { return w.net.lost })
	some(t, list, "frames repeated", func(w *world) uint64 { return w.net.twice })
	some(t, list, "frames damaged", func(w *world) uint64 { return w.net.harmed })
}

func TestFault15DelayAndJitter(t *testing.T) {
	list := scene{settings: func(r *stream, s *settings) {
		s.net = netSettings{
			stream: r.Bernoulli(0.5), delay: r.in(20*time.Millisecond, 100*time.Millisecond), jitter: r.in(0, 50*time.Millisecond),
			spike: 0.01, spikeDelay: 300 * time.Millisecond,
		}
		s.link.Resend = 0
		if !s.net.stream {
			s.link.Resend = 400 * time.Millisecond
		}
		s.jobs[0].program = pick(r, s.jobs[0].program, 3)
	}}.run(t)
	noneLost(t, list)
}

func TestFault17ClocksJumpAndSkew(t *testing.T) {
	list := scene{
		settings: func(r *stream, s *settings) {
			for i := range s.rates {
				s.rates[i] = r.Uniform(0.5, 2)
			}
		},
		plan: func(r *stream, p *plan) {
			for range 8 {
				by := r.in(-time.Hour, 24*time.Hour)
				p.again(r, 1, 3*time.Second, fault{kind: jump, a: r.n(sceneLeaders + sceneWorkers), by: by})
			}
		},
	}.run(t)
	noneLost(t, list)
}

// TestBruteForceBoundIsRight compares the closure that the checks use with that of package lbts.
func TestBruteForceBoundIsRight(t *testing.T) {
	r := newStream(1, streamTopology)
	for range 200 {
		n := 1 + r.n(6)
		m := lbts.NewMatrix(n)
		direct := randomLookahead(r, n)
		for to := range n {
			for from := range n {
				if from != to {
					m.Set(from, to, direct[to*n+from])
				}
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		got := closure(n, direct)
		for to := range n {
			for from := range n {
				if got[to*n+from] != m.At(from, to) {
					t.Fatalf("from %d to %d of %v: %v, package lbts says %v", from, to, direct, got[to*n+from], m.At(from, to))
				}
			}
		}
	}
}

func randomLookahead(r *stream, n int) []sim.Duration {
	direct := make([]sim.Duration, n*n)
	for i := range direct {
		direct[i] = pick(r, sim.Forever, sim.Duration(1+r.n(20)), sim.Duration(1+r.n(20)))
	}
	return direct
}
