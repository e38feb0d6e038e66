package chaos

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/simnode/simnode/control"
)

// user submits jobs, and pauses and stops them.
type user struct {
	w    *world
	r    *stream
	keys int
	// brakes counts why the user wants the job to pause.
	brakes int
	// wanted are the jobs that are to be done.
	wanted []*wanted
}

// wanted is something that the user wants to be run.
type wanted struct {
	jobSettings
	spec jobSpec
	// job is the id of the last attempt, empty until it is in the log.
	job string
	// sought is the key of the command that submits it.
	sought  string
	stopped bool
	done    bool
}

func newUser(w *world, seed uint64) *user {
	u := &user{w: w, r: newStream(seed, streamUser)}
	for _, j := range w.settings.jobs {
		u.wanted = append(u.wanted, &wanted{jobSettings: j, spec: jobSpec{j.program, j.trace}})
	}
	return u
}

func (u *user) begin() {
	for _, x := range u.wanted {
		u.w.at(x.at, func() { u.submit(x) })
	}
	u.w.after(0, u.look)
}

// look resumes a job that is paused for no reason.
func (u *user) look() {
	job := u.w.log.last().Current()
	if u.brakes == 0 && job != nil && job.Phase == control.Paused {
		u.move(control.Running)
	}
	if job != nil && job.Phase == control.Suspended {
		u.move(control.Running)
	}
	u.w.after(u.r.in(100*time.Millisecond, time.Second), u.look)
}

// satisfied reports whether all jobs are done.
func (u *user) satisfied() bool {
	return !slices.ContainsFunc(u.wanted, func(x *wanted) bool { return !x.done })
}

func (u *user) submit(x *wanted) {
	x.job = ""
	x.sought = u.ask(control.Command{Submit: &control.Submit{
		Name: "chaos", Bundle: hashOf(x.spec.bundle()), Spec: control.Spec{Regions: x.regions, Nodes: x.nodes, Checkpoints: x.checkpoints},
	}}, x.spec.bundle())
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ask appends a command to the log, again and again until it is there, and returns its key. The bundle of a
// job is uploaded where it is not there (any more).
func (u *user) ask(c control.Command, bundle []byte) string {
	u.keys++
	c.Key = fmt.Sprintf("user/%d", u.keys)
	u.try(c, bundle)
	return c.Key
}

func (u *user) try(c control.Command, bundle []byte) {
	if slices.ContainsFunc(u.w.log.answers, func(a control.Answered) bool { return a.Key == c.Key }) {
		return
	}
	if c.Submit != nil && u.w.log.last().Bundle(c.Submit.Bundle) == nil {
		u.keys++
		u.w.log.user(control.Command{Key: fmt.Sprintf("user/%d", u.keys), Upload: &control.Upload{Hash: c.Submit.Bundle, Size: len(bundle), Data: bundle}})
	} else {
		u.w.log.user(c)
	}
	u.w.after(u.r.in(50*time.Millisecond, 500*time.Millisecond), func() { u.try(c, bundle) })
}

// current is what the job at work was wanted for, nil if none is.
func (u *user) current() *wanted {
	if job := u.w.log.last().Current(); job != nil {
		return u.of(job)
	}
	return nil
}

// move asks for another phase of the job at work; whether that is possible is for the log to say.
func (u *user) move(to control.Phase) {
	x := u.current()
	if x == nil {
		return
	}
	if to == control.Stopping {
		x.stopped = true
	}
	u.ask(control.Command{Move: &control.Move{Job: x.job, To: to}}, nil)
}

// save asks for a checkpoint of the job at work.
func (u *user) save() {
	if x := u.current(); x != nil {
		u.ask(control.Command{Save: &control.Save{Job: x.job}}, nil)
	}
}

// learned takes in a new state of the log.
func (u *user) learned(answer control.Answered) {
	for _, x := range u.wanted {
		switch {
		case x.sought != answer.Key:
		case answer.Error == "":
			x.job = answer.Job
		default: // another job with the same bundle ended, and the bundle with it
			u.w.after(0, func() { u.submit(x) })
		}
	}
}

// of returns what a job is wanted for.
func (u *user) of(job *control.Job) *wanted {
	for _, x := range u.wanted {
		if x.job == job.ID {
			return x
		}
	}
	return nil
}
