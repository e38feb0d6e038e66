package sim

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestLBTSCase8NoFloatDrift(t *testing.T) {
	step, err := ParseDuration("0.02 s")
	if err != nil {
		t.Fatal(err)
	}
	if got := step.Mul(4_320_000); got != 86_400*Second {
		t.Errorf("0.02 s x 4,320,000 = %v, not one day", got)
	}
	at := Time(0)
	for range 4_320_000 {
		at = at.Add(step)
	}
	if at != Time(Day) {
		t.Errorf("4,320,000 steps of 0.02 s lead to %v, not to one day", at)
	}
	if got := FromSeconds(1.0 / 128); got != 7_812_500 {
		t.Errorf("a period of 128 Hz is %d ns, not 7,812,500", got)
	}
	if d, err := ParseDuration("0.0078125 s"); d != 7_812_500 || err != nil {
		t.Errorf("0.0078125 s = %d ns, %v", d, err)
	}
	tenth, sum := FromSeconds(0.1), Duration(0)
	for range 10 {
		sum = sum.Add(tenth)
	}
	if sum != Second {
		t.Errorf("ten times 0.1 s = %v", sum)
	}
}

func TestLBTSCase9Overflow(t *testing.T) {
	for _, c := range []struct {
		t    Time
		d    Duration
		want Time
	}{
		{Never, 80 * Millisecond, Never},
		{Never, Forever, Never},
		{Never, -Second, Never},
		{Never, math.MinInt64, Never},
		{0, Forever, Never},
		{-5, Forever, Never},
		{math.MinInt64, Forever, Never},
		{Never - 1, 1, Never},
		{Never - 1, 2, Never},
		{math.MinInt64, -1, math.MinInt64},
		{math.MinInt64, math.MinInt64, math.MinInt64},
		{-1, math.MinInt64, math.MinInt64},
		{0, math.MinInt64, math.MinInt64},
		{5, -7, -2},
	} {
		if got := c.t.Add(c.d); got != c.want {
			t.Errorf("%d + %d = %d, not %d", c.t, c.d, got, c.want)
		}
	}
	for _, u := range []Time{math.MinInt64, -1, 0, 1, Never - 1, Never} {
		if got := Never.Sub(u); got != Forever {
			t.Errorf("from %d to never is %d", u, got)
		}
	}
}

// ticks draws int64 values with the ends and their neighbours among them.
func ticks() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64(),
		rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}),
		rapid.Int64Range(-10, 10),
		rapid.Map(rapid.Int64Range(0, 5), func(n int64) int64 { return math.MaxInt64/2 + n }),
	)
}

func saturate(x *big.Int) int64 {
	switch {
	case x.IsInt64():
		return x.Int64()
	case x.Sign() > 0:
		return math.MaxInt64
	}
	return math.MinInt64
}

func TestAddSaturates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, d := ticks().Draw(t, "time"), ticks().Draw(t, "duration")
		want := saturate(new(big.Int).Add(big.NewInt(a), big.NewInt(d)))
		if a == math.MaxInt64 || d == math.MaxInt64 {
			want = math.MaxInt64
		}
		if got := Time(a).Add(Duration(d)); int64(got) != want {
			t.Fatalf("%d + %d = %d, not %d", a, d, got, want)
		}
		if got := Duration(a).Add(Duration(d)); int64(got) != want {
			t.Fatalf("durations: %d + %d = %d, not %d", a, d, got, want)
		}
	})
}

func TestSubSaturatesAndUndoesAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := ticks().Draw(t, "later"), ticks().Draw(t, "earlier")
		want := saturate(new(big.Int).Sub(big.NewInt(a), big.NewInt(b)))
		if a == math.MaxInt64 {
			want = math.MaxInt64
		}
		d := Time(a).Sub(Time(b))
		if int64(d) != want {
			t.Fatalf("%d - %d = %d, not %d", a, b, d, want)
		}
		if exact := new(big.Int).Sub(big.NewInt(a), big.NewInt(b)); exact.IsInt64() && d != Forever && Time(b) != Never {
			if back := Time(b).Add(d); int64(back) != a {
				t.Fatalf("%d + (%d - %d) = %d", b, a, b, back)
			}
		}
	})
}

func TestAddIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, d := ticks().Draw(t, "a"), ticks().Draw(t, "b"), ticks().Draw(t, "d")
		if lo, hi := Time(min(a, b)), Time(max(a, b)); lo.Add(Duration(d)) > hi.Add(Duration(d)) {
			t.Fatalf("%d <= %d but the order turns when %d is added", lo, hi, d)
		}
	})
}

func TestMulSaturates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, n := ticks().Draw(t, "duration"), ticks().Draw(t, "n")
		want := int64(0)
		if d > 0 && n > 0 {
			want = saturate(new(big.Int).Mul(big.NewInt(d), big.NewInt(n)))
		}
		if got := Duration(d).Mul(n); int64(got) != want {
			t.Fatalf("%d x %d = %d, not %d", d, n, got, want)
		}
	})
}

func TestFromSeconds(t *testing.T) {
	for _, c := range []struct {
		s    float64
		want Duration
	}{
		{0, 0}, {math.Copysign(0, -1), 0}, {1, Second}, {-1, -Second}, {0.5e-9, 1}, {0.4e-9, 0}, {-0.5e-9, -1},
		{math.NaN(), Forever}, {math.Inf(1), Forever}, {math.Inf(-1), math.MinInt64},
		{9.3e9, Forever}, {-9.3e9, math.MinInt64}, {1e300, Forever}, {9.223372036854775807e9, Forever},
		{1e-320, 0}, {86400, Day},
	} {
		if got := FromSeconds(c.s); got != c.want {
			t.Errorf("%g s = %d, not %d", c.s, got, c.want)
		}
	}
}

func TestFromSecondsUndoesSeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Up to 52 days a tick is more than the rounding of seconds.
		d := Duration(rapid.Int64Range(-1<<52, 1<<52).Draw(t, "ticks"))
		if got := FromSeconds(d.Seconds()); got != d {
			t.Fatalf("%d comes back as %d", d, got)
		}
	})
}

func TestParseDuration(t *testing.T) {
	for _, c := range []struct {
		text string
		want Duration
	}{
		{"80ms", 80 * Millisecond}, {"80 ms", 80 * Millisecond}, {"  5 s ", 5 * Second}, {"1h30m", 90 * Minute},
		{"1h 30 min", 90 * Minute}, {"0.02 s", 20 * Millisecond}, {"2 d", 2 * Day}, {"1d2h", 26 * Hour},
		{"1 m", Minute}, {"3 weeks", 21 * Day}, {"1 week", 7 * Day}, {"1w", 7 * Day}, {"2 days", 2 * Day}, {"1 day", Day},
		{"2 hours", 2 * Hour}, {"1 hour", Hour}, {"2 minutes", 2 * Minute}, {"1 second", Second}, {"1 sec", Second},
		{"7 us", 7 * Microsecond}, {"7µs", 7 * Microsecond}, {"7μs", 7 * Microsecond}, {"9ns", 9}, {"0 s", 0},
		{".5s", 500 * Millisecond}, {"5.s", 5 * Second}, {"010 s", 10 * Second}, {"1s1s", 2 * Second},
		{"0.5 ns", 1}, {"0.49999999999999999999999 ns", 0}, {"1.5 ns", 2}, {"2.5ns", 3},
		// Rounded once, as a sum: 0.25 + 0.25 is a half, and rounds up.
		{"0.25 ns 0.25 ns", 1},
		{"0.333333333333 s", 333333333},
		{"9223372036854775806 ns", math.MaxInt64 - 1}, {"106751 d", 106751 * Day},
	} {
		if got, err := ParseDuration(c.text); got != c.want || err != nil {
			t.Errorf("%q = %d, %v; want %d", c.text, got, err, c.want)
		}
	}
}

func TestParseDurationRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "empty duration"}, {" \t\n", "empty duration"},
		{"5", `write "5 s" for seconds`}, {"1h 30", "no unit after 30"},
		{"-5 s", "not negative"}, {"+5 s", "not negative"}, {"s", "expected a number"}, {"5 s -1 s", "not negative"},
		{"1e9 s", "unknown unit"}, {"0x10 s", "unknown unit"}, {"1_000 s", "unknown unit"}, {"1,5 s", "unknown unit"},
		{"5 parsecs", "unknown unit"}, {"5 S", "unknown unit"}, {"5\x00s", "unknown unit"}, {"5\u00a0s", "unknown unit"},
		{"５ s", "expected a number"}, {"٥ s", "expected a number"}, {"NaN s", "expected a number"}, {"Inf s", "expected a number"},
		{"1.2.3 s", "not a number"}, {". s", "not a number"}, {"... s", "not a number"},
		{"9223372036854775807 ns", "292 years"}, {"9223372036854775806.5 ns", "292 years"},
		{"106752 d", "292 years"}, {strings.Repeat("9", 90) + " weeks", "292 years"},
		{strings.Repeat("1s", 60), "120 bytes"}, {strings.Repeat("9", 1<<20) + "s", "bytes"},
		{"\xff5 s", "expected a number"}, {"5 \xff", "unknown unit"},
	} {
		d, err := ParseDuration(c.text)
		if err == nil {
			t.Errorf("%.40q = %v, but should be refused", c.text, d)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %q does not say %q", c.text, err, c.want)
		}
	}
}

func TestParseDurationErrorStaysShort(t *testing.T) {
	_, err := ParseDuration(strings.Repeat(" ", 1<<20) + "5 parsecs")
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("the error repeats the blanks: %d bytes", len(err.Error()))
	}
}

func TestDurationString(t *testing.T) {
	for _, c := range []struct {
		d    Duration
		want string
	}{
		{0, "0s"}, {1, "1ns"}, {999, "999ns"}, {1500, "1.5us"}, {80 * Millisecond, "80ms"}, {1500 * Millisecond, "1.5s"},
		{26 * Hour, "1d2h"}, {90 * Second, "1m30s"}, {Day + 1, "1d0.000000001s"}, {Forever, "forever"}, {-Second, "-1s"},
		{-1, "-1ns"}, {math.MinInt64, "-106751d23h47m16.854775808s"}, {math.MinInt64 + 1, "-106751d23h47m16.854775807s"},
	} {
		if got := c.d.String(); got != c.want {
			t.Errorf("%d prints as %q, not %q", int64(c.d), got, c.want)
		}
	}
	if Never.String() != "never" || Time(Hour).String() != "1h" {
		t.Errorf("times print as %v and %v", Never, Time(Hour))
	}
}

func TestStringParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Duration(rapid.OneOf(
			rapid.Int64Range(0, math.MaxInt64-1),
			rapid.Int64Range(0, int64(2*Second)),
			rapid.Map(rapid.Int64Range(0, 200), func(n int64) int64 { return n * int64(Hour) / 4 }),
		).Draw(t, "ticks"))
		if back, err := ParseDuration(d.String()); back != d || err != nil {
			t.Fatalf("%d prints as %q, which reads as %d, %v", d, d, back, err)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"80ms", "1h30m", "0.02 s", "1e9 s", "５ s", "1.2.3s", "292y", "-1s", "9223372036854775806ns", "1 s 1", ". s", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			if d != 0 || len(err.Error()) > 1000 {
				t.Fatalf("%q: %d with an error of %d bytes", text, d, len(err.Error()))
			}
			if utf8.ValidString(text) && !utf8.ValidString(err.Error()) {
				t.Fatalf("%q: the error is not text", text)
			}
			return
		}
		if d < 0 || d == Forever {
			t.Fatalf("%q = %d", text, d)
		}
		if back, err := ParseDuration(d.String()); back != d || err != nil {
			t.Fatalf("%q = %d prints as %q, which reads as %d, %v", text, d, d, back, err)
		}
	})
}
