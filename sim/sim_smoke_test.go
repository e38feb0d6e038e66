package sim

import "testing"

func TestSmoke(t *testing.T) {
	for _, s := range []string{"80ms", "1h30m", "0.02 s", "2 d", "1d2h", "1.5s", "292y", "5", "-1s", "1 m", "3 weeks"} {
		d, err := ParseDuration(s)
		t.Log(s, d, err)
	}
	if m := mustMul(20*Millisecond, 4320000); m != Day {
		t.Fatal(m)
	}
}
func mustMul(d Duration, n int64) Duration { return d.Mul(n) }
