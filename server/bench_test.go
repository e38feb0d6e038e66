package server

import (
	"fmt"
	"testing"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/scenario"

	"github.com/simnode/simnode/models"
)

// benchScenario is PHOLD as the issue of a cluster's speed states it: events per second against those of one
// process with as many workers in all.
const benchScenario = "model: phold\nend: %d s\nparams: {entities: 262144, lookahead: 0.1 s}\nrecord: {level: off}\n"

const benchEnd = 20

func BenchmarkPHOLD(b *testing.B) {
	path := file(b, fmt.Sprintf(benchScenario, benchEnd))
	b.Run("process", func(b *testing.B) {
		events := uint64(0)
		seconds := 0.0
		for range b.N {
			s, err := scenario.Load(path, scenario.Options{Models: models.All()})
			if err != nil {
				b.Fatal(err)
			}
			out, err := node.Run(b.Context(), s.Program, node.Options{Regions: 4, Workers: 2})
			if err != nil {
				b.Fatal(err)
			}
			events += out.Events
			seconds += out.Elapsed.Seconds()
		}
		b.ReportMetric(float64(events)/seconds, "events/s")
	})
	for _, n := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			nodes := testCluster(b, n, nil)
			c := client(b, nodes[0])
			events := uint64(0)
			seconds := 0.0
			for range b.N {
				job := submit(b, c, path, control.Spec{})
				if p := wait(b, c, job); p.Phase != control.Done {
					b.Fatalf("%+v", p)
				}
				s := fetch(b, c, job).summary
				events += s.Events
				seconds += s.Wall
			}
			b.ReportMetric(float64(events)/seconds, "events/s")
			counts := nodes[0].loop.shown.Load()
			b.ReportMetric(float64(counts.agentCounts.Grants)/seconds, "grants/s")
		})
	}
}
