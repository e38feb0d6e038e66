package lbts

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/simnode/simnode/sim"
	"pgregory.net/rapid"
)

// schedule plays one seeded random schedule and returns what went wrong.
func schedule(seed uint64, shared bool, f fault) string {
	r := rand.New(rand.NewPCG(seed, 7))
	return randomWorld(r, shared, f).play(r.IntN)
}

func TestSchedules(t *testing.T) {
	schedules(t, false, run, send, report, arrive, hear, ask, grant, cut, raise, elect)
}

func TestSchedulesInSharedMemory(t *testing.T) { schedules(t, true, run, wake, finish, cut, raise) }

// schedules plays 3,000 random schedules and checks that each kind of action took part often.
func schedules(t *testing.T, shared bool, kinds ...int) {
	var total world
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		w := randomWorld(r, shared, none)
		if wrong := w.play(r.IntN); wrong != "" {
			t.Fatalf("schedule %d: %s", seed, wrong)
		}
		for k, n := range w.tally {
			total.tally[k] += n
		}
		total.waits += w.waits
	}
	for _, k := range kinds {
		if total.tally[k] < 500 {
			t.Errorf("action %d was done %d times only in all schedules", k, total.tally[k])
		}
	}
	if !shared && total.waits < 500 {
		t.Errorf("%d grants only needed a batch on the way", total.waits)
	}
	t.Logf("actions %v, grants that wait %d", total.tally, total.waits)
}

// TestSchedulesShrinking draws the same worlds through rapid, which shrinks what fails.
func TestSchedulesShrinking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "world"), 7))
		w := randomWorld(r, rapid.Bool().Draw(t, "shared"), none)
		// Choices past those drawn come from the seed: a schedule may take thousands.
		choices := rapid.SliceOfN(rapid.IntRange(0, 1<<20), 0, 200).Draw(t, "choices")
		wrong := w.play(func(n int) int {
			if len(choices) == 0 {
				return r.IntN(n)
			}
			k := choices[0] % n
			choices = choices[1:]
			return k
		})
		if wrong != "" {
			t.Fatal(wrong)
		}
	})
}

// TestFaultsAreFound shows that the checks above can fail: each mistake is caught.
func TestFaultsAreFound(t *testing.T) {
	cases := []struct {
		name   string
		fault  fault
		shared bool
		sign   string // of the failure
	}{
		{"forgets batches on the way", forgetUnreceived, false, "forgets batch"},
		{"runs events at the bound too", runTheBoundToo, false, "another order"},
		{"does not close the lookahead", leaveOpen, false, "late"},
		{"does not wait for what a grant needs", ignoreNeeds, false, "late"},
		{"reports before it sends", reportBeforeSending, false, "has not sent yet"},
		{"runs events at the bound too, shared", runTheBoundToo, true, "another order"},
		{"does not close the lookahead, shared", leaveOpen, true, "late"},
		{"reports without its inbox, shared", skipInbox, true, "refused"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			found := map[string]int{}
			for seed := range uint64(3000) {
				if wrong := schedule(seed, c.shared, c.fault); strings.Contains(wrong, c.sign) {
					return
				} else if wrong != "" {
					found[strings.SplitN(wrong, " ", 3)[0]]++
				}
			}
			t.Errorf("3000 schedules, none failed with %q; other failures: %v", c.sign, found)
		})
	}
}

// TestEverySchedule explores all interleavings of a run of two regions.
func TestEverySchedule(t *testing.T) {
	for _, seed := range []uint64{0, 2, 3, 5, 7, 9, 12, 24} { // others have more states
		w := tinyWorld(seed, none)
		states, wrong := explore(w, 200_000)
		if wrong != "" {
			t.Fatalf("world %d after %d states: %s", seed, states, wrong)
		}
		t.Logf("world %d: %d states", seed, states)
	}
}

func TestEveryScheduleFindsFaults(t *testing.T) {
	for _, f := range []fault{forgetUnreceived, runTheBoundToo, ignoreNeeds, reportBeforeSending} {
		found := false
		for seed := uint64(0); seed < 40 && !found; seed++ {
			_, wrong := explore(tinyWorld(seed, f), 20_000)
			found = wrong != "" && wrong != tooMany
		}
		if !found {
			t.Errorf("fault %d not found", f)
		}
	}
}

func tinyWorld(seed uint64, f fault) *world {
	m := &model{seed: seed, look: [][]sim.Duration{{0, 1}, {2, 0}}}
	m.first = []event{{at: 1, src: 0, dst: 0, seq: 1, hops: 1}, {at: 2, src: 1, dst: 1, seq: 1, hops: 1}}
	return newWorld(m, []int{0, 1}, 2, f)
}

const tooMany = "too many states"

// explore visits every state that can be reached from w.
func explore(w *world, limit int) (states int, wrong string) {
	seen := map[string]bool{w.key(): true}
	todo := []*world{w}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		list := at.actions()
		if len(list) == 0 {
			if wrong := at.verdict(); wrong != "" {
				return len(seen), wrong
			}
		}
		for _, x := range list {
			next := at.clone()
			next.do(x)
			if next.wrong != "" {
				return len(seen), next.wrong
			}
			if k := next.key(); !seen[k] {
				seen[k] = true
				todo = append(todo, next)
			}
		}
		if len(seen) > limit {
			return len(seen), tooMany
		}
	}
	return len(seen), ""
}

// clone copies all that do changes in place; the rest is replaced, never changed.
func (w *world) clone() *world {
	c := *w
	c.ents, c.regions = slices.Clone(w.ents), slices.Clone(w.regions)
	c.links, c.reports, c.grants = slices.Clone(w.links), slices.Clone(w.reports), slices.Clone(w.grants)
	c.given = slices.Clone(w.given)
	for i := range c.regions {
		r := &c.regions[i]
		r.queue, r.out, r.grants = slices.Clone(r.queue), slices.Clone(r.out), slices.Clone(r.grants)
		r.sent, r.reported = slices.Clone(r.sent), slices.Clone(r.reported)
		r.least, r.got = slices.Clone(r.least), slices.Clone(r.got)
	}
	c.solver = w.solver.clone()
	return &c
}

func (s *Solver) clone() *Solver {
	c := *s
	c.channel = slices.Clone(s.channel)
	for i := range c.channel {
		c.channel[i].ring = slices.Clone(s.channel[i].ring)
	}
	c.next, c.way, c.pending = slices.Clone(s.next), slices.Clone(s.way), slices.Clone(s.pending)
	c.pending = slices.Clone(s.pending)
	for i := range c.pending {
		c.pending[i] = slices.Clone(s.pending[i])
	}
	c.eff, c.safe, c.given = slices.Clone(s.eff), slices.Clone(s.safe), slices.Clone(s.given)
	c.by, c.named = slices.Clone(s.by), slices.Clone(s.named)
	c.heard, c.stamp = slices.Clone(s.heard), slices.Clone(s.stamp)
	return &c
}

// key tells apart states that can go on differently. Every list is written with its length.
func (w *world) key() string {
	var k key
	for _, n := range w.ents {
		k.add(n.rng, n.seq, n.digest)
	}
	for i := range w.regions {
		r := &w.regions[i]
		k.events(r.queue)
		k.grants(r.grants)
		k.add(uint64(r.held), flag(r.dirty))
		for j := range w.regions {
			k.events(r.out[j])
			k.add(r.sent[j], r.reported[j], uint64(r.least[j]), r.got[j])
		}
		k.grants(w.grants[i])
		k.add(uint64(w.given[i]), uint64(len(w.reports[i])))
		for _, rep := range w.reports[i] {
			k.report(rep)
		}
	}
	for _, link := range w.links {
		k.add(uint64(len(link)))
		for _, b := range link {
			k.add(b.number)
			k.events(b.events)
		}
	}
	k.solver(w.solver)
	return string(k)
}

type key []byte

func (k *key) add(list ...uint64) {
	for _, x := range list {
		*k = binary.AppendUvarint(*k, x)
	}
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (k *key) events(list []event) {
	k.add(uint64(len(list)))
	for _, e := range list {
		k.add(uint64(e.at), uint64(e.prio), uint64(e.src), uint64(e.dst), e.seq, uint64(e.hops))
	}
}

func (k *key) grants(list []Grant) {
	k.add(uint64(len(list)))
	for _, g := range list {
		k.add(uint64(g.Bound), uint64(len(g.Needs)))
		for _, x := range g.Needs {
			k.add(uint64(x.From), x.Batch)
		}
	}
}

func (k *key) report(r Report) {
	k.add(uint64(r.Region), uint64(r.Next), uint64(len(r.Sent)), uint64(len(r.Received)))
	for _, m := range r.Sent {
		k.add(uint64(m.To), m.Batch, uint64(m.Least))
	}
	for _, m := range r.Received {
		k.add(uint64(m.From), m.Batch)
	}
}

// solver writes all of a Solver's state that matters to its answers.
func (k *key) solver(s *Solver) {
	k.add(uint64(s.limit))
	for i := range s.n {
		k.add(uint64(s.next[i]), uint64(s.way[i]), uint64(len(s.pending[i])), uint64(s.eff[i]), uint64(s.given[i]))
	}
	for i := range s.channel {
		c := &s.channel[i]
		k.add(c.sent, c.got, uint64(c.n))
		for j := range c.n {
			k.add(c.at(j).batch, uint64(c.at(j).least))
		}
	}
}
