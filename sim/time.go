package sim

import (
	"fmt"
	"math"
	"math/big"
	"strings"
)

// Time is a point in simulated time: an integer count of ticks of one nanosecond since the start
// of the run (HLA's integer time). Integer time neither drifts nor absorbs small steps.
type Time int64

// Duration is a span of simulated time in ticks of one nanosecond.
type Duration int64

// Never is later than every event; it stays Never under addition.
const Never Time = math.MaxInt64

// Forever is the Duration that leads from any time to Never.
const Forever Duration = math.MaxInt64

// The usual spans.
const (
	Nanosecond  Duration = 1
	Microsecond          = 1000 * Nanosecond
	Millisecond          = 1000 * Microsecond
	Second               = 1000 * Millisecond
	Minute               = 60 * Second
	Hour                 = 60 * Minute
	Day                  = 24 * Hour
)

// Add returns t + d. The sum saturates: what would pass the largest time is Never, Never plus
// anything is Never, and anything plus Forever is Never.
func (t Time) Add(d Duration) Time {
	if t == Never || d == Forever {
		return Never
	}
	s := t + Time(d)
	if d > 0 && s < t {
		return Never
	}
	if d < 0 && s > t {
		return math.MinInt64
	}
	return s
}

// Sub returns t - u, saturating. From any time to Never it is Forever.
func (t Time) Sub(u Time) Duration {
	if t == Never {
		return Forever
	}
	d := Duration(t - u)
	if t >= u && d < 0 {
		return Forever
	}
	if t < u && d > 0 {
		return math.MinInt64
	}
	return d
}

// Seconds returns t in seconds since the start of the run.
func (t Time) Seconds() float64 { return Duration(t).Seconds() }

// String prints t as a duration since the start, or "never".
func (t Time) String() string {
	if t == Never {
		return "never"
	}
	return Duration(t).String()
}

// Add returns d + e, saturating at Forever.
func (d Duration) Add(e Duration) Duration { return Duration(Time(d).Add(e)) }

// Mul returns d x n, saturating at Forever; d and n are not negative.
func (d Duration) Mul(n int64) Duration {
	if d <= 0 || n <= 0 {
		return 0
	}
	if int64(d) > math.MaxInt64/n {
		return Forever
	}
	return d * Duration(n)
}

// Seconds returns d in seconds.
func (d Duration) Seconds() float64 { return float64(d) / float64(Second) }

// FromSeconds converts seconds to a Duration, rounding to nearest (ties away from zero); it
// saturates at Forever, and NaN gives Forever too, since it can be scheduled by nobody.
func FromSeconds(s float64) Duration {
	x := math.Round(s * float64(Second))
	switch {
	case math.IsNaN(x) || x >= math.MaxInt64:
		return Forever
	case x <= math.MinInt64:
		return math.MinInt64
	}
	return Duration(x)
}

type timeUnit struct {
	name string
	size Duration
}

// timeUnits returns the units of text durations, largest first.
func timeUnits() []timeUnit {
	return []timeUnit{
		{"week", 7 * Day}, {"d", Day}, {"h", Hour}, {"min", Minute}, {"s", Second},
		{"ms", Millisecond}, {"us", Microsecond}, {"ns", Nanosecond},
	}
}

func timeUnitSize(name string) (Duration, bool) {
	switch name {
	case "day", "days":
		name = "d"
	case "hour", "hours":
		name = "h"
	case "m", "minute", "minutes":
		name = "min"
	case "sec", "second", "seconds":
		name = "s"
	case "µs", "μs":
		name = "us"
	case "weeks", "w":
		name = "week"
	}
	for _, u := range timeUnits() {
		if u.name == name {
			return u.size, true
		}
	}
	return 0, false
}

// ParseDuration reads a text duration: one or more numbers, each with a unit ("80ms", "5 s",
// "1h30m", "0.02 s", "2 d"). The units are ns, us, ms, s, min (or m), h, d, week. Each number is
// exact decimal, and the sum is rounded to the nearest tick once, ties away from zero. Negative
// durations, missing units and values beyond 292 years are errors.
func ParseDuration(text string) (Duration, error) {
	text = strings.TrimSpace(text)
	rest := text
	if rest == "" {
		return 0, fmt.Errorf("empty duration: give a number with a unit, such as \"80 ms\"")
	}
	if len(rest) > 100 {
		return 0, fmt.Errorf("duration of %d bytes: give a number with a unit, such as \"80 ms\"", len(rest))
	}
	sum := new(big.Rat)
	for rest != "" {
		number, unit, after, err := cutQuantity(rest)
		if err != nil {
			return 0, fmt.Errorf("duration %q: %w", text, err)
		}
		size, ok := timeUnitSize(unit)
		if !ok {
			return 0, fmt.Errorf("duration %q: unknown unit %q: use ns, us, ms, s, min, h, d or week", text, unit)
		}
		sum.Add(sum, number.Mul(number, new(big.Rat).SetInt64(int64(size))))
		rest = after
	}
	return roundTicks(sum, text)
}

// cutQuantity splits the leading number and its unit from s.
func cutQuantity(s string) (number *big.Rat, unit, rest string, err error) {
	i := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if i < 0 {
		return nil, "", "", fmt.Errorf("no unit after %s: write \"%s s\" for seconds", s, s)
	}
	if i == 0 {
		return nil, "", "", fmt.Errorf("expected a number that is not negative at %q", s)
	}
	number, ok := new(big.Rat).SetString(s[:i])
	if !ok {
		return nil, "", "", fmt.Errorf("%q is not a number", s[:i])
	}
	s = strings.TrimLeft(s[i:], " ")
	j := strings.IndexAny(s, "0123456789. ")
	if j < 0 {
		j = len(s)
	}
	return number, s[:j], strings.TrimLeft(s[j:], " "), nil
}

func roundTicks(r *big.Rat, text string) (Duration, error) {
	twice := new(big.Int).Mul(r.Num(), big.NewInt(2))
	twice.Add(twice, r.Denom())
	n := twice.Quo(twice, new(big.Int).Mul(r.Denom(), big.NewInt(2)))
	if !n.IsInt64() || n.Int64() == math.MaxInt64 {
		return 0, fmt.Errorf("duration %q is beyond the largest simulated time (292 years)", text)
	}
	return Duration(n.Int64()), nil
}

// String prints d in the fewest whole units ("1d2h", "80ms", "1.5s"); ParseDuration reads it back
// to the same value unless it is negative. Forever prints as "forever".
func (d Duration) String() string {
	switch {
	case d == Forever:
		return "forever"
	case d == 0:
		return "0s"
	case d == math.MinInt64:
		return "-106751d23h47m16.854775808s"
	case d == -Forever:
		return "-106751d23h47m16.854775807s"
	case d < 0:
		return "-" + (-d).String()
	case d < Second:
		return decimal(d, d.smallUnit())
	}
	var b strings.Builder
	for _, u := range []timeUnit{{"d", Day}, {"h", Hour}, {"m", Minute}} {
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.size
		}
	}
	if d > 0 {
		b.WriteString(decimal(d, timeUnit{"s", Second}))
	}
	return b.String()
}

func (d Duration) smallUnit() timeUnit {
	switch {
	case d >= Millisecond:
		return timeUnit{"ms", Millisecond}
	case d >= Microsecond:
		return timeUnit{"us", Microsecond}
	}
	return timeUnit{"ns", Nanosecond}
}

// decimal prints d as an exact decimal of u.
func decimal(d Duration, u timeUnit) string {
	whole, part := d/u.size, d%u.size
	if part == 0 {
		return fmt.Sprintf("%d%s", whole, u.name)
	}
	digits := 0
	for size := u.size; size > 1; size /= 10 {
		digits++
	}
	frac := strings.TrimRight(fmt.Sprintf("%0*d", digits, part), "0")
	return fmt.Sprintf("%d.%s%s", whole, frac, u.name)
}
