package chaos

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/simnode/simnode/control"
)

// world is a cluster, with all that happens to it.
type world struct {
	seed       uint64
	settings   *settings
	plan       *plan
	mutant     *Mutant
	references *references

	now    time.Duration
	agenda agenda
	trace  trace
	buffer []byte
	work   *stream

	hosts  []*host
	net    *network
	log    *replog
	gossip *gossip
	user   *user
	truth  *truth

	// healed is when all faults are over, negative before they have begun.
	healed time.Duration

	// snipers wait to kill somebody; shots decides for them.
	snipers []*sniper
	shots   *stream
	// shooting is the one that kills now.
	shooting *sniper

	// ambushes is how many more cuts or ends bring about an election.
	ambushes int

	steps uint64
	// recoveries count epochs that a job began after the loss of a member, failed the jobs that failed as
	// their model does.
	recoveries, failed uint64
	// surrendered counts jobs that failed since nobody had a good copy of a part of their checkpoint.
	surrendered uint64
	// wrong is the first thing that was found wrong; wrongStep and wrongAt when.
	wrong     string
	wrongStep uint64
	wrongAt   time.Duration
}

const (
	// patience is how long a run may stand still when all faults are over.
	patience = 90 * time.Second
	// mostSteps and mostTime bound a run: no run comes near unless it goes round in circles.
	mostSteps = 20_000_000
	mostTime  = 4 * time.Hour
	// settleFor is how long a run goes on after its end, so that what is left of it comes to light.
	settleFor = 2 * time.Second
)

func newWorld(seed uint64, s *settings, p *plan, m *Mutant, refs *references) *world {
	w := &world{seed: seed, settings: s, plan: p, mutant: m, references: refs, work: newStream(seed, streamWork), shots: newStream(seed, streamShots)}
	for i, role := range s.roles {
		w.hosts = append(w.hosts, &host{w: w, i: i, name: nodeName(i), role: role, workers: s.workers[i], rate: s.rates[i], slow: 1, disk: 1, platter: newPlatter()})
	}
	w.net = newNetwork(w, seed, len(w.hosts))
	w.truth = newTruth(w)
	w.log = newReplog(w, seed)
	w.gossip = newGossip(w, seed)
	w.user = newUser(w, seed)
	return w
}

// at has something happen at a time, after in a while.
func (w *world) at(t time.Duration, do func())    { w.agenda.add(max(t, w.now), do) }
func (w *world) after(d time.Duration, do func()) { w.agenda.add(w.now+d, do) }

// scaled is a duration times a factor.
func scaled(d time.Duration, f float64) time.Duration { return time.Duration(float64(d) * f) }

func (w *world) byName(name string) int {
	return slices.IndexFunc(w.hosts, func(h *host) bool { return h.name == name })
}

// fail notes what is wrong; the first counts.
func (w *world) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong, w.wrongStep, w.wrongAt = fmt.Sprintf(format, args...), w.steps, w.now
		w.note("WRONG: %s", w.wrong)
	}
}

// changed is called when what nodes can reach, or whether they run, has changed.
func (w *world) changed() { w.truth.survey() }

// run plays the run to its end, or until something is wrong.
func (w *world) run() {
	for _, h := range w.hosts {
		h.start()
	}
	w.after(0, w.log.beat)
	w.after(0, w.gossip.round)
	w.user.begin()
	w.healed = -1
	if w.plan.fromJob {
		w.after(latestJob, w.disturb)
	} else {
		w.disturb()
	}
	w.after(time.Second, w.watchProgress)
	w.play(func() bool { return w.user.satisfied() && w.calm() })
	if w.wrong != "" {
		return
	}
	end := w.now + settleFor
	w.at(end, func() {})
	w.play(func() bool { return w.now >= end })
	if w.wrong == "" {
		w.truth.rest()
	}
}

// disturb has the faults of the plan begin, unless they have.
func (w *world) disturb() {
	if w.healed >= 0 {
		return
	}
	w.healed = w.now + w.plan.length
	for i := range w.plan.faults {
		w.begin(&w.plan.faults[i])
	}
}

// calm reports whether all faults are over.
func (w *world) calm() bool { return w.healed >= 0 && w.now >= w.healed }

// play lets things happen until done.
func (w *world) play(done func() bool) {
	defer func() {
		if v := recover(); v != nil {
			w.fail("panic: %v\n%s", v, debug.Stack())
		}
	}()
	for w.wrong == "" && !done() {
		e, ok := w.agenda.next()
		if !ok {
			w.fail("nothing is left to happen")
			return
		}
		w.now = e.at
		w.steps++
		w.trace.fold(uint64(e.at), e.seq)
		e.do()
		if w.steps > mostSteps || w.now > mostTime {
			w.fail("no end after %d steps: %s", w.steps, w.status())
		}
	}
}

// watchProgress finds a run that stands still when all faults are over.
func (w *world) watchProgress() {
	t := w.truth
	now := t.turns + t.taken + uint64(len(w.log.states))
	if now != t.progress || !w.calm() {
		t.progress, t.progressAt = now, w.now
	}
	if w.now-t.progressAt > patience && !w.user.satisfied() {
		w.fail("nothing has gone on for %v though all faults are over: %s", patience, w.status())
	}
	w.after(time.Second, w.watchProgress)
}

// status tells what everybody waits for.
func (w *world) status() string {
	s := w.log.String()
	for _, h := range w.hosts {
		if h.p == nil {
			s += "; " + h.name + " is dead"
			continue
		}
		a, c := h.p.agent.Status(), h.p.coord.Status()
		s += fmt.Sprintf("; %s: agent %s in epoch %d under %s in term %d at cut %d", h.p.boot, a.Stage, a.Epoch, a.Coordinator, a.Term, a.Cut)
		if c.Leading {
			s += fmt.Sprintf(", leads in term %d and awaits %s", c.Term, c.Awaited)
		}
	}
	return s
}

// begin has a fault happen, and end.
func (w *world) begin(f *fault) {
	w.after(f.at, func() {
		a := f.a
		if a == leaderNode {
			if a = w.log.leader; a < 0 {
				a = 0
			}
		}
		w.note("FAULT: %s (%s)", f, nodeName(a))
		end := w.cause(f, a)
		if end == nil {
			return
		}
		w.after(f.lasts, func() {
			w.note("END of fault: %s (%s)", f, nodeName(a))
			end()
		})
	})
}

// cause has a fault on node a begin, and returns what ends it, nil if it needs no end.
func (w *world) cause(f *fault, a int) (end func()) {
	h := w.hosts[a]
	switch f.kind {
	case crash:
		return w.crash(h, f)
	case pause:
		h.halt()
		h.jolts++
		return h.wake
	case partition:
		return w.separate(func(i, j int) bool { return f.group>>i&1 != f.group>>j&1 })
	case isolate:
		return w.separate(func(i, j int) bool { return i == a || j == a })
	case apart:
		return w.separate(func(i, j int) bool { return i == a && j == f.b || i == f.b && j == a })
	case oneWay:
		return w.separate(func(i, j int) bool { return i == a && j == f.b })
	case flap:
		return w.flap(a, f)
	case reset:
		w.net.reset(a, f.b)
	case elect:
		w.log.elect()
	case ambush:
		w.ambushes = 5
		return func() { w.ambushes = 0 }
	case jump:
		if h.p != nil {
			h.p.shift += f.by
			h.jolts++
		}
	case slow:
		h.slow *= f.times
		return func() { h.slow /= f.times }
	case disk:
		h.disk *= f.times
		return func() { h.disk /= f.times }
	case lag:
		h.lag++
		return func() { h.lag-- }
	case brake:
		w.user.brakes++
		w.user.move(control.Paused)
		return func() { w.user.brakes-- }
	case stop:
		w.user.move(control.Stopping)
	case snipe:
		s := &sniper{role: f.role, phase: f.phase, fault: f}
		w.snipers = append(w.snipers, s)
		w.after(f.by, func() { w.snipers = slices.DeleteFunc(w.snipers, func(x *sniper) bool { return x == s }) })
	case wipe:
		// The disk goes with the process.
		end := w.crash(h, f)
		if h.p == nil {
			h.platter.wipe()
		}
		return end
	case flip:
		h.platter.flip(w.shots)
	case stale:
		old := h.platter.copy()
		return func() { w.putBack(h, old) }
	case foreign:
		other := w.hosts[f.b].platter
		end := w.crash(h, f)
		if h.p == nil {
			h.platter = other.copy()
		}
		return end
	case full:
		h.platter.full++
		platter := h.platter
		return func() { platter.full = max(platter.full-1, 0) }
	case save:
		w.user.save()
	case suspend:
		w.user.move(control.Suspending)
	}
	return nil
}

func (w *world) crash(h *host, f *fault) func() {
	if h.p == nil {
		return nil
	}
	w.killed(h)
	h.kill()
	if f.lasts == 0 {
		return nil
	}
	return func() {
		if h.p == nil {
			h.start()
		}
	}
}

// putBack has a process die and another one start with an older copy of its disk.
func (w *world) putBack(h *host, old *platter) {
	if h.p != nil {
		h.kill()
	}
	h.platter = old
	w.after(time.Second, func() {
		if h.p == nil {
			h.start()
		}
	})
}

// stage is called when members begin a cut or the end.
func (w *world) stage() {
	if w.ambushes > 0 {
		w.ambushes--
		w.after(w.log.r.exp(2*w.settings.net.delay+w.settings.step), w.log.elect)
	}
}

// separate cuts the ways for which apart holds, and returns what heals them.
func (w *world) separate(apart func(i, j int) bool) func() {
	var ways [][2]int
	for i := range w.hosts {
		for j := range w.hosts {
			if i != j && apart(i, j) {
				ways = append(ways, [2]int{i, j})
				w.net.sever(i, j)
			}
		}
	}
	return func() {
		for _, x := range ways {
			w.net.heal(x[0], x[1])
		}
	}
}

// flap separates two nodes again and again.
func (w *world) flap(a int, f *fault) func() {
	heal := func() {}
	over := false
	var change func()
	change = func() {
		if over {
			return
		}
		if heal != nil {
			heal()
			heal = nil
		} else {
			heal = w.separate(func(i, j int) bool { return i == a && j == f.b || i == f.b && j == a })
		}
		w.after(f.by, change)
	}
	change()
	return func() {
		over = true
		if heal != nil {
			heal()
		}
	}
}
