package chaos

import "testing"

// firstSeeds are seeds from which mutants are found soon, by name; the others are found from 0 on.
var firstSeeds = map[string]uint64{
	"what is for one process goes to the one before it": 18,
	"a takeover does not wait for what is on the way":   64,
	"a takeover forgets the bounds that are held":       914,
	"a takeover forgets the end":                        85,
	"a coordinator waits for ever for who is lost":      892,
	"reports forget failures":                           36,
	"reports forget that an entity asked for the end":   192,
	"what is read of a checkpoint is not checked":       52,
	"an older checkpoint is restored":                   15,
}

// TestMutantsAreCaught shows that the checks can fail: each mistake is found within some seeds, and none of
// them is wrong without it.
func TestMutantsAreCaught(t *testing.T) {
	refs := newReferences()
	for _, m := range Mutants() {
		t.Run(m.Name, func(t *testing.T) {
			const seeds = 1000
			first := firstSeeds[m.Name]
			for seed := first; seed < first+seeds; seed++ {
				r := runSeed(seed, m, refs)
				if r.Wrong == "" {
					continue
				}
				t.Logf("seed %d, step %d: %.200s", seed, r.WrongStep, r.Wrong)
				if x := runSeed(seed, nil, refs); x.Wrong != "" {
					t.Errorf("seed %d goes wrong without the mutant: %s", seed, x.Wrong)
				}
				return
			}
			t.Errorf("%d seeds from %d on, none went wrong", seeds, first)
		})
	}
}
