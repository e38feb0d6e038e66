package chaos

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/sim"
)

// often takes checkpoints as often as it can.
func often(_ *stream, s *settings) {
	s.jobs[0].checkpoints = control.Checkpoints{Every: 20, EverySim: sim.Second, KeepLast: 2}
	s.store, s.sync = 3*time.Millisecond, 10*time.Millisecond
	s.config.RetryAfter = 100 * time.Millisecond
}

// everywhere lets the nodes that coordinate work too.
func everywhere(r *stream, s *settings) {
	often(r, s)
	for i := range s.roles {
		s.roles[i] = control.Both
	}
	s.jobs[0].nodes = len(s.roles)
}

// shots adds a process with a role that is killed in each of some phases.
func shots(who role, when ...phase) func(*stream, *plan) {
	return func(r *stream, p *plan) {
		for _, x := range when {
			p.faults = append(p.faults, fault{kind: snipe, role: who, phase: x, saved: true, by: 20 * time.Second, lasts: r.in(100*time.Millisecond, time.Second)})
		}
	}
}

func (w *world) kills(who role, when phase) uint64 { return w.truth.kills[who][when] }

// TestEveryRoleInEveryPhase kills each role in each phase.
func TestEveryRoleInEveryPhase(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long with the race detector")
	}
	refs := newReferences()
	for who := range roles {
		for when := range phases {
			killed, restored, seed := uint64(0), uint64(0), uint64(0)
			for ; seed < 60 && (killed == 0 || restored == 0); seed++ {
				w := scene{settings: everywhere, plan: shots(who, when)}.world(seed, refs)
				w.run()
				if w.wrong != "" {
					t.Fatalf("%s in %s, seed %d: %s", who, when, seed, w.wrong)
				}
				killed += w.kills(who, when)
				restored += w.truth.restores
			}
			t.Logf("%s in %s: %d seeds", who, when, seed)
			if killed == 0 || restored == 0 {
				t.Errorf("%s in %s: killed %d times, %d restores", who, when, killed, restored)
			}
		}
	}
}

// TestPairsOfSeeds looks whether the seeds that are run by default bring about every pair.
func TestPairsOfSeeds(t *testing.T) {
	if os.Getenv("SIMNODE_LONG_TESTS") != "1" {
		t.Skip("SIMNODE_LONG_TESTS is not 1")
	}
	r := Campaign(context.Background(), Options{Seeds: 1000})
	check(t, r)
	r.Counts.Kills.Each(func(who, when string, n uint64) {
		if n == 0 {
			t.Errorf("%s is never killed in %s", who, when)
		}
	})
	for i, n := range r.Counts.all() {
		if *n == 0 {
			t.Errorf("count %d of %+v is 0", i, r.Counts)
		}
	}
}

func restores(w *world) uint64 { return w.truth.restores }
func commits(w *world) uint64  { return w.truth.commits }

func TestFault01NodeKilled(t *testing.T) {
	list := scene{settings: often, plan: func(r *stream, p *plan) {
		for range 4 {
			p.again(r, 1, 3*time.Second, fault{kind: crash, a: sceneLeaders + r.n(sceneWorkers), lasts: r.in(0, time.Second)})
		}
	}}.run(t)
	some(t, list, "restores", restores)
}

func TestFault03KilledInACheckpoint(t *testing.T) {
	list := scene{settings: often, plan: shots(plainNode, inCut, inWriting, inCopying, inCommitting)}.run(t)
	some(t, list, "restores", restores)
	some(t, list, "checkpoints", commits)
}

func TestFault04KilledWhileItIsCommitted(t *testing.T) {
	for _, who := range []role{plainNode, coordinatorNode, recorderNode} {
		list := scene{settings: often, plan: shots(who, inCommitting, inCommitting)}.run(t)
		some(t, list, "killed", func(w *world) uint64 { return w.kills(who, inCommitting) })
	}
}

// A node and its partner die: where both come back the job goes on, where they do not it fails with what is missing.
func TestFault06NodeAndPartnerDie(t *testing.T) {
	list := scene{settings: often, plan: shots(partnerNode, inRunning)}.run(t)
	some(t, list, "restores", restores)
	list = scene{
		settings: func(r *stream, s *settings) {
			often(r, s)
			s.config.HolderWait = 3 * time.Second
		},
		plan: func(r *stream, p *plan) {
			at := r.in(time.Second, 2*time.Second)
			p.faults = append(p.faults, fault{kind: crash, a: sceneLeaders, at: at, lasts: 30 * time.Second}, fault{kind: crash, a: sceneLeaders + 1, at: at, lasts: 30 * time.Second})
		},
	}.run(t)
	some(t, list, "jobs that failed since nobody has a part", func(w *world) uint64 { return w.surrendered })
	for _, w := range list {
		for _, j := range w.log.last().Jobs {
			if j.Phase == control.Failed && j.Result == nil && !(strings.Contains(j.Reason, "was held by node n") && strings.HasSuffix(j.Reason, "and no such node is there")) {
				t.Errorf("seed %d: %s", w.seed, j.Reason)
			}
		}
	}
}

func TestFault07SecondFailureWhileRestoring(t *testing.T) {
	for _, who := range []role{plainNode, coordinatorNode, recorderNode} {
		list := scene{settings: often, plan: shots(who, inRestoring, inRestoring, inRestoring)}.run(t)
		some(t, list, "killed", func(w *world) uint64 { return w.kills(who, inRestoring) })
		some(t, list, "restores", restores)
	}
}

// All processes die at once, and all come back.
func TestFault08AllKilled(t *testing.T) {
	list := scene{settings: often, plan: func(r *stream, p *plan) {
		at := r.in(500*time.Millisecond, 2*time.Second)
		for i := range sceneLeaders + sceneWorkers {
			p.faults = append(p.faults, fault{kind: crash, a: i, at: at, lasts: r.in(100*time.Millisecond, time.Second)})
		}
	}}.run(t)
	some(t, list, "restores", restores)
}

func TestFault18DiskFull(t *testing.T) {
	list := scene{settings: often, plan: func(r *stream, p *plan) {
		p.again(r, 2, time.Second, fault{kind: full, a: sceneLeaders + r.n(sceneWorkers), lasts: time.Second})
	}}.run(t)
	noneLost(t, list)
	some(t, list, "parts given up", func(w *world) uint64 { return w.truth.abandoned })
	some(t, list, "checkpoints", commits)
}

// What was not synced is lost or torn, and never taken for what was committed.
func TestFault24TornWrite(t *testing.T) {
	list := scene{settings: often, plan: func(r *stream, p *plan) {
		shots(plainNode, inWriting, inCopying, inWriting)(r, p)
		shots(recorderNode, inWriting)(r, p)
	}}.run(t)
	some(t, list, "killed while writing", func(w *world) uint64 { return w.kills(plainNode, inWriting) + w.kills(recorderNode, inWriting) })
	some(t, list, "restores", restores)
}

// flips alters what a node has stored again and again, and restarts it.
func flips(r *stream, p *plan) {
	a := sceneLeaders + r.n(sceneWorkers)
	p.again(r, 40, 2*time.Second, fault{kind: flip, a: a})
	p.again(r, 3, 2*time.Second, fault{kind: crash, a: a, lasts: 200 * time.Millisecond})
}

func TestFault26BitFlip(t *testing.T) {
	list := scene{settings: often, plan: flips}.run(t)
	some(t, list, "parts found bad", func(w *world) uint64 { return w.truth.unfit })
	some(t, list, "restores", restores)
	none(t, list, "jobs that failed", func(w *world) uint64 { return w.surrendered })
}

func TestFault27StaleOrForeignDisk(t *testing.T) {
	list := scene{settings: often, plan: func(r *stream, p *plan) {
		p.again(r, 2, time.Second, fault{kind: stale, a: sceneLeaders + 1, lasts: time.Second})
	}}.run(t)
	some(t, list, "parts found bad", func(w *world) uint64 { return w.truth.unfit })
	none(t, list, "jobs that failed", func(w *world) uint64 { return w.surrendered })
	// A node gets the disk of another one, of which only it loses what it had.
	list = scene{settings: often, plan: func(r *stream, p *plan) {
		p.again(r, 1, time.Second, fault{kind: foreign, a: sceneLeaders + 1, b: sceneLeaders, lasts: 300 * time.Millisecond})
	}}.run(t)
	some(t, list, "parts found bad", func(w *world) uint64 { return w.truth.unfit })
	none(t, list, "jobs that failed", func(w *world) uint64 { return w.surrendered })
}

func TestFault28DiskWiped(t *testing.T) {
	list := scene{settings: often, plan: func(r *stream, p *plan) {
		p.again(r, 2, 2*time.Second, fault{kind: wipe, a: sceneLeaders + 1, lasts: 300 * time.Millisecond})
	}}.run(t)
	some(t, list, "parts found bad", func(w *world) uint64 { return w.truth.unfit })
	some(t, list, "restores", restores)
	none(t, list, "jobs that failed", func(w *world) uint64 { return w.surrendered })
}

// none fails if a count is above 0 in a world.
func none(t *testing.T, list []*world, what string, count func(w *world) uint64) {
	t.Helper()
	for _, w := range list {
		if n := count(w); n > 0 {
			t.Errorf("seed %d: %s: %d", w.seed, what, n)
		}
	}
}

// TestFault36OtherNumberOfNodes goes on with fewer nodes, with one, and with others than before.
func TestFault36OtherNumberOfNodes(t *testing.T) {
	sizes := map[int]int{}
	for _, gone := range [][]int{{0, 2}, {1}} {
		list := scene{
			settings: func(r *stream, s *settings) {
				often(r, s)
				s.jobs[0].nodes = 2
			},
			plan: func(r *stream, p *plan) {
				at := r.in(time.Second, 2*time.Second)
				for k, x := range gone {
					// One after the other, so that there is a copy of what the second holds.
					p.faults = append(p.faults, fault{kind: crash, a: sceneLeaders + x, at: at + time.Duration(k)*8*time.Second, lasts: 20 * time.Second})
				}
				p.again(r, 1, 12*time.Second, fault{kind: crash, a: sceneLeaders + 1, lasts: 100 * time.Millisecond})
			},
		}.run(t)
		for _, w := range list {
			for _, j := range w.truth.list {
				if j.job.Restore != nil && !slices.Contains(j.shares, nil) || j.finish != nil {
					sizes[len(j.job.Members)]++
				}
			}
		}
	}
	for n := 1; n <= sceneWorkers; n++ {
		if sizes[n] == 0 {
			t.Errorf("no job went on with %d nodes: %v", n, sizes)
		}
	}
}

// TestFault38PruningRacesARestore keeps one checkpoint only and kills often: what is restored is never removed.
func TestFault38PruningRacesARestore(t *testing.T) {
	list := scene{
		settings: func(r *stream, s *settings) {
			often(r, s)
			s.jobs[0].checkpoints.KeepLast = 1
		},
		plan: func(r *stream, p *plan) {
			shots(plainNode, inRestoring, inCommitting, inRunning)(r, p)
			p.again(r, 5, 3*time.Second, fault{kind: lag, a: sceneLeaders + r.n(sceneWorkers), lasts: 500 * time.Millisecond})
		},
	}.run(t)
	some(t, list, "restores", restores)
	none(t, list, "parts found bad", func(w *world) uint64 { return w.truth.unfit })
}

// TestSuspend suspends jobs, which go on later.
func TestSuspend(t *testing.T) {
	list := scene{settings: often, plan: func(r *stream, p *plan) {
		p.again(r, 2, 2*time.Second, fault{kind: suspend})
		p.again(r, 1, 3*time.Second, fault{kind: crash, a: sceneLeaders + r.n(sceneWorkers), lasts: time.Second})
	}}.run(t)
	some(t, list, "recoveries", func(w *world) uint64 { return w.recoveries })
	some(t, list, "restores", restores)
}
