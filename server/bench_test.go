package server

import (
	"fmt"
	"math"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/simnode/simnode/control"
)

// BenchmarkNodes runs PHOLD with lookahead 0.1 and mean 1 on clusters of nodes in one process, which talk
// over loopback. With 1,024 entities a node has some ten events to run between two grants, so that nearly
// all time is that of the protocol; with 262,144 it is the other way round. Repeat it with
//
//	go test ./server -run XXX -bench Nodes -benchtime 3x
func BenchmarkNodes(b *testing.B) {
	for _, size := range []struct {
		entities int
		end      int
	}{{1024, 200}, {262144, 20}} {
		for _, n := range []int{2, 4, 8} {
			b.Run(fmt.Sprintf("entities=%d/nodes=%d", size.entities, n), func(b *testing.B) { benchNodes(b, n, size.entities, size.end) })
		}
	}
}

func benchNodes(b *testing.B, n, entities, end int) {
	path := file(b, fmt.Sprintf("model: phold\nend: %d s\nparams: {entities: %d, lookahead: 0.1 s}\nrecord: {level: off}\n", end, entities))
	nodes := testCluster(b, n, nil)
	c := client(b, nodes[0])
	var events uint64
	var seconds float64
	for range b.N {
		job := submit(b, c, path, control.Spec{})
		if p := wait(b, c, job); p.Phase != control.Done {
			b.Fatalf("%+v", p)
		}
		s := fetch(b, c, job).summary
		events += s.Events
		seconds += s.Wall
	}
	var grants, messages, batches, bytes uint64
	var waits dto.Metric
	for _, node := range nodes {
		counts := node.loop.shown.Load()
		grants, messages = grants+counts.coordCounts.Grants, messages+counts.coordCounts.Messages
		batches, bytes = batches+counts.agentCounts.BatchesOut, bytes+counts.agentCounts.BytesOut
		var m dto.Metric
		if err := node.loop.answers.Write(&m); err != nil {
			b.Fatal(err)
		}
		addHistogram(&waits, &m)
	}
	b.ReportMetric(float64(events)/seconds, "events/s")
	b.ReportMetric(float64(grants)/seconds, "grants/s")
	b.ReportMetric(quantile(&waits, 0.5)*1e6, "p50-µs")
	b.ReportMetric(quantile(&waits, 0.99)*1e6, "p99-µs")
	b.ReportMetric(float64(bytes)/float64(events), "bytes/event")
	b.ReportMetric(float64(batches)/float64(max(messages, 1)), "batches/grant")
	b.ReportMetric(0, "ns/op")
}

// addHistogram adds the counts of m to sum.
func addHistogram(sum, m *dto.Metric) {
	if sum.Histogram == nil {
		sum.Histogram = m.Histogram
		return
	}
	*sum.Histogram.SampleCount += m.Histogram.GetSampleCount()
	for i, bucket := range m.Histogram.Bucket {
		*sum.Histogram.Bucket[i].CumulativeCount += bucket.GetCumulativeCount()
	}
}

// quantile returns the upper end of the bucket that holds the quantile.
func quantile(m *dto.Metric, q float64) float64 {
	want := uint64(math.Ceil(q * float64(m.Histogram.GetSampleCount())))
	for _, bucket := range m.Histogram.Bucket {
		if bucket.GetCumulativeCount() >= want {
			return bucket.GetUpperBound()
		}
	}
	return math.Inf(1)
}
