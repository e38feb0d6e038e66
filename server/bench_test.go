package server

import (
	"fmt"
	"testing"

	"github.com/simnode/simnode/control"
)

// BenchmarkNodes runs PHOLD on clusters of several nodes in one process, over loopback: for profiles. The
// figures that count are those of processes.
func BenchmarkNodes(b *testing.B) {
	for _, n := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			path := file(b, "model: phold\nseed: 1\nend: 30 s\nparams:\n  entities: 262144\n  population: 1\n  lookahead: 100 ms\n  mean: 1 s\n  remote: 0.5\nrecord:\n  level: off\n")
			nodes := testCluster(b, n, func(c *Config) { c.Workers = max(1, 2/n) })
			c := client(b, nodes[0])
			for range b.N {
				job := submit(b, c, path, control.Spec{})
				if p := wait(b, c, job); p.Phase != control.Done {
					b.Fatal(p)
				}
				counts := nodes[0].loop.shown.Load()
				b.Logf("%+v %+v", counts.coordCounts, counts.agentCounts)
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/run")
		})
	}
}
