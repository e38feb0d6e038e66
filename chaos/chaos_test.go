package chaos

import (
	"os"
	"strconv"
	"testing"
)

func TestOne(t *testing.T) {
	refs := newReferences()
	n, _ := strconv.Atoi(os.Getenv("SEEDS"))
	var sum Counts
	bad := 0
	for seed := range uint64(n) {
		s := drawSettings(seed)
		r := play(seed, s, drawPlan(seed, s), nil, refs)
		sum.Add(&r.Counts)
		if r.Wrong != "" {
			bad++
			for _, l := range r.Last[max(0, len(r.Last)-25):] {
				t.Log(l)
			}
			t.Errorf("seed %d step %d: %.3000s\n%s\n%v", seed, r.WrongStep, r.Wrong, r.Cluster, r.Faults)
			if bad > 3 {
				break
			}
		}
	}
	t.Logf("%+v", sum)
}
