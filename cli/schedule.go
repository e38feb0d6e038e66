package cli

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/simnode/simnode/sim"
)

// savingFlags are the flags of checkpoints, as they are kept with the run.
type savingFlags struct {
	// Every is the wall time between checkpoints, 0: none by it; Auto follows its cost. EverySim is simulated time.
	Every    time.Duration `json:"every,omitempty"`
	Auto     bool          `json:"auto,omitempty"`
	EverySim sim.Duration  `json:"every_sim,omitempty"`
	// MTBF is the mean time between failures of the machine, for Auto.
	MTBF time.Duration `json:"mtbf"`
	// Keep is how many of the newest checkpoints are kept; KeepEvery keeps each Nth besides.
	Keep      int `json:"keep"`
	KeepEvery int `json:"keep_every,omitempty"`
	// Archive is a folder for copies of the run; empty for none.
	Archive string `json:"archive,omitempty"`
	// Grace is how long a run that is to stop may take for its last checkpoint.
	Grace time.Duration `json:"grace"`
}

const (
	defaultEvery = 30 * time.Second
	defaultMTBF  = 24 * time.Hour
	defaultGrace = 30 * time.Second
	defaultKeep  = 3
	mostKept     = 1_000_000
	// leastAuto and mostAuto bound what auto chooses.
	leastAuto = time.Second
	mostAuto  = time.Hour
)

// savingText holds the flags as they were given.
type savingText struct {
	every, everySim, mtbf, archive, grace string
	keep, keepEvery                       count
}

// add adds the flags of checkpoints to a command.
func (t *savingText) add(flags *pflag.FlagSet) {
	t.keep.most, t.keepEvery.most = mostKept, mostKept
	flags.StringVar(&t.every, "checkpoint-every", "", "wall time `T` between checkpoints, such as 30s, or auto, which follows their cost and --mtbf (default 30s unless --checkpoint-every-sim is given)")
	flags.StringVar(&t.everySim, "checkpoint-every-sim", "", "simulated time `T` between checkpoints, such as 10m; with --checkpoint-every both count")
	flags.StringVar(&t.mtbf, "mtbf", "", "mean `TIME` between failures, for --checkpoint-every auto (default 24h)")
	flags.Var(&t.keep, "keep", "how many of the newest checkpoints are kept (default 3)")
	flags.Var(&t.keepEvery, "keep-every", "keep the first checkpoint at or after each multiple of N as well")
	flags.StringVar(&t.archive, "archive", "", "folder `DIR`, best on another disk, that gets a copy of all that a resume needs, at each checkpoint")
	flags.StringVar(&t.grace, "grace", "", "how long the last checkpoint may take after SIGTERM or Ctrl-C (default 30s)")
}

// savingNames are the names of the flags of checkpoints.
func savingNames() []string {
	return []string{"checkpoint-every", "checkpoint-every-sim", "mtbf", "keep", "keep-every", "archive", "grace"}
}

// over returns the flags where they were given, and was where not.
func (t *savingText) over(flags *pflag.FlagSet, was savingFlags) (savingFlags, error) {
	f := was
	for _, x := range []struct {
		name, text string
		to         *time.Duration
	}{{"checkpoint-every", t.every, &f.Every}, {"mtbf", t.mtbf, &f.MTBF}, {"grace", t.grace, &f.Grace}} {
		name, text, to := x.name, x.text, x.to
		if !flags.Changed(name) {
			continue
		}
		if name == "checkpoint-every" {
			if f.Auto = text == "auto"; f.Auto {
				f.Every = defaultEvery
				continue
			}
		}
		d, err := wallTime(name, text)
		if err != nil {
			return f, err
		}
		*to = d
	}
	if flags.Changed("checkpoint-every-sim") {
		d, err := sim.ParseDuration(t.everySim)
		if err == nil && d == 0 {
			err = fmt.Errorf("more than 0 is needed")
		}
		if err != nil {
			return f, usagef("--checkpoint-every-sim: %w", err)
		}
		if f.EverySim = d; !flags.Changed("checkpoint-every") {
			f.Every, f.Auto = 0, false
		}
	} else if flags.Changed("checkpoint-every") {
		f.EverySim = 0
	}
	if flags.Changed("mtbf") && !f.Auto {
		return f, usagef("--mtbf goes with --checkpoint-every auto, which it is for")
	}
	if t.keep.n > 0 {
		f.Keep = t.keep.n
	}
	if t.keepEvery.n > 0 {
		f.KeepEvery = t.keepEvery.n
	}
	if flags.Changed("archive") {
		if t.archive == "" {
			return f, usagef("--archive is given without a value: give one or leave the flag out")
		}
		f.Archive = t.archive
	}
	return f, nil
}

func defaultSaving() savingFlags {
	return savingFlags{Every: defaultEvery, MTBF: defaultMTBF, Keep: defaultKeep, Grace: defaultGrace}
}

// wallTime reads a wall time such as "30s" or "1 d".
func wallTime(flag, text string) (time.Duration, error) {
	d, err := sim.ParseDuration(text)
	if err != nil {
		also := ""
		if flag == "checkpoint-every" && strings.TrimSpace(text) != "" {
			also = ", or auto"
		}
		return 0, usagef("--%s: %w%s", flag, err, also)
	}
	if d < sim.Millisecond {
		return 0, usagef("--%s: %v is too little: at least 1ms", flag, d)
	}
	return time.Duration(d), nil // both count nanoseconds
}

// schedule says when a checkpoint is due by wall time.
type schedule struct {
	savingFlags
	now func() time.Time

	mu sync.Mutex
	// next is when the next one is due.
	next time.Time
	// costs are how long the last ones took.
	costs []time.Duration
}

func newSchedule(f savingFlags, now func() time.Time) *schedule {
	s := &schedule{savingFlags: f, now: now}
	s.next = now().Add(f.Every)
	return s
}

// due reports, once each time, that a checkpoint is due.
func (s *schedule) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.Every == 0 || now.Before(s.next) {
		return false
	}
	s.next = now.Add(s.every())
	return true
}

// rememberedCosts is over how many checkpoints the cost is averaged.
const rememberedCosts = 4

// wrote takes note of what a checkpoint cost.
func (s *schedule) wrote(cost time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.costs) == rememberedCosts {
		s.costs = s.costs[1:]
	}
	s.costs = append(s.costs, cost)
	if s.Auto {
		s.next = s.now().Add(s.every())
	}
}

// every is the wall time to the next checkpoint: Young's interval where it is to follow the cost.
func (s *schedule) every() time.Duration {
	if !s.Auto || len(s.costs) == 0 {
		return s.Every
	}
	sum := time.Duration(0)
	for _, c := range s.costs {
		sum += c
	}
	return youngInterval(sum/time.Duration(len(s.costs)), s.MTBF)
}

// youngInterval is the interval between checkpoints that costs least where one takes cost and failures come every
// mtbf on average: the root of 2 cost mtbf (J. W. Young, "A first order approximation to the optimum checkpoint
// interval", 1974). It is from a second to an hour.
func youngInterval(cost, mtbf time.Duration) time.Duration {
	t := math.Sqrt(2 * cost.Seconds() * mtbf.Seconds())
	return min(max(time.Duration(t*float64(time.Second)), leastAuto), mostAuto)
}
