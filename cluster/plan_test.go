package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/simnode/simnode/control"
)

// world is a cluster as the leader's plan sees it, with changes taking effect at once.
type world struct {
	now   time.Time
	peers map[string]*peer
	conf  map[string]bool // name: votes
}

func (w *world) view() view {
	v := view{now: w.now, started: w.now.Add(-time.Hour), self: "n00", gone: time.Minute, formation: 7}
	for name, votes := range w.conf {
		v.servers = append(v.servers, server{name, votes})
	}
	for _, p := range w.peers {
		v.peers = append(v.peers, p)
	}
	slices.SortFunc(v.peers, func(a, b *peer) int { return cmpString(a.name, b.name) })
	return v
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (w *world) up(name string) bool {
	p := w.peers[name]
	return p != nil && p.alive && p.meta.running
}

func (w *world) voters() (all, up int) {
	for name, votes := range w.conf {
		if votes {
			all++
			if w.up(name) {
				up++
			}
		}
	}
	return all, up
}

func (w *world) make(ch change) {
	p := *w.peers[ch.name]
	switch ch.act {
	case actRemove:
		delete(w.conf, ch.name)
	case actDemote:
		w.conf[ch.name] = false
	case actAdd:
		w.conf[ch.name] = false
		p.meta.running, p.meta.formation = true, 7
		w.peers[ch.name] = &p
	case actInvite:
		p.meta.running, p.meta.formation = true, 7
		w.peers[ch.name] = &p
	case actPromote:
		w.conf[ch.name] = true
	}
}

func drawWorld(t *rapid.T) *world {
	w := &world{now: time.Unix(1e9, 0), peers: map[string]*peer{}, conf: map[string]bool{"n00": true}}
	w.peers["n00"] = &peer{name: "n00", alive: true, since: w.now, meta: meta{running: true, role: control.Both, formation: 7, founded: true, term: 3}}
	for i := range rapid.IntRange(0, 9).Draw(t, "others") {
		name := fmt.Sprintf("n%02d", i+1)
		p := &peer{name: name, since: w.now.Add(-time.Duration(rapid.IntRange(0, 120).Draw(t, "since")) * time.Second)}
		p.alive = rapid.IntRange(0, 3).Draw(t, "alive") > 0
		p.meta.role = roles[rapid.IntRange(0, 2).Draw(t, "role")]
		p.meta.leaving = rapid.IntRange(0, 5).Draw(t, "leaving") == 0
		p.meta.running = rapid.Bool().Draw(t, "running")
		p.meta.formation = []uint64{0, 7, 7, 8}[rapid.IntRange(0, 3).Draw(t, "formation")]
		w.peers[name] = p
		if votes, _ := w.voters(); p.meta.formation != 8 {
			switch k := rapid.IntRange(0, 2).Draw(t, "member"); {
			case k == 1:
				w.conf[name] = false
			case k == 2 && votes < MaxVoters && p.alive:
				w.conf[name] = true
			}
		}
	}
	// A leader has a majority.
	for all, up := w.voters(); up <= all/2; all, up = w.voters() {
		for name, votes := range w.conf {
			if votes && !w.up(name) {
				w.conf[name] = false
				break
			}
		}
	}
	return w
}

func TestPlanKeepsAMajorityAndSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for step := 0; ; step++ {
			changes := plan(w.view())
			if again := plan(w.view()); !slices.Equal(changes, again) {
				t.Fatalf("two plans of one view: %v and %v", changes, again)
			}
			if len(changes) == 0 {
				break
			}
			if step > 60 {
				t.Fatalf("no end: %v", changes)
			}
			// Any of them may be the one that can be made now.
			ch := changes[rapid.IntRange(0, len(changes)-1).Draw(t, "which")]
			if ch.name == "n00" {
				t.Fatalf("the leader changes itself: %v", ch)
			}
			if p := w.peers[ch.name]; p.meta.formation == 8 && ch.act != actRemove {
				t.Fatalf("a node of another cluster: %v", ch)
			}
			if ch.reset && (func() bool { _, member := w.conf[ch.name]; return member })() {
				t.Fatalf("a member is reset: %v", ch)
			}
			was := w.conf[ch.name]
			w.make(ch)
			all, up := w.voters()
			if up <= all/2 || all > MaxVoters {
				t.Fatalf("after %v %d of %d voters are up", ch, up, all)
			}
			if ch.act == actPromote && (was || !w.up(ch.name)) {
				t.Fatalf("%v, up: %v", ch, w.up(ch.name))
			}
		}
		all, _ := w.voters()
		for name, p := range w.peers {
			votes, member := w.conf[name]
			able := p.alive && !p.meta.leaving && p.meta.formation != 8
			switch {
			case able && !member:
				t.Fatalf("%s was not added", name)
			case able && mayVote(p.meta.role) && !votes && all < MaxVoters:
				t.Fatalf("%s has no vote, with %d voters", name, all)
			case member && !votes && p.meta.leaving:
				t.Fatalf("%s leaves and was not removed", name)
			case member && !votes && !p.alive && w.now.Sub(p.since) >= time.Minute:
				t.Fatalf("%s is gone and was not removed", name)
			}
		}
	})
}

func TestWhoFounds(t *testing.T) {
	p := func(name string, alive bool, change func(*meta)) *peer {
		q := &peer{name: name, alive: alive, meta: meta{role: control.Both}}
		if change != nil {
			change(&q.meta)
		}
		return q
	}
	works := func(m *meta) { m.role = control.Works }
	runs := func(m *meta) { m.running = true }
	leaves := func(m *meta) { m.leaving = true }
	for what, c := range map[string]struct {
		self     string
		expected int
		peers    []*peer
		want     bool
	}{
		"alone":                  {"a", 1, []*peer{p("a", true, nil)}, true},
		"too few":                {"a", 3, []*peer{p("a", true, nil), p("b", true, nil)}, false},
		"least":                  {"a", 2, []*peer{p("a", true, nil), p("b", true, nil)}, true},
		"not the least":          {"b", 2, []*peer{p("a", true, nil), p("b", true, nil)}, false},
		"the least only works":   {"b", 2, []*peer{p("a", true, works), p("b", true, nil), p("c", true, nil)}, true},
		"the least leaves":       {"b", 2, []*peer{p("a", true, leaves), p("b", true, nil), p("c", true, nil)}, true},
		"the least is dead":      {"b", 1, []*peer{p("a", false, nil), p("b", true, nil)}, true},
		"one is in a cluster":    {"a", 2, []*peer{p("a", true, nil), p("b", true, nil), p("c", true, runs)}, false},
		"one that was, and died": {"a", 1, []*peer{p("a", true, nil), p("c", false, runs)}, false},
	} {
		if got := mayFound(c.self, c.expected, c.peers); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	for expected, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 9: 3} {
		if got := quorum(expected); got != want {
			t.Errorf("of %d expected %d must vote, want %d", expected, got, want)
		}
	}
}
