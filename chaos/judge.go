package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/simnode/simnode/control"
)

// judge looks at jobs that a command ended.
func (w *world) judge(before, after *control.State) {
	for _, job := range after.Jobs {
		was := before.Job(job.ID)
		if !job.Phase.Ended() || was == nil || was.Phase.Ended() {
			continue
		}
		x := w.user.of(job)
		if x == nil {
			w.fail("%s ended, which nobody wants", job.ID)
			return
		}
		if job.Phase == control.Failed {
			w.failed++
			w.judgeFailed(job, x)
		} else {
			w.judgeDone(job, x)
		}
		x.done = true
	}
	w.judgeRecovery(before, after)
	w.judgeCommit(before, after)
}

// judgeCommit checks that every part of a checkpoint that was just committed is durable at both holders.
func (w *world) judgeCommit(before, after *control.State) {
	for _, job := range after.Jobs {
		was, n := before.Job(job.ID), job.Newest()
		if was == nil || n == nil || was.Newest() != nil && was.Newest().Number == n.Number {
			continue
		}
		w.truth.commits++
		if old := was.Newest(); old != nil && (n.Number < old.Number || n.At < old.At || n.Epoch < old.Epoch) {
			w.fail("checkpoint %d at %v of epoch %d is committed after %d at %v of epoch %d", n.Number, n.At, n.Epoch, old.Number, old.At, old.Epoch)
		}
		for i := range n.Parts {
			p := &n.Parts[i]
			for _, name := range []string{p.Member, p.Partner} {
				if name == "" {
					continue
				}
				d := w.hosts[w.byName(name)].platter
				key := partKey{job.ID, n.Number, i}
				err := d.good(key, p.Root, n.Chain)
				if err == nil && !d.parts[key].synced {
					err = errors.New("it is not durable")
				}
				if err != nil && !d.hurt {
					w.fail("checkpoint %d is committed, and part %d on %s is not good: %v", n.Number, i, name, err)
				}
			}
			if len(job.Members) > 1 && p.Partner == "" {
				w.fail("checkpoint %d is committed, and part %d has no copy", n.Number, i)
			}
		}
	}
}

// judgeSurrender reports whether a job had to fail since a part of its checkpoint has no good copy on a node
// that has been there for a while.
func (w *world) judgeSurrender(job *control.Job) bool {
	n := job.Newest()
	if n == nil || !strings.Contains(job.Reason, "cannot go on from checkpoint") {
		return false
	}
	for i := range n.Parts {
		there := false
		for _, name := range []string{n.Parts[i].Member, n.Parts[i].Partner} {
			if name == "" {
				continue
			}
			h := w.hosts[w.byName(name)]
			since := w.truth.well[max(w.log.leader, 0)][h.i]
			if h.running() && since >= 0 && w.now-since > 2*wellFor && h.platter.good(partKey{job.ID, n.Number, i}, n.Parts[i].Root, n.Chain) == nil {
				there = true
			}
		}
		if !there {
			return true
		}
	}
	return false
}

// judgeRecovery counts epochs after the first.
func (w *world) judgeRecovery(before, after *control.State) {
	job := after.Current()
	if job == nil {
		return
	}
	if was := before.Job(job.ID); was != nil && was.Epoch != 0 && was.Epoch != job.Epoch {
		w.recoveries++
	}
}

// judgeFailed judges a job that failed.
func (w *world) judgeFailed(job *control.Job, x *wanted) {
	if job.Result != nil {
		w.judgeModel(job, x)
		return
	}
	if w.judgeSurrender(job) {
		w.surrendered++
		return
	}
	w.fail("%s failed without need: %s", job.ID, job.Reason)
}

// judgeModel judges a job that failed since its model did.
func (w *world) judgeModel(job *control.Job, x *wanted) {
	o, ref := w.outcomeOf(job, x)
	if o == nil {
		return
	}
	switch {
	case ref.failure == nil:
		w.fail("%s failed (%s), the undisturbed run does not", job.ID, job.Reason)
	case job.Reason != ref.failure.Error():
		w.fail("%s failed with %q, the undisturbed run with %q", job.ID, job.Reason, ref.failure.Error())
	case o.Seen != ref.below(ref.failure.Time):
		w.fail("%s failed at %v with %d observations before, the undisturbed run had %d", job.ID, ref.failure.Time, o.Seen, ref.below(ref.failure.Time))
	}
}

// judgeDone compares a job that is done with the undisturbed run.
func (w *world) judgeDone(job *control.Job, x *wanted) {
	if job.Result == nil {
		if !x.stopped || job.Epoch != 0 && !job.Away {
			w.fail("%s is done without a result: %s", job.ID, job.Reason)
		}
		return
	}
	o, ref := w.outcomeOf(job, x)
	if o == nil {
		return
	}
	switch {
	case o.How == control.EndInterrupted && !x.stopped:
		w.fail("%s was interrupted at %v, though nobody stopped it", job.ID, o.End)
		return
	case o.How == control.EndInterrupted:
		var err error
		if ref, err = runReference(x.spec.program, o.End, x.spec.trace); err != nil {
			w.fail("%v", err)
			return
		}
	case ref.failure == nil && (o.How == control.EndStopped) != ref.stopped:
		w.fail("%s ended at %v by %v, the undisturbed run at %v (stopped by an entity: %t)", job.ID, o.End, o.How, ref.end, ref.stopped)
		return
	}
	if ref.failure != nil {
		w.fail("%s is done, the undisturbed run fails: %v", job.ID, ref.failure)
		return
	}
	got := fmt.Sprintf("digest %016x, %d events, %d entities, results %s, %d observations up to %v", o.Digest, o.Events, o.Entities, o.Results, o.Seen, o.End)
	want := fmt.Sprintf("digest %016x, %d events, %d entities, results %s, %d observations up to %v", ref.digest, ref.events, ref.entities, ref.results, len(ref.obs), ref.end)
	if got != want {
		w.fail("%s ended with %s; the undisturbed run with %s", job.ID, got, want)
	}
}

func (w *world) outcomeOf(job *control.Job, x *wanted) (*outcome, *reference) {
	o := &outcome{}
	if err := json.Unmarshal(job.Result, o); err != nil {
		w.fail("result of %s: %v", job.ID, err)
		return nil, nil
	}
	ref, err := w.references.of(x.spec.program, x.spec.trace)
	if err != nil {
		w.fail("%v", err)
		return nil, nil
	}
	return o, ref
}

// wellFor is how long a node may be well without being heard: links and pings need some time.
const wellFor = 2 * time.Second

// noted judges what a coordinator tells: a node that it calls lost must have been silent for so long, and not
// because it was not listened to.
func (t *truth) noted(p *process, text string) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(text, "node "), " ")
	m := t.w.byName(name)
	if m < 0 || !strings.Contains(rest, "the job goes back") || !strings.Contains(rest, "was last heard") && !strings.Contains(rest, "was never heard") {
		return
	}
	now, cfg := t.w.now, &t.w.settings.config
	silent := now - t.heard[p.i][m]
	least := scaled(cfg.LostAfter, 1/p.rate) - scaled(cfg.SilentAfter, float64(p.jolts)/p.rate)
	if silent < least-t.w.settings.tick {
		t.w.fail("%s calls %s lost, which it heard %v ago: %s", p.boot, name, silent, text)
	}
	if since := t.well[p.i][m]; since >= 0 && min(now-since, silent) > wellFor {
		t.w.fail("%s calls %s lost, which has run and been reachable for %v: %s", p.boot, name, now-since, text)
	}
}
