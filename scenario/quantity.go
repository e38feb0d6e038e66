package scenario

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/simnode/simnode/sim"
)

// dimension is what a unit measures. The zero value is a plain number.
type dimension string

const (
	plain     dimension = ""
	length    dimension = "length"
	speed     dimension = "speed"
	duration  dimension = "duration"
	angle     dimension = "angle"
	mass      dimension = "mass"
	power     dimension = "power"
	frequency dimension = "frequency"
)

// article prints the dimension with its article.
func (d dimension) article() string {
	if d == angle {
		return "an angle"
	}
	return "a " + string(d)
}

// example is a value that a message shows.
func (d dimension) example() string {
	switch d {
	case length:
		return "250 km"
	case speed:
		return "450 kt"
	case duration:
		return "80 ms"
	case angle:
		return "12.5 deg"
	case mass:
		return "70 t"
	case power:
		return "20 MW"
	case frequency:
		return "5 1/h"
	}
	return "5"
}

// unit is a unit of measure; factor, an exact fraction, converts to the base unit of the dimension.
type unit struct {
	name      string
	dimension dimension
	factor    string
}

// units lists every unit, those that messages name first within a dimension. The base units are m,
// m/s, s, deg, kg, W and 1/s.
func units() []unit {
	return []unit{
		{"m", length, "1"}, {"km", length, "1000"}, {"NM", length, "1852"}, {"nmi", length, "1852"},
		{"mi", length, "1609.344"}, {"ft", length, "0.3048"}, {"cm", length, "0.01"}, {"mm", length, "0.001"},

		{"m/s", speed, "1"}, {"km/h", speed, "10/36"}, {"kt", speed, "1852/3600"}, {"kn", speed, "1852/3600"},
		{"mph", speed, "0.44704"}, {"ft/min", speed, "3048/600000"}, {"km/s", speed, "1000"},

		{"ns", duration, "1/1000000000"}, {"us", duration, "1/1000000"}, {"ms", duration, "1/1000"},
		{"s", duration, "1"}, {"min", duration, "60"}, {"h", duration, "3600"}, {"d", duration, "86400"},
		{"week", duration, "604800"},

		{"deg", angle, "1"}, {"°", angle, "1"},
		// 180/pi to more digits than a float64 holds.
		{"rad", angle, "57.295779513082320876798154814105170332405472466564"},

		{"kg", mass, "1"}, {"g", mass, "0.001"}, {"t", mass, "1000"},

		{"W", power, "1"}, {"kW", power, "1000"}, {"MW", power, "1000000"}, {"GW", power, "1000000000"},

		{"Hz", frequency, "1"}, {"kHz", frequency, "1000"}, {"MHz", frequency, "1000000"},
		{"GHz", frequency, "1000000000"}, {"1/s", frequency, "1"}, {"1/min", frequency, "1/60"},
		{"1/h", frequency, "1/3600"}, {"1/d", frequency, "1/86400"},
	}
}

func findUnit(name string) (unit, bool) {
	for _, u := range units() {
		if u.name == name {
			return u, true
		}
	}
	return unit{}, false
}

// unitNames lists the units of a dimension.
func unitNames(d dimension) []string {
	var names []string
	for _, u := range units() {
		if u.dimension == d {
			names = append(names, u.name)
		}
	}
	return names
}

// ratio returns the factor as a fraction.
func (u unit) ratio() *big.Rat {
	r, ok := new(big.Rat).SetString(u.factor)
	if !ok {
		return big.NewRat(1, 1)
	}
	return r
}

// measure is the unit that a parameter or column holds.
type measure struct {
	// name is the unit as the model tagged it; empty for plain numbers.
	name string
	// dimension is plain for plain numbers and for units that only the model knows.
	dimension dimension
	// ratio converts the unit to the base unit of its dimension.
	ratio *big.Rat
}

func newMeasure(name string) measure {
	u, ok := findUnit(name)
	if !ok {
		return measure{name: name, ratio: big.NewRat(1, 1)}
	}
	return measure{name, u.dimension, u.ratio()}
}

// own reports whether the unit is one that only the model knows.
func (m measure) own() bool { return m.name != "" && m.dimension == plain }

// expected says what a value must look like.
func (m measure) expected() string {
	switch {
	case m.name == "":
		return "expected a plain number"
	case m.own():
		return fmt.Sprintf("expected a number of %s, such as \"5 %s\"", m.name, m.name)
	}
	return fmt.Sprintf("expected %s such as %q; units: %s", m.dimension.article(), m.dimension.example(),
		strings.Join(unitNames(m.dimension), ", "))
}

// Numbers longer than this are refused: exact arithmetic must not become slow.
const (
	maxNumberText = 64
	maxExponent   = 400
)

// cutNumber splits a leading decimal number from text; number is empty if there is none.
func cutNumber(text string) (number, rest string) {
	i := 0
	if i < len(text) && (text[i] == '+' || text[i] == '-') {
		i++
	}
	whole := i
	i += digits(text[i:])
	n := i - whole
	if i < len(text) && text[i] == '.' {
		fraction := digits(text[i+1:])
		n += fraction
		i += 1 + fraction
	}
	if n == 0 {
		return "", text
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		j := i + 1
		if j < len(text) && (text[j] == '+' || text[j] == '-') {
			j++
		}
		if d := digits(text[j:]); d > 0 {
			i = j + d
		}
	}
	return text[:i], text[i:]
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// exact returns the value of a number that cutNumber found.
func exact(number string) (*big.Rat, *fault) {
	if len(number) > maxNumberText {
		return nil, faultf(fmt.Sprintf("use at most %d digits", maxNumberText), "the number %s is too long", quote(number))
	}
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		e, err := strconv.Atoi(number[i+1:])
		if err != nil || e > maxExponent || e < -maxExponent {
			return nil, faultf("", "the number %s is too large or too small", quote(number))
		}
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return nil, faultf("", "%s is not a number", quote(number))
	}
	return r, nil
}

// parse reads text as a value in the unit m, exactly. A bare number is taken as given in m if bare
// is set, and is a fault otherwise if m is a unit.
func (m measure) parse(text string, bare bool) (*big.Rat, *fault) {
	text = strings.TrimSpace(text)
	if m.dimension == duration {
		return m.parseDuration(text, bare)
	}
	number, name := cutNumber(text)
	if number == "" {
		return nil, faultf(m.expected(), "%s is not a number", quote(text))
	}
	value, f := exact(number)
	if f != nil {
		return nil, f
	}
	name = strings.TrimSpace(name)
	switch {
	case name == "" && (bare || m.name == ""), m.own() && name == m.name:
		return value, nil
	case name == "":
		return nil, faultf(m.expected(), "%s has no unit", quote(text))
	}
	u, f := m.unit(text, name)
	if f != nil {
		return nil, f
	}
	return value.Mul(value, u.ratio()).Quo(value, m.ratio), nil
}

// unit finds the unit called name, which must be of the dimension of m.
func (m measure) unit(text, name string) (unit, *fault) {
	u, known := findUnit(name)
	switch {
	case known && m.name == "":
		return u, faultf("write the number without a unit", "%s is %s; expected a plain number", quote(text), u.dimension.article())
	case m.name == "":
		return u, faultf("", "%s is not a number; expected a plain number", quote(text))
	case known && m.own():
		return u, faultf(m.expected(), "%s is %s", quote(text), u.dimension.article())
	case known && u.dimension != m.dimension:
		return u, faultf(m.expected(), "%s is %s, not %s", quote(text), u.dimension.article(), m.dimension.article())
	case known:
		return u, nil
	case m.own():
		return u, faultf(m.expected(), "unknown unit %s", quote(name))
	}
	help := m.expected()
	if near := nearest(name, unitNames(m.dimension)); near != "" {
		help = fmt.Sprintf("did you mean %q? %s", near, help)
	}
	return u, faultf(help, "unknown unit %s in %s", quote(name), quote(text))
}

// parseDuration reads a duration in the unit m by way of ticks, as every duration is read.
func (m measure) parseDuration(text string, bare bool) (*big.Rat, *fault) {
	if number, rest := cutNumber(text); bare && number != "" && rest == "" {
		return exact(number)
	}
	d, f := parseDuration(text)
	if f != nil {
		return nil, f
	}
	seconds := big.NewRat(int64(d), int64(sim.Second))
	return seconds.Quo(seconds, m.ratio), nil
}

// parseDuration is sim.ParseDuration with messages for scenario files.
func parseDuration(text string) (sim.Duration, *fault) {
	m := newMeasure("s")
	number, name := cutNumber(text)
	name = strings.TrimSpace(name)
	u, known := findUnit(name)
	// "m" is a minute in a duration and a metre elsewhere.
	isOther := known && u.dimension != duration && name != "m"
	switch {
	case number != "" && name == "":
		return 0, faultf(m.expected(), "%s has no unit", quote(text))
	case number != "" && isOther:
		return 0, faultf(m.expected(), "%s is %s, not a duration", quote(text), u.dimension.article())
	case strings.HasPrefix(number, "-"):
		return 0, faultf("durations are 0 or more", "%s is negative", quote(text))
	}
	d, f := exactDuration(text, number, name)
	if f != nil {
		return 0, f
	}
	if d == 0 && strings.ContainsAny(text, "123456789") {
		return 0, faultf("use 0 or at least 1 ns", "%s is shorter than half a tick (1 ns)", quote(text))
	}
	return d, nil
}

// exactDuration reads a number with signs and exponents and one unit, or else what sim.ParseDuration
// reads.
func exactDuration(text, number, name string) (sim.Duration, *fault) {
	one, err := sim.ParseDuration("1 " + name)
	if strings.ContainsAny(number, "+eE") && !strings.ContainsAny(name, "0123456789") && err == nil {
		value, f := exact(number)
		if f != nil {
			return 0, f
		}
		return roundTicks(value.Mul(value, new(big.Rat).SetInt64(int64(one))), text)
	}
	d, err := sim.ParseDuration(text)
	if err != nil {
		return 0, faultf(newMeasure("s").expected(), "%s", shorten(err.Error()))
	}
	return d, nil
}

// shorten cuts a message of another package to a length that people read.
func shorten(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// toFloat rounds once to the nearest float64; beyond the largest is a fault.
func toFloat(r *big.Rat, text string) (float64, *fault) {
	f, _ := r.Float64()
	if math.IsInf(f, 0) {
		return 0, faultf("", "%s is too large", quote(text))
	}
	return f, nil
}
