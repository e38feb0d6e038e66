package chaos

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options say which seeds to run.
type Options struct {
	// Seed is the first, Seeds how many there are.
	Seed, Seeds uint64
	// Again runs every so manyth seed twice, to see that both runs are the same; 0 means every 50th.
	Again uint64
	// Workers is how many seeds are run at once; 0 means as many as there are processors.
	Workers int
	// MostFindings is after how many findings no more seeds are begun; 0 means 5.
	MostFindings int
	// Progress, if not nil, is called from one goroutine at a time, after every seed.
	Progress func(Progress)
	// Mutant is a deliberate mistake; nil for none.
	Mutant *Mutant
}

// Progress tells how far a campaign is.
type Progress struct {
	Done, Seeds uint64
	Findings    int
}

// Report is what came out of a campaign.
type Report struct {
	// Seeds that were run, Again how many of them twice.
	Seeds, Again uint64
	Findings     []*Finding
	Counts       Counts
	// Steps and simulated time of all runs.
	Steps uint64
	Time  time.Duration
	// Elapsed is wall time.
	Elapsed time.Duration
}

// Finding is a seed whose run went wrong.
type Finding struct {
	Seed uint64
	// Step and Time are when it was seen, Wrong says what.
	Step  uint64
	Time  time.Duration
	Wrong string
	// Command repeats the run.
	Command string
	// Cluster says what was played; Faults are those of the seed, Needed those without which all went well
	// (each of them, when the others stay).
	Cluster        string
	Faults, Needed []string
	// Last are the last events before, with the needed faults alone.
	Last []string
}

// String tells all of it.
func (f *Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, step %d, at %v: %s\n", f.Seed, f.Step, f.Time, f.Wrong)
	fmt.Fprintf(&b, "repeat with: %s\n", f.Command)
	fmt.Fprintf(&b, "cluster: %s\n", f.Cluster)
	fmt.Fprintf(&b, "faults needed, %d of %d:\n", len(f.Needed), len(f.Faults))
	for _, x := range f.Needed {
		fmt.Fprintf(&b, "  %s\n", x)
	}
	fmt.Fprintf(&b, "last events:\n")
	for _, x := range f.Last {
		fmt.Fprintf(&b, "  %s\n", x)
	}
	return b.String()
}

// Run runs one seed.
func Run(seed uint64, m *Mutant) *Result { return runSeed(seed, m, newReferences()) }

func runSeed(seed uint64, m *Mutant, refs *references) *Result {
	s := drawSettings(seed)
	return play(seed, s, drawPlan(seed, s), m, refs)
}

// Campaign runs many seeds. It returns when all are done, when there are too many findings, or when ctx is
// done; the report tells how far it came. Findings come in the order of their seeds.
func Campaign(ctx context.Context, o Options) *Report {
	c := &campaign{o: o, refs: newReferences(), next: o.Seed}
	if c.o.Again == 0 {
		c.o.Again = 50
	}
	if c.o.MostFindings == 0 {
		c.o.MostFindings = 5
	}
	if c.o.Workers == 0 {
		c.o.Workers = runtime.GOMAXPROCS(0)
	}
	start := time.Now()
	var group sync.WaitGroup
	for range c.o.Workers {
		group.Go(func() {
			for {
				seed, ok := c.take(ctx)
				if !ok {
					return
				}
				c.run(seed)
			}
		})
	}
	group.Wait()
	c.report.Elapsed = time.Since(start)
	slices.SortFunc(c.report.Findings, func(a, b *Finding) int { return cmp.Compare(a.Seed, b.Seed) })
	return &c.report
}

type campaign struct {
	o    Options
	refs *references

	mu     sync.Mutex
	next   uint64
	report Report
}

// take returns the next seed, in order, so that neighbours share the reference of their program.
func (c *campaign) take(ctx context.Context) (uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil || c.next-c.o.Seed >= c.o.Seeds || len(c.report.Findings) >= c.o.MostFindings {
		return 0, false
	}
	c.next++
	return c.next - 1, true
}

// run runs a seed, or some twice, and notes what came out.
func (c *campaign) run(seed uint64) {
	r := runSeed(seed, c.o.Mutant, c.refs)
	again := (seed-c.o.Seed)%c.o.Again == 0
	if again && r.Wrong == "" {
		if x := runSeed(seed, c.o.Mutant, c.refs); x.Hash != r.Hash || x.Steps != r.Steps {
			r.Wrong = fmt.Sprintf("two runs of one seed differ: hash %016x after %d steps, and %016x after %d", r.Hash, r.Steps, x.Hash, x.Steps)
		}
	}
	var f *Finding
	if r.Wrong != "" {
		f = c.shrink(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Seeds++
	if again {
		c.report.Again++
	}
	c.report.Counts.Add(&r.Counts)
	c.report.Steps += r.Steps
	c.report.Time += r.Time
	if f != nil {
		c.report.Findings = append(c.report.Findings, f)
	}
	if c.o.Progress != nil {
		c.o.Progress(Progress{c.report.Seeds, c.o.Seeds, len(c.report.Findings)})
	}
}

// shrink leaves faults out, one by one, as long as the run still goes wrong.
func (c *campaign) shrink(r *Result) *Finding {
	f := &Finding{
		Seed: r.Seed, Step: r.WrongStep, Time: r.WrongTime, Wrong: r.Wrong, Cluster: r.Cluster, Faults: r.Faults, Needed: r.Faults, Last: r.Last,
		Command: fmt.Sprintf("simnode chaos --seed %d --seeds 1", r.Seed),
	}
	s := drawSettings(r.Seed)
	p := drawPlan(r.Seed, s)
	for i := len(p.faults) - 1; i >= 0; i-- {
		q := p.without(i, s)
		if x := play(r.Seed, s, q, c.o.Mutant, c.refs); x.Wrong != "" {
			p, f.Needed, f.Last = q, x.Faults, x.Last
		}
	}
	return f
}
