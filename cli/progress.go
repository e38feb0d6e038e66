package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

const (
	// barEvery and lineEvery are how often the bar is drawn and a line printed.
	barEvery  = 200 * time.Millisecond
	lineEvery = 5 * time.Second
	barWidth  = 24
)

// progress shows how far a run is: a bar that is drawn over itself on a terminal, otherwise a line
// every few seconds.
type progress struct {
	// mu lets the notice of an interrupt come between.
	mu    sync.Mutex
	w     io.Writer
	bar   bool
	width func() int
	clock func() time.Time
	start time.Time
	next  time.Time
	drawn bool
}

// newProgress makes one; a quiet one is only for what must be said.
func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{w: w, clock: time.Now}
	if f, ok := w.(*os.File); ok && !quiet && term.IsTerminal(int(f.Fd())) {
		p.bar = true
		p.width = func() int {
			width, _, err := term.GetSize(int(f.Fd()))
			if err != nil || width < 1 {
				return 80
			}
			return width
		}
	}
	p.start = p.clock()
	p.next = p.start.Add(p.every())
	return p
}

func (p *progress) every() time.Duration {
	if p.bar {
		return barEvery
	}
	return lineEvery
}

// show shows the progress if it is time to.
func (p *progress) show(n node.Progress) { p.showAfter(n, p.clock().Sub(p.start)) }

// showAfter is show of a run that has gone on for that long, here or elsewhere.
func (p *progress) showAfter(n node.Progress, elapsed time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(p.every())
	done := float64(n.Now) / float64(n.End)
	line := progressText(n, done, elapsed)
	if !p.bar {
		fmt.Fprintln(p.w, line)
		return
	}
	full := int(done * barWidth)
	line = "[" + strings.Repeat("#", full) + strings.Repeat(".", barWidth-full) + "] " + line
	if most := p.width() - 1; len(line) > most {
		line = line[:max(most, 0)]
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", line)
	p.drawn = true
}

// close takes the bar away.
func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// say prints a line now.
func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintln(p.w, line)
}

func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

// progressText is such as "42 %  10h4m of 1d  1.31 M events/s  12s left".
func progressText(n node.Progress, done float64, elapsed time.Duration) string {
	left := "?"
	if done > 0 {
		left = time.Duration(float64(elapsed) * (1 - done) / done).Round(time.Second).String()
	}
	return fmt.Sprintf("%.0f %%  %v of %v  %s events/s  %s left",
		100*done, roundTo(n.Now, n.End), n.End, short(float64(n.Events)/elapsed.Seconds()), left)
}

// roundTo rounds t down to a unit of which a run has at least a hundred, so that it is quick to read.
func roundTo(t, end sim.Time) sim.Time {
	for _, unit := range []sim.Duration{sim.Hour, sim.Minute, sim.Second, sim.Millisecond, sim.Microsecond} {
		if end/100 >= sim.Time(unit) {
			return t - t%sim.Time(unit)
		}
	}
	return t
}

// short writes a rate with three digits.
func short(x float64) string {
	switch {
	case x >= 1e9:
		return fmt.Sprintf("%.3g G", x/1e9)
	case x >= 1e6:
		return fmt.Sprintf("%.3g M", x/1e6)
	case x >= 1e3:
		return fmt.Sprintf("%.3g k", x/1e3)
	}
	return fmt.Sprintf("%.3g", x)
}
