package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/simnode/simnode/chaos"
)

func TestChaosCommand(t *testing.T) {
	r := simnode(t.Context(), "chaos", "--seeds", "3", "--seed", "7")
	if r.code != Done || r.stderr != "" || !strings.HasPrefix(r.stdout, "3 seeds from 7 on (1 twice), 0 went wrong\n") {
		t.Errorf("%+v", r)
	}
	r = simnode(t.Context(), "chaos", "--seeds", "2", "-o", "json")
	var out chaosJSON
	if err := json.Unmarshal([]byte(r.stdout), &out); err != nil || r.code != Done {
		t.Fatalf("%v: %+v", err, r)
	}
	if out.Seeds != 2 || out.Steps == 0 || out.Counts.Bounds == 0 || out.Findings == nil || len(out.Findings) != 0 {
		t.Errorf("%+v", out)
	}
}

func TestChaosRefuses(t *testing.T) {
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"--seeds", "0"}, "whole number from 1 to"},
		{[]string{"--seed", "-1"}, "--seed"},
		{[]string{"--seed", "18446744073709551615"}, "more than there are"},
		{[]string{"x"}, "takes no arguments"},
		{[]string{"-o", "xml"}, "allowed: text, json"},
	} {
		r := simnode(t.Context(), append([]string{"chaos"}, x.args...)...)
		if r.code != BadUsage || !strings.Contains(r.stderr, x.want) || r.stdout != "" {
			t.Errorf("%v: %+v, want code %d and %q", x.args, r, BadUsage, x.want)
		}
	}
}

func TestChaosIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := simnode(ctx, "chaos", "--seeds", "100000")
	if r.code != Interrupted || !strings.Contains(r.stdout, "0 seeds from 0 on") {
		t.Errorf("%+v", r)
	}
}

// What is found is told whole, in both formats.
func TestChaosTellsFindings(t *testing.T) {
	f := &chaos.Finding{
		Seed: 12, Step: 345, Time: 2 * time.Second, Wrong: "something differs", Command: "simnode chaos --seed 12 --seeds 1", Cluster: "3 nodes",
		Faults: []string{"fault a", "fault b"}, Needed: []string{"fault b"}, Last: []string{"event y", "event z"},
	}
	report := &chaos.Report{Seeds: 13, Findings: []*chaos.Finding{f}}
	var b bytes.Buffer
	e := &env{stdout: &b}
	if err := e.tellChaos(report, 0, false); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"seed 12, step 345, at 2s: something differs", f.Command, "3 nodes", "needed, 1 of 2", "fault b", "event y", "event z", "1 went wrong"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	b.Reset()
	if err := e.tellChaos(report, 0, true); err != nil {
		t.Fatal(err)
	}
	var out chaosJSON
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Findings) != 1 || out.Findings[0].Needed[0] != "fault b" || out.Findings[0].At != 2 || len(out.Findings[0].Last) != 2 {
		t.Errorf("%+v", out)
	}
}
