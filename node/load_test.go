package node

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/simnode/simnode/sim"
)

// Bins by definition: event at t is in the bin floor(t x bins / end), and the last one takes what is
// beyond.
func TestLoadCountsEachEventInItsBin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := sim.Time(rapid.OneOf(rapid.Int64Range(1, 50), rapid.Int64Range(1, int64(sim.Never)-1)).Draw(t, "end"))
		n := rapid.IntRange(1, 40).Draw(t, "bins")
		l := newLoad(n, end)
		want := make([]uint64, n)
		at, events := sim.Time(0), uint64(0)
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			at += sim.Time(rapid.Int64Range(0, int64(end-at)).Draw(t, "step"))
			if at == end {
				break
			}
			if at >= l.next {
				l.open(at, events)
			}
			events++
			bin := new(big.Int).Mul(big.NewInt(int64(at)), big.NewInt(int64(n)))
			want[bin.Quo(bin, big.NewInt(int64(end))).Int64()]++
		}
		for i, got := range l.close(events) {
			if got != want[i] {
				t.Fatalf("bin %d holds %d, not %d", i, got, want[i])
			}
		}
	})
}
