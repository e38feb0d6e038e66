package server

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/sim"
)

// People are not told of the protocol, whatever it waits for.
func TestWaitsAreSaidPlainly(t *testing.T) {
	for awaited, want := range map[string]string{
		"": "", "reports": "", "reports: region 3 of node a at 1s with a bound of 2s": "", "members to complete a cut: b": "",
		"members to stop for this coordinator: a, b":                            "waiting for a, b to be ready",
		"members to stop for this coordinator":                                  "waiting for the nodes to be ready",
		"the member that records to complete the results: c":                    "waiting for c to complete the results",
		"the log to take in the end of the job":                                 "about to end",
		"what is queued up to be written or sent: b":                            "waiting for b to write or send what is queued up",
		"the job to be resumed":                                                 "",
		"something else: a":                                                     "waiting for something else: a",
		"members to complete a cut that the last coordinator began: a":          "waiting for a to be where the last coordinator left off",
		"members to take in what others sent them, and to state where they are": "waiting for the nodes to be ready",
	} {
		if got := plainly(awaited); got != want {
			t.Errorf("%q becomes %q, not %q", awaited, got, want)
		}
	}
	// Every step that package control names is known here.
	source, err := os.ReadFile("../control/run.go")
	if err != nil {
		t.Fatal(err)
	}
	steps := regexp.MustCompile(`step = "([^"]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(steps) < 7 {
		t.Fatalf("%d steps found in control/run.go", len(steps))
	}
	for _, s := range steps {
		if got := plainly(s[1] + ": a"); strings.Contains(got, "member") || strings.Contains(got, s[1]) {
			t.Errorf("step %q is told as %q", s[1], got)
		}
	}
}

func TestSilentMemberIsNamed(t *testing.T) {
	c := &control.CoordinatorStatus{Leading: true, Job: "job-1", Running: true, Floor: 5, End: 9, Awaited: "reports", Members: []control.MemberStatus{
		{Name: "a", Events: 3}, {Name: "b", Silent: 4999 * time.Millisecond, Events: 4}}}
	if p := measure(c, "job-1"); p == nil || *p != (progress{Now: 5, End: 9, Events: 7}) {
		t.Errorf("%+v", p)
	}
	c.Members[1].Silent = 13 * time.Second
	if p := measure(c, "job-1"); p == nil || p.Waits != "nothing heard from b for 10 s" {
		t.Errorf("%+v", p)
	}
	if p := measure(c, "job-2"); p != nil {
		t.Errorf("%+v of another job", p)
	}
}

// How far a job was is not forgotten while a coordinator does not know, and does not go over to another epoch.
func TestLastKnown(t *testing.T) {
	var l lastKnown
	look := func(job string, epoch uint64, p progress) progress {
		l.fill(job, epoch, &p)
		return p
	}
	look("job-1", 1, progress{Now: 5, End: 9, Events: 7})
	if p := look("job-1", 1, progress{Waits: "w"}); p != (progress{Now: 5, End: 9, Events: 7, Waits: "w"}) {
		t.Errorf("%+v", p)
	}
	if p := look("job-1", 1, progress{Now: 6, End: 9, Events: 8}); p.Now != 6 || p.Events != 8 {
		t.Errorf("%+v", p)
	}
	for _, other := range []progress{look("job-1", 2, progress{}), look("job-2", 2, progress{})} {
		if other != (progress{}) {
			t.Errorf("%+v", other)
		}
	}
}

func TestStopText(t *testing.T) {
	for at, want := range map[sim.Time]string{
		sim.Time(10*sim.Hour + 13*sim.Minute): "stopped by a user at 10h13m", sim.Time(10*sim.Hour + 13*sim.Minute + 5): "stopped by a user at 10h13m",
		sim.Time(2*sim.Second + 5*sim.Millisecond + 7): "stopped by a user at 2.005s", 0: "stopped by a user at 0s",
	} {
		if got := stopText(at); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
