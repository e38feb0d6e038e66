package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/sim"
)

// jobSaves are the flags of a job's checkpoints as they were given.
type jobSaves struct {
	every, everySim string
	keep, keepEvery count
}

// add adds the flags to a command.
func (s *jobSaves) add(flags *pflag.FlagSet) {
	s.keep.most, s.keepEvery.most = control.MostKept, mostKept
	flags.StringVar(&s.every, "checkpoint-every", "", "wall time `T` between checkpoints, such as 30s, or none (default 30s unless --checkpoint-every-sim is given)")
	flags.StringVar(&s.everySim, "checkpoint-every-sim", "", "simulated time `T` between checkpoints, such as 10m; with --checkpoint-every both count")
	flags.Var(&s.keep, "keep", "how many of the newest checkpoints are kept (default 3)")
	flags.Var(&s.keepEvery, "keep-every", "keep the first checkpoint at or after each multiple of N as well")
}

// spec returns the checkpoints that the flags ask for. The zero value is none.
func (s *jobSaves) spec(flags *pflag.FlagSet) (control.Checkpoints, error) {
	var c control.Checkpoints
	switch byWall, bySim := flags.Changed("checkpoint-every"), flags.Changed("checkpoint-every-sim"); {
	case byWall && s.every != "none":
		d, err := sim.ParseDuration(s.every)
		if err != nil {
			return c, usagef("--checkpoint-every: %w, or none", err)
		}
		if d < sim.Millisecond {
			return c, usagef("--checkpoint-every: %v is too little: at least 1ms, or none", d)
		}
		c.Every = int64(d / sim.Millisecond)
	case !byWall && !bySim:
		c.Every = int64(defaultEvery / time.Millisecond)
	}
	if flags.Changed("checkpoint-every-sim") {
		d, err := sim.ParseDuration(s.everySim)
		if err != nil {
			return c, usagef("--checkpoint-every-sim: %w", err)
		}
		if d <= 0 {
			return c, usagef("--checkpoint-every-sim: more than 0 is needed")
		}
		c.EverySim = d
	}
	if c == (control.Checkpoints{}) {
		if flags.Changed("keep") || flags.Changed("keep-every") {
			return c, usagef("--keep and --keep-every do not go with --checkpoint-every none, which takes no checkpoints")
		}
		return c, nil
	}
	c.KeepLast, c.KeepEvery = defaultKeep, 0
	if s.keep.n > 0 {
		c.KeepLast = s.keep.n
	}
	if s.keepEvery.n > 0 {
		c.KeepEvery = uint64(s.keepEvery.n)
	}
	return c, nil
}
