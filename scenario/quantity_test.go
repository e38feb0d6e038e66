package scenario

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/simnode/simnode/sim"
	"pgregory.net/rapid"
)

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		text, unit string
		want       float64
	}{
		{"250 km", "m", 250000}, {"1 NM", "m", 1852}, {"1 nmi", "m", 1852}, {"1 mi", "m", 1609.344}, {"1000ft", "m", 304.8},
		{"1 cm", "m", 0.01}, {"1 mm", "m", 0.001}, {"-3 m", "m", -3}, {"0.1 km", "m", 100}, {"2 NM", "km", 3.704},
		{"450 kt", "m/s", 231.5}, {"36 km/h", "m/s", 10}, {"1 mph", "m/s", 0.44704}, {"6000 ft/min", "m/s", 30.48},
		{"180 deg", "deg", 180}, {"3.141592653589793 rad", "deg", 180}, {"1 deg", "rad", math.Pi / 180}, {"90°", "deg", 90},
		{"1 t", "kg", 1000}, {"1 g", "kg", 0.001}, {"1 kW", "W", 1000}, {"2.5 MW", "W", 2.5e6},
		{"1 kHz", "Hz", 1000}, {"60 1/min", "1/s", 1}, {"3600 1/h", "Hz", 1}, {"86400 1/d", "1/s", 1},
		{"80 ms", "s", 0.08}, {"1h30m", "s", 5400}, {"1 m", "s", 60}, {"2 h", "min", 120}, {"+1e3 s", "s", 1000},
		{"7 seats", "seats", 7}, {"1.5", "", 1.5}, {"-1e-3", "", -0.001},
	} {
		r, f := newMeasure(c.unit).parse(c.text, false)
		if f != nil {
			t.Errorf("%s as %s: %v", c.text, c.unit, f)
			continue
		}
		if got, _ := r.Float64(); got != c.want {
			t.Errorf("%s as %s: got %v, want %v", c.text, c.unit, got, c.want)
		}
	}
}

func TestUnitFaults(t *testing.T) {
	for _, c := range []struct{ text, unit, want string }{
		{"250", "m", `"250" has no unit; expected a length such as "250 km"`},
		{"250 kg", "m", `"250 kg" is a mass, not a length`},
		{"250 ms", "m", `"250 ms" is a duration, not a length`},
		{"250 Km", "m", `unknown unit "Km" in "250 Km"; did you mean "km"?`},
		{"2,5 km", "m", `unknown unit ",5 km"`},
		{"250", "s", `"250" has no unit; expected a duration such as "80 ms"`},
		{"250 km", "s", `"250 km" is a length, not a duration`},
		{"-1 s", "s", `"-1 s" is negative`},
		{"5 parsecs", "s", `unknown unit "parsecs"`},
		{"5 km", "", `"5 km" is a length; expected a plain number`},
		{"5 x", "", `"5 x" is not a number`},
		{"5 km", "seats", `"5 km" is a length; expected a number of seats`},
		{"5", "seats", `"5" has no unit; expected a number of seats, such as "5 seats"`},
		{"5 chairs", "seats", `unknown unit "chairs"`},
		{"", "m", `"" is not a number`}, {"km", "m", `"km" is not a number`}, {".", "m", `"." is not a number`}, {"- 5 m", "m", "is not a number"},
		{"NaN m", "m", "is not a number"}, {"0x10 m", "m", `unknown unit "x10 m"`}, {"1_000 m", "m", "unknown unit"},
		{strings.Repeat("9", 65) + " m", "m", "is too long"}, {"1e401 m", "m", "too large or too small"}, {"1e99999999999999999999 m", "m", "too large or too small"},
		{"1e300 h", "s", "292 years"},
	} {
		_, f := newMeasure(c.unit).parse(c.text, false)
		if f == nil || !strings.Contains(f.text+"; "+f.help, c.want) {
			t.Errorf("%s as %s: got %v, want %s", c.text, c.unit, f, c.want)
		}
	}
}

func TestEveryUnitIsKnownToItsDimension(t *testing.T) {
	for _, u := range units() {
		if r, ok := new(big.Rat).SetString(u.factor); !ok || r.Sign() <= 0 {
			t.Errorf("unit %s: factor %q", u.name, u.factor)
		}
		if _, err := newMeasure(u.name).parse("1 "+u.name, false); err != nil {
			t.Errorf("unit %s: %v", u.name, err)
		}
	}
	for _, d := range []dimension{length, speed, duration, angle, mass, power, frequency} {
		names := unitNames(d)
		if _, err := newMeasure(names[0]).parse(d.example(), false); err != nil {
			t.Errorf("%s: the example %q: %v", d, d.example(), err)
		}
	}
}

// TestConversionIsExact: one rounding of the exact product, whatever the unit.
func TestConversionIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole, fraction := rapid.Int64Range(-1e15, 1e15).Draw(t, "whole"), rapid.StringMatching(`[0-9]{1,10}`).Draw(t, "fraction")
		u := rapid.SampledFrom(units()).Draw(t, "unit")
		if u.dimension == duration {
			return
		}
		number := fmt.Sprintf("%d.%s", whole, fraction)
		r, f := newMeasure(newMeasureBase(u.dimension)).parse(number+" "+u.name, false)
		if f != nil {
			t.Fatal(f)
		}
		a, _ := new(big.Rat).SetString(number)
		b, _ := new(big.Rat).SetString(u.factor)
		if r.Cmp(a.Mul(a, b)) != 0 {
			t.Fatalf("%s %s: got %v", number, u.name, r)
		}
	})
}

// newMeasureBase names the base unit of a dimension.
func newMeasureBase(d dimension) string {
	for _, u := range units() {
		if u.dimension == d && u.factor == "1" {
			return u.name
		}
	}
	return ""
}

// TestBareCellsRoundLikeExactOnes: the quick way for cells gives the float of the exact way.
func TestBareCellsRoundLikeExactOnes(t *testing.T) {
	f := field{kind: floatField, typ: reflect.TypeFor[float64](), measure: newMeasure("m")}
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.StringMatching(`-?[0-9]{1,20}(\.[0-9]{0,25})?(e-?[0-9]{1,2})?`).Draw(t, "number")
		quick, f1 := f.parse(number, true)
		slow, f2 := f.parse(number+" m", true)
		if f1 != nil || f2 != nil || quick.Float() != slow.Float() {
			t.Fatalf("%s: %v %v, %v %v", number, quick, f1, slow, f2)
		}
	})
}

func TestDurationsRoundTrip(t *testing.T) {
	f := field{kind: durationField, typ: reflect.TypeFor[sim.Duration](), measure: newMeasure("s")}
	rapid.Check(t, func(t *rapid.T) {
		d := sim.Duration(rapid.Int64Range(0, math.MaxInt64-1).Draw(t, "d"))
		v, fault := f.parse(d.String(), false)
		if fault != nil || v.Interface() != d {
			t.Fatalf("%v: got %v, %v", d, v, fault)
		}
	})
}

// FuzzQuantity: any text is a value in range or a fault of bounded length, for every sort of field.
func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"250 km", "1h30m", "1e400 m", "-5", "3 1/h", "0.5", "NaN", ".", "1e-400 s", "5 m", "1 rad", "9999999999 d", "١ km"} {
		f.Add(s)
	}
	fields, err := paramFields(towerModel())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, field := range fields {
			if field.kind > durationField {
				continue
			}
			for _, bare := range []bool{false, true} {
				v, fault := field.parse(text, bare)
				switch {
				case fault != nil && (fault.text == "" || len(fault.text)+len(fault.help) > 1000):
					t.Errorf("%s: fault %q", field.name, fault)
				case fault == nil && field.kind == floatField && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)):
					t.Errorf("%s: %q gives %v", field.name, text, v)
				case fault == nil && field.kind == durationField && v.Int() < 0:
					t.Errorf("%s: %q gives %v", field.name, text, v)
				}
			}
		}
	})
}
