package chaos

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/simnode/simnode/control"
)

// kind of a fault.
type kind string

const (
	crash     kind = "crash"     // a process dies; another one is started later, or never
	pause     kind = "pause"     // a process is stopped and goes on later
	partition kind = "partition" // a group of nodes is cut off from the others
	isolate   kind = "isolate"   // a node is cut off from all others
	apart     kind = "apart"     // two nodes cannot reach each other
	oneWay    kind = "one-way"   // nothing gets from one node to another
	flap      kind = "flap"      // two nodes lose and find each other again and again
	reset     kind = "reset"     // the connection between two nodes breaks
	elect     kind = "elect"     // the log elects another leader for no reason
	ambush    kind = "ambush"    // the log elects another leader each time a cut or the end begins
	jump      kind = "jump"      // a node's clock jumps
	slow      kind = "slow"      // a node computes slowly
	disk      kind = "disk"      // a node writes results slowly
	lag       kind = "lag"       // a node is told of the log late
	brake     kind = "brake"     // a user pauses the job and resumes it
	stop      kind = "stop"      // a user stops the job
	snipe     kind = "snipe"     // a process with a role is killed in a phase of a checkpoint or restore
	wipe      kind = "wipe"      // a process dies with its disk
	flip      kind = "flip"      // a bit of a stored checkpoint flips
	stale     kind = "stale"     // a process is restarted with an old copy of its disk
	foreign   kind = "foreign"   // a process is restarted with a copy of another node's disk
	full      kind = "full"      // a disk has no room
	save      kind = "save"      // a user asks for a checkpoint
	suspend   kind = "suspend"   // a user suspends the job, and lets it go on
)

// leaderNode stands for the node that leads the log when the fault begins.
const leaderNode = -1

// fault is something that goes wrong.
type fault struct {
	kind  kind
	at    time.Duration
	lasts time.Duration // 0 of a crash: for good
	a, b  int           // nodes, where they matter
	group uint          // of a partition: a bit for each node
	by    time.Duration // of a jump; the period of a flap; how long a snipe waits for its chance
	role  role          // of a snipe, whom it kills
	phase phase         // and when
	saved bool          // only when a checkpoint was committed
	times float64       // of slow and disk: how many times as slow
}

func nodeName(i int) string {
	if i == leaderNode {
		return "the leader"
	}
	return fmt.Sprintf("n%d", i)
}

func (f *fault) String() string {
	s := fmt.Sprintf("%9.3f s  %s", f.at.Seconds(), f.kind)
	switch f.kind {
	case crash, pause, isolate, lag, wipe, flip, stale, full:
		s += " " + nodeName(f.a)
	case foreign:
		s += " " + nodeName(f.a) + " of " + nodeName(f.b)
	case apart, flap, reset:
		s += " " + nodeName(f.a) + " and " + nodeName(f.b)
	case oneWay:
		s += " " + nodeName(f.a) + " to " + nodeName(f.b)
	case partition:
		var names []string
		for i := range bits.Len(f.group) {
			if f.group&(1<<i) != 0 {
				names = append(names, nodeName(i))
			}
		}
		s += " {" + strings.Join(names, " ") + "} from the others"
	case snipe:
		s += fmt.Sprintf(" %s in %s", f.role, f.phase)
	case jump:
		s += fmt.Sprintf(" of %s by %v", nodeName(f.a), f.by)
	case slow, disk:
		s += fmt.Sprintf(" %s, %.0f times", nodeName(f.a), f.times)
	}
	switch {
	case f.kind == crash && f.lasts == 0:
		s += " for good"
	case f.lasts > 0:
		s += fmt.Sprintf(" for %.3f s", f.lasts.Seconds())
	}
	if f.kind == flap {
		s += fmt.Sprintf(" every %v", f.by)
	}
	return s
}

// plan is what goes wrong in a run.
type plan struct {
	faults []fault
	// fromJob says that the times of faults count from when the first job begins, or from latestJob if none
	// has by then; otherwise they count from the start of the cluster.
	fromJob bool
	// length is when all faults are over, counted like them.
	length time.Duration
}

// latestJob bounds how long faults wait for a job.
const latestJob = 6 * time.Second

// drawPlan draws faults: how many, which kinds and how long is drawn for each seed anew, so that some runs
// have many of one kind.
func drawPlan(seed uint64, s *settings) *plan {
	r := newStream(seed, streamFaults)
	p := &plan{}
	count := pick(r, 0, 3, 6, 12, 20, 30)
	window := pick(r, 300*time.Millisecond, time.Second, 2*time.Second, 6*time.Second)
	p.fromJob = r.Bernoulli(0.8)
	all := []kind{crash, pause, partition, isolate, apart, oneWay, flap, reset, elect, ambush, jump, slow, disk, lag, brake, stop, snipe, wipe, flip, stale, foreign, full, save, suspend}
	weights := make([]float64, len(all))
	for i, k := range all {
		weights[i] = r.Float64() * pick(r, 0.0, 1, 1, 3)
		switch k {
		case crash:
			weights[i] *= pick(r, 0.0, 0.3, 0.6)
		case stop:
			weights[i] *= pick(r, 0.0, 0.1, 0.3)
		case wipe, flip, stale, foreign, suspend:
			weights[i] *= pick(r, 0.0, 0.3, 1)
		case snipe:
			weights[i] *= pick(r, 1.0, 3, 6)
		case elect:
			weights[i] *= 3
		}
	}
	// Only one disk loses what it had said to be durable: of each part a good copy stays.
	victim := r.n(len(s.roles))
	for range count {
		if i := r.Pick(weights); i >= 0 {
			p.faults = append(p.faults, drawFault(r, all[i], s, window, victim))
		}
	}
	p.settle(s)
	return p
}

func drawFault(r *stream, k kind, s *settings, window time.Duration, victim int) fault {
	nodes := len(s.roles)
	f := fault{kind: k, at: r.in(0, window), a: r.n(nodes), b: r.n(nodes), lasts: drawLength(r)}
	switch k {
	case crash:
		f.lasts = r.in(10*time.Millisecond, 3*time.Second)
		if r.Bernoulli(0.2) {
			f.lasts = 0
		}
	case snipe:
		f.role, f.phase, f.lasts = role(r.n(int(roles))), phase(r.n(int(phases))), r.in(10*time.Millisecond, 3*time.Second)
		f.saved, f.by = r.Bernoulli(0.7), r.in(0, 10*time.Second)
	case wipe, stale, foreign:
		f.a, f.lasts = victim, r.in(100*time.Millisecond, 3*time.Second)
	case flip:
		f.a, f.lasts = victim, 0
	case pause, isolate, slow:
		if r.Bernoulli(0.4) {
			f.a = leaderNode
		}
	case partition:
		f.group = uint(r.n(1 << nodes))
	case reset, elect, stop, save, suspend:
		f.lasts = 0
	case jump:
		f.lasts = 0
		f.by = r.in(-5*time.Second, 20*time.Second)
	case flap:
		f.by = r.in(10*time.Millisecond, 500*time.Millisecond)
	}
	switch k {
	case slow, disk:
		f.times = r.Uniform(2, pick(r, 10.0, 100, 500))
	case apart, oneWay, flap, reset:
		if f.b == f.a {
			f.b = (f.a + 1) % nodes
		}
	}
	return f
}

// drawLength draws how long a fault lasts: mostly less than what makes a node count as lost.
func drawLength(r *stream) time.Duration {
	switch x := r.Float64(); {
	case x < 0.85:
		return 10*time.Millisecond + r.exp(400*time.Millisecond)
	case x < 0.97:
		return r.in(time.Second, 6*time.Second)
	}
	return r.in(5*time.Second, 25*time.Second)
}

// settle lets no more nodes die for good than the cluster and its jobs can do without, and notes when all
// faults are over.
func (p *plan) settle(s *settings) {
	voters, workers := 0, 0
	for _, role := range s.roles {
		if role != control.Works {
			voters++
		}
		if role != control.Coordinates {
			workers++
		}
	}
	spare, need := (voters-1)/2, 1
	for _, j := range s.jobs {
		need = max(need, j.nodes)
	}
	gone := make([]bool, len(s.roles))
	for i := range p.faults {
		f := &p.faults[i]
		if f.kind == crash && f.lasts == 0 && !gone[f.a] {
			votes, works := 0, 0
			if s.roles[f.a] != control.Works {
				votes = 1
			}
			if s.roles[f.a] != control.Coordinates {
				works = 1
			}
			if votes > spare || workers-works < need {
				f.lasts = time.Second
			} else {
				spare -= votes
				workers -= works
				gone[f.a] = true
			}
		}
		over := f.at + f.lasts
		if f.kind == snipe {
			over += f.by
		}
		p.length = max(p.length, over)
	}
}

// without returns the plan without one of its faults.
func (p *plan) without(i int, s *settings) *plan {
	q := &plan{fromJob: p.fromJob}
	q.faults = append(append(q.faults, p.faults[:i]...), p.faults[i+1:]...)
	q.settle(s)
	return q
}
