package main

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/simnode/simnode/cli"
)

type summary struct {
	Digest  string
	Regions int
	Results struct{ Order float64 }
}

func run(t *testing.T, args ...string) summary {
	t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"flock", "run", "flock.yaml", "--set", "params.birds=200", "--set", "params.side=400 m", "-o", "json", "--no-progress", "--out", t.TempDir()}, args...)
	if code := cli.Run(context.Background(), args, &out, &errs, model()); code != cli.Done {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	var s summary
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOneAnswerForAnyRegions(t *testing.T) {
	one := run(t, "--regions", "1")
	for _, regions := range []string{"2", "4", "9"} {
		if s := run(t, "--regions", regions); s.Digest != one.Digest || s.Results != one.Results {
			t.Errorf("%d regions: %+v, not %+v", s.Regions, s, one)
		}
	}
	if other := run(t, "--seed", "2"); other.Digest == one.Digest {
		t.Error("another seed gives the same run")
	}
}

// With little noise the birds agree on a direction, with much they never do: the phase transition of
// the paper.
func TestBirdsAgreeUnlessNoiseIsLarge(t *testing.T) {
	if s := run(t); s.Results.Order < 0.8 {
		t.Errorf("order %g with little noise", s.Results.Order)
	}
	if s := run(t, "--set", "params.noise=150 deg"); s.Results.Order > 0.3 {
		t.Errorf("order %g with much noise", s.Results.Order)
	}
}
