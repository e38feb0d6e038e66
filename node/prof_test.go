package node_test

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

func cpu() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func TestProf(t *testing.T) {
	n, _ := strconv.ParseInt(os.Getenv("N"), 10, 64)
	if n == 0 {
		return
	}
	ev, _ := strconv.ParseFloat(os.Getenv("EV"), 64)
	end := sim.Duration(ev/float64(n)*1e9) + 2*sim.Second
	for range 3 {
		c0 := cpu()
		b0, _ := barePHOLD(n, 1)
		c1 := cpu()
		bev, _ := barePHOLD(n, int64(end))
		c2 := cpu()
		b := float64(bev-b0) / ((c2 - c1) - (c1 - c0)) / 1e6
		c0 = cpu()
		o0, _ := runPHOLD(t, n, 1, node.Options{Regions: 1, Workers: 1})
		c1 = cpu()
		out, _ := runPHOLD(t, n, end, node.Options{Regions: 1, Workers: 1})
		c2 = cpu()
		e := float64(out.Events-o0.Events) / ((c2 - c1) - (c1 - c0)) / 1e6
		t.Logf("bare %.2f engine %.2f ratio %.2f", b, e, e/b)
	}
}
