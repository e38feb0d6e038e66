package chaos

import (
	"slices"
	"time"

	"github.com/simnode/simnode/control"
)

// phase is what a job goes through when a process is killed.
type phase int

const (
	inRunning phase = iota
	inCut
	inWriting
	inCopying
	inCommitting
	inRestoring
	phases
)

// role is what a process that is killed is to the job.
type role int

const (
	plainNode role = iota
	coordinatorNode
	partnerNode // of a member that is dead
	recorderNode
	roles
)

func (p phase) String() string {
	return [phases]string{"running", "cut", "writing", "copying", "committing", "restoring"}[p]
}

func (r role) String() string {
	return [roles]string{"a plain node", "the coordinator", "the partner of a dead node", "the recorder"}[r]
}

// Kills count the processes that were killed, by what they were to the job and what the job went through.
type Kills [roles][phases]uint64

// Each calls f with each pair.
func (k *Kills) Each(f func(role, phase string, n uint64)) {
	for r := range k {
		for p, n := range k[r] {
			f(role(r).String(), phase(p).String(), n)
		}
	}
}

// phase tells what the job at work goes through; false if there is none, or it is being set up.
func (w *world) phase() (phase, bool) {
	job := w.log.last().Current()
	if job == nil || job.Away {
		return 0, false
	}
	j := w.truth.jobs[job.Epoch]
	switch {
	case j == nil || slices.Contains(j.procs, nil):
		return 0, false
	case job.Restore != nil && j.restored < len(job.Members):
		return inRestoring, true
	case j.cutting:
		return inCut, true
	}
	writing, copying, all := false, false, true
	for _, s := range j.shares {
		if s == nil || s.open == nil {
			all = false
			continue
		}
		writing = writing || !s.open.own
		copying = copying || s.open.own && !s.open.copied
		all = all && s.open.told
	}
	switch {
	case all:
		return inCommitting, true
	case copying:
		return inCopying, true
	case writing:
		return inWriting, true
	}
	return inRunning, true
}

// rolesOf lists what a host is to the job at work.
func (w *world) rolesOf(h *host) (list []role) {
	job := w.log.last().Current()
	if job == nil {
		return nil
	}
	if w.log.leader == h.i {
		list = append(list, coordinatorNode)
	}
	n := len(job.Members)
	m := slices.Index(job.Members, h.name)
	if m < 0 {
		return list
	}
	if m == job.Recorder {
		list = append(list, recorderNode)
	}
	if of := w.member(job, (m+n-1)%n); n > 1 && (of.p == nil || of.p.boot != job.Boots[(m+n-1)%n]) {
		list = append(list, partnerNode)
	}
	if len(list) == 0 {
		list = append(list, plainNode)
	}
	return list
}

func (w *world) member(job *control.Job, m int) *host { return w.hosts[w.byName(job.Members[m])] }

// killed counts a process that is about to be killed.
func (w *world) killed(h *host) {
	p, ok := w.phase()
	if w.shooting != nil {
		p, ok = w.shooting.phase, true // the first of two has changed it
	}
	if !ok {
		return
	}
	for _, r := range w.rolesOf(h) {
		w.truth.kills[r][p]++
	}
}

// sniper waits for a phase and kills a process with a role then.
type sniper struct {
	role  role
	phase phase
	fault *fault
	// provoked says that a process was killed to bring a restore about.
	provoked bool
}

// snipe is called where the phase of a job may have changed.
func (w *world) snipe() {
	if len(w.snipers) == 0 {
		return
	}
	now, ok := w.phase()
	if !ok {
		return
	}
	saved := w.log.last().Current().Newest() != nil
	for _, s := range slices.Clone(w.snipers) {
		if s.phase == inRestoring && now == inRunning {
			w.provoke(s)
		}
		if s.phase != now || s.fault.saved && !saved || !w.shots.Bernoulli(0.4) {
			continue
		}
		w.after(0, func() { w.shoot(s) })
	}
}

// provoke kills a member of a job that has a checkpoint, so that it is restored.
func (w *world) provoke(s *sniper) {
	job := w.log.last().Current()
	if s.provoked || job.Newest() == nil || !w.shots.Bernoulli(0.2) {
		return
	}
	s.provoked = true
	h := w.member(job, w.shots.n(len(job.Members)))
	w.after(0, func() {
		if h.p == nil {
			return
		}
		w.note("SHOT: %s, to have a checkpoint restored", h.name)
		w.after(w.shots.in(10*time.Millisecond, time.Second), w.crash(h, s.fault))
	})
}

// shoot kills a process with a role if the phase is still the one that was waited for.
func (w *world) shoot(s *sniper) {
	now, ok := w.phase()
	if !ok || now != s.phase || !slices.Contains(w.snipers, s) {
		return
	}
	job := w.log.last().Current()
	n := len(job.Members)
	var targets []*host
	switch s.role {
	case coordinatorNode:
		if w.log.leader >= 0 {
			targets = append(targets, w.hosts[w.log.leader])
		}
	case recorderNode:
		targets = append(targets, w.member(job, job.Recorder))
	case partnerNode:
		if n > 1 {
			m := w.shots.n(n)
			targets = append(targets, w.member(job, m), w.member(job, (m+1)%n))
		}
	case plainNode:
		for m := range n {
			if h := w.member(job, m); slices.Equal(w.rolesOf(h), []role{plainNode}) {
				targets = append(targets, h)
			}
		}
		if len(targets) > 1 {
			targets = []*host{pick(w.shots, targets...)}
		}
	}
	if len(targets) == 0 || slices.ContainsFunc(targets, func(h *host) bool { return h.p == nil }) {
		return
	}
	w.snipers = slices.DeleteFunc(w.snipers, func(x *sniper) bool { return x == s })
	w.shooting = s
	defer func() { w.shooting = nil }()
	for _, h := range targets {
		w.note("SHOT: %s (%s in %s)", h.name, s.role, s.phase)
		end := w.crash(h, s.fault)
		w.after(s.fault.lasts, end)
	}
}
