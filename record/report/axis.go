package report

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"

	"github.com/simnode/simnode/sim"
)

// timeUnit is the unit of a time axis and the steps between its ticks that people read easily.
type timeUnit struct {
	name    string
	seconds float64
	steps   []float64
}

// timeUnitOf returns the unit in which a run of the given length is easiest to read.
func timeUnitOf(end sim.Time) timeUnit {
	sixty := []float64{1, 2, 5, 10, 15, 30, 60}
	switch d := sim.Duration(end); {
	case d > 4*sim.Day:
		return timeUnit{"d", 86400, nil}
	case d > 3*sim.Hour:
		return timeUnit{"h", 3600, []float64{1, 2, 3, 6, 12, 24}}
	case d > 3*sim.Minute:
		return timeUnit{"min", 60, sixty}
	case d > 2*sim.Second:
		return timeUnit{"s", 1, sixty}
	case d > 2*sim.Millisecond:
		return timeUnit{"ms", 1e-3, nil}
	case d > 2*sim.Microsecond:
		return timeUnit{"us", 1e-6, nil}
	}
	return timeUnit{"ns", 1e-9, nil}
}

func (u timeUnit) ticker() plot.Ticker {
	return plot.TickerFunc(func(low, high float64) []plot.Tick {
		for _, step := range u.steps {
			if (high-low)/step <= 10 && (high-low)/step >= 2 {
				return ticks(low, high, step)
			}
		}
		return ticks(low, high, niceStep((high-low)/8))
	})
}

// niceStep rounds x up to 1, 2 or 5 times a power of ten.
func niceStep(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= x*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// ticks returns labelled ticks at the multiples of step in [low, high]; at most 100.
func ticks(low, high, step float64) (out []plot.Tick) {
	first := math.Ceil(low/step - 1e-9)
	for i := range 100 {
		v := (first + float64(i)) * step
		if v > high+step*1e-9 {
			break
		}
		out = append(out, plot.Tick{Value: v, Label: tickLabel(v, step)})
	}
	return out
}

// tickLabel prints v with the decimals that step needs.
func tickLabel(v, step float64) string {
	if v == 0 {
		return "0"
	}
	if a := math.Abs(v); a >= 1e7 || step < 1e-4 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	decimals := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	return group(strconv.FormatFloat(v, 'f', decimals, 64))
}
