package chaos

import (
	"testing"
	"time"
)

// firstSeeds are seeds from which some mutants are found soon; two need programs that fail or are stopped by an
// entity. The others are found from 0 on.
var firstSeeds = map[string]uint64{
	"what is for one process goes to the one before it": 175,
	"members take messages of other epochs":             48,
	"a takeover takes a cut for complete":               21,
	"reports forget failures":                           36,
	"reports forget that an entity asked for the end":   192,
}

// hardScenes are what finds mutants that random seeds seldom find.
func hardScenes() map[string]scene {
	elections := func(r *stream, p *plan) { p.again(r, 60, 3*time.Second, fault{kind: elect}) }
	// A job that is stopped ends at the largest bound that was given.
	slow := func(_ *stream, s *settings) { s.turn, s.turnEvents = 50*time.Millisecond, 1 }
	stopped := func(r *stream, p *plan) {
		at := r.in(100*time.Millisecond, time.Second)
		p.faults = append(p.faults, fault{kind: stop, at: at})
		for k := range 6 {
			p.faults = append(p.faults, fault{kind: elect, at: at + time.Duration(1+k)*20*time.Millisecond})
		}
	}
	return map[string]scene{
		"a takeover forgets the bounds that are held":     {settings: slow, plan: stopped},
		"a takeover does not wait for what is on the way": {plan: elections},
		"a takeover forgets the end":                      {plan: func(_ *stream, p *plan) { p.faults = append(p.faults, fault{kind: ambush, lasts: time.Minute}) }},
		"what is read of a checkpoint is not checked":     {settings: often, plan: flips},
		"an older checkpoint is restored":                 {settings: often, plan: shots(plainNode, inRunning)},
		"what is for one process goes to the one before it": {
			settings: func(_ *stream, s *settings) {
				s.gossipEvery, s.link.HelloEvery = 20*time.Millisecond, 300*time.Millisecond
			},
			plan: func(r *stream, p *plan) {
				for range 8 {
					p.again(r, 1, 2*time.Second, fault{kind: crash, a: sceneLeaders + r.n(sceneWorkers), lasts: 5 * time.Millisecond})
				}
			},
		},
		"the floor at a checkpoint is left out": {settings: often},
		"a coordinator waits for ever for who is lost": {
			settings: func(_ *stream, s *settings) { s.jobs[0].nodes = sceneWorkers - 1 },
			plan: func(r *stream, p *plan) {
				p.again(r, 1, 300*time.Millisecond, fault{kind: crash, a: sceneLeaders + r.n(sceneWorkers)})
			},
		},
	}
}

// TestMutantsAreCaught shows that the checks can fail: each mistake is found within some seeds, and none of
// them is wrong without it.
func TestMutantsAreCaught(t *testing.T) {
	refs := newReferences()
	hard := hardScenes()
	for _, m := range Mutants() {
		t.Run(m.Name, func(t *testing.T) {
			const seeds = 1000
			first := firstSeeds[m.Name]
			for seed := first; seed < first+seeds; seed++ {
				s := drawSettings(seed)
				build := func(m *Mutant) *world { return newWorld(seed, s, drawPlan(seed, s), m, refs) }
				if x, ok := hard[m.Name]; ok {
					build = func(m *Mutant) *world {
						w := x.world(seed, refs)
						w.mutant = m
						return w
					}
				}
				w := build(m)
				w.run()
				if w.wrong == "" {
					continue
				}
				t.Logf("seed %d, step %d: %.200s", seed, w.wrongStep, w.wrong)
				w = build(nil)
				if w.run(); w.wrong != "" {
					t.Errorf("seed %d goes wrong without the mutant: %s", seed, w.wrong)
				}
				return
			}
			t.Errorf("%d seeds from %d on, none went wrong", seeds, first)
		})
	}
}
