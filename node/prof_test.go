package node_test

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

func TestPar(t *testing.T) {
	n, _ := strconv.ParseInt(os.Getenv("N"), 10, 64)
	if n == 0 {
		return
	}
	ev, _ := strconv.ParseFloat(os.Getenv("EV"), 64)
	end := sim.Duration(ev/float64(n)*1e9) + 2*sim.Second
	for range 4 {
		var line strings.Builder
		var wg sync.WaitGroup
		var rate [2]float64
		for i := range 2 {
			wg.Go(func() {
				out, _ := runPHOLD(t, n, end, node.Options{Regions: 1, Workers: 1})
				rate[i] = float64(out.Events) / out.Elapsed.Seconds() / 1e6
			})
		}
		wg.Wait()
		line.WriteString(strconv.FormatFloat(rate[0]+rate[1], 'f', 2, 64) + " |")
		for _, rr := range []int{2, 4, 8, 16} {
			out, _ := runPHOLD(t, n, end, node.Options{Regions: rr, Workers: 2})
			var busy time.Duration
			for _, r := range out.Regions {
				busy += r.Busy
			}
			x := float64(out.Events) / out.Elapsed.Seconds() / 1e6
			line.WriteString(strconv.Itoa(rr) + ": " + strconv.FormatFloat(x, 'f', 2, 64) + " (" + strconv.FormatFloat(x/(rate[0]+rate[1]), 'f', 2, 64) + ", busy " + strconv.FormatFloat(busy.Seconds()/2/out.Elapsed.Seconds(), 'f', 2, 64) + ") ")
		}
		t.Log(line.String())
	}
}
