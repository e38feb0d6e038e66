package cli

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/summary"
)

func (e *env) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [JOB] [flags]",
		Short: "Show the jobs of a cluster, or one",
		Long: `Lists the jobs of a cluster, or describes one.

` + clientCodes,
		Args: oneJob,
	}
	return e.clientCommand(cmd, func(ctx context.Context, c *api.Client, f *clientFlags, args []string) error {
		job := ""
		if len(args) > 0 {
			job = args[0]
		}
		k, jobs, err := c.Status(ctx, job)
		switch {
		case err != nil:
			return err
		case k.Old != "":
			fmt.Fprintf(e.stderr, "%s: this may be old: %s\n", e.program, visible(k.Old))
		}
		switch {
		case f.format.text == "json":
			return e.printJSON(newStatusJSON(k, jobs))
		case job != "":
			return e.describeJob(jobs[0])
		}
		return e.listJobs(k, jobs)
	})
}

// statusJSON is the output of status -o json; keys and their order stay.
type statusJSON struct {
	Cluster string    `json:"cluster"`
	Node    string    `json:"node"`
	Leader  string    `json:"leader"`
	Term    uint64    `json:"term"`
	Jobs    []jobJSON `json:"jobs"`
	// Old says why this may be older than what another node has told.
	Old string `json:"old,omitempty"`
}

type jobJSON struct {
	ID        string        `json:"id"`
	Name      string        `json:"name"`
	Phase     control.Phase `json:"phase"`
	Submitted string        `json:"submitted,omitempty"`
	Spec      control.Spec  `json:"spec"`
	Members   []string      `json:"members"`
	Regions   int           `json:"regions"`
	Epoch     uint64        `json:"epoch"`
	Recorder  string        `json:"recorder,omitempty"`
	Reason    string        `json:"reason,omitempty"`
	Progress  *progressJSON `json:"progress,omitempty"`
}

type progressJSON struct {
	Phase  control.Phase `json:"phase"`
	Time   float64       `json:"time_s"`
	End    float64       `json:"end_time_s"`
	Events uint64        `json:"events"`
	Rate   float64       `json:"events_per_s"`
	Wall   float64       `json:"wall_s"`
	Reason string        `json:"reason,omitempty"`
}

func newStatusJSON(k api.ClusterStatus, jobs []api.JobStatus) statusJSON {
	out := statusJSON{k.Cluster, k.Node, k.Leader, k.Term, []jobJSON{}, k.Old}
	for _, j := range jobs {
		job := jobJSON{ID: j.ID, Name: j.Name, Phase: j.Phase, Submitted: stamp(j.Submitted), Spec: j.Spec, Members: append([]string{}, j.Members...),
			Regions: j.Regions, Epoch: j.Epoch, Recorder: j.Recorder, Reason: j.Reason}
		if j.Progress != nil {
			p := newProgressJSON(*j.Progress)
			job.Progress = &p
		}
		out.Jobs = append(out.Jobs, job)
	}
	return out
}

func newProgressJSON(p api.Progress) progressJSON {
	now, end := p.Now.Seconds(), p.End.Seconds()
	if max(now, end) >= 1 {
		now, end = toMillis(now), toMillis(end) // A run of less keeps what there is.
	}
	return progressJSON{p.Phase, now, end, p.Events, math.Round(p.Rate), toMillis(p.Wall.Seconds()), p.Reason}
}

// toMillis rounds seconds to milliseconds.
func toMillis(s float64) float64 { return math.Round(s*1000) / 1000 }

// stamp is a wall time in text, empty if it is not known.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func (e *env) listJobs(k api.ClusterStatus, jobs []api.JobStatus) error {
	leader := k.Leader
	if leader == "" {
		leader = "none yet"
	}
	if _, err := fmt.Fprintf(e.stdout, "cluster %s, leader %s\n", visible(k.Cluster), visible(leader)); err != nil {
		return err
	}
	if len(jobs) == 0 {
		_, err := fmt.Fprintln(e.stdout, "no jobs")
		return err
	}
	rows := [][]string{{"JOB", "NAME", "PHASE", "DONE", "EVENTS", "NODES", "REASON"}}
	for _, j := range jobs {
		done, events, reason := "", "", j.Reason
		if p := j.Progress; p != nil {
			if done = percent(*p); p.Events > 0 {
				events = summary.Group(p.Events)
			}
			if reason == "" {
				reason = p.Reason
			}
		}
		rows = append(rows, []string{j.ID, j.Name, string(j.Phase), done, events, strings.Join(j.Members, ","), reason})
	}
	return e.table(rows)
}

// percent is how much of the simulated time is done.
func percent(p api.Progress) string {
	if p.End <= 0 {
		return ""
	}
	return strconv.Itoa(int(100*float64(p.Now)/float64(p.End))) + " %"
}

// reached tells how far a job is, as far as that is known.
func reached(p api.Progress) (facts [][2]string) {
	switch {
	case p.End > 0:
		facts = append(facts, [2]string{"time", fmt.Sprintf("%v of %v", roundTo(p.Now, p.End), p.End)}, [2]string{"done", percent(p)})
	case p.Now > 0:
		facts = append(facts, [2]string{"time", p.Now.String()})
	}
	if p.Events > 0 {
		facts = append(facts, [2]string{"events", summary.Group(p.Events)}, [2]string{"rate", short(p.Rate) + " events/s"})
	}
	if p.Wall > 0 {
		facts = append(facts, [2]string{"wall", p.Wall.Round(time.Millisecond).String()})
	}
	return facts
}

func (e *env) describeJob(j api.JobStatus) error {
	facts := [][2]string{{"job", j.ID}, {"name", j.Name}, {"phase", string(j.Phase)}, {"submitted", stamp(j.Submitted)},
		{"nodes", strings.Join(j.Members, ", ")}, {"recorder", j.Recorder}}
	if j.Regions > 0 {
		facts = append(facts, [2]string{"regions", strconv.Itoa(j.Regions)})
	}
	reason := j.Reason
	if p := j.Progress; p != nil {
		facts = append(facts, reached(*p)...)
		if reason == "" {
			reason = p.Reason
		}
	}
	for _, fact := range append(facts, [2]string{"reason", reason}) {
		if fact[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(e.stdout, "%-10s %s\n", fact[0], visible(fact[1])); err != nil {
			return err
		}
	}
	return nil
}
