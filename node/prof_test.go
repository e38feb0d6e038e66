package node_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

func TestProf(t *testing.T) {
	n, _ := strconv.ParseInt(os.Getenv("N"), 10, 64)
	if n == 0 {
		return
	}
	ev, _ := strconv.ParseFloat(os.Getenv("EV"), 64)
	end := sim.Duration(ev/float64(n)*1e9) + 2*sim.Second
	for range 3 {
		bev, bel := barePHOLD(n, int64(end))
		out, _ := runPHOLD(t, n, end, node.Options{Regions: 1, Workers: 1})
		var busy time.Duration
		for _, r := range out.Regions {
			busy += r.Busy
		}
		b, e := float64(bev)/bel.Seconds()/1e6, float64(out.Events)/busy.Seconds()/1e6
		t.Logf("bare %.2f engine %.2f ratio %.2f", b, e, e/b)
	}
}
