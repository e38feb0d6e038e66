package cli

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/sim"
)

func TestCheckpointsOfJobs(t *testing.T) {
	for args, want := range map[string]control.Checkpoints{
		"":                           {Every: 30_000, KeepLast: 3},
		"--checkpoint-every=2s":      {Every: 2000, KeepLast: 3},
		"--checkpoint-every=none":    {},
		"--checkpoint-every-sim=10m": {EverySim: 600 * sim.Second, KeepLast: 3},
		"--checkpoint-every=none --checkpoint-every-sim=1s --keep=5": {EverySim: sim.Second, KeepLast: 5},
		"--checkpoint-every=1m --checkpoint-every-sim=1s":            {Every: 60_000, EverySim: sim.Second, KeepLast: 3},
		"--keep-every=10": {Every: 30_000, KeepLast: 3, KeepEvery: 10},
	} {
		if got, err := jobSavesOf(t, args); err != nil || got != want {
			t.Errorf("%q: %+v, %v, not %+v", args, got, err, want)
		}
	}
	for args, want := range map[string]string{
		"--checkpoint-every=":              "or none",
		"--checkpoint-every=auto":          "or none",
		"--checkpoint-every=1us":           "at least 1ms",
		"--checkpoint-every-sim=0s":        "more than 0",
		"--checkpoint-every-sim=x":         "--checkpoint-every-sim",
		"--checkpoint-every=none --keep=2": "takes no checkpoints",
	} {
		if _, err := jobSavesOf(t, args); err == nil || exitCode(err) == Done || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", args, err, want)
		}
	}
}

func jobSavesOf(t *testing.T, args string) (control.Checkpoints, error) {
	t.Helper()
	var s jobSaves
	flags := pflag.NewFlagSet("submit", pflag.ContinueOnError)
	s.add(flags)
	if err := flags.Parse(strings.Fields(args)); err != nil {
		t.Fatal(err)
	}
	return s.spec(flags)
}
