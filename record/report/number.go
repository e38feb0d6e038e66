package report

import (
	"math"
	"strconv"
	"strings"
)

// number prints a float for people: six significant digits, thousands apart.
func number(v float64) string {
	v += 0 // -0 is printed as 0
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case v == math.Trunc(v) && a < 1e15:
		return group(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 1e15 || a < 1e-4 || math.IsInf(v, 0):
		return strconv.FormatFloat(v, 'g', 6, 64)
	default:
		digits := max(0, 5-int(math.Floor(math.Log10(a))))
		s := strconv.FormatFloat(v, 'f', digits, 64)
		if strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return group(s)
	}
}

// group sets the thousands of a decimal number apart by commas.
func group(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	whole, fraction, has := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if has {
		whole += "." + fraction
	}
	return sign + whole
}
