package airspace_test

import (
	"context"
	"testing"
	"time"

	"github.com/simnode/simnode/models/airspace"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
)

// BenchmarkMorning runs the first twelve hours of the shipped day, in turn in one region and in four
// regions on two workers, without recording. Repeat it with
//
//	go test ./models/airspace -run XXX -bench Morning -benchtime 5x
func BenchmarkMorning(b *testing.B) {
	run := func(o node.Options) time.Duration {
		s, err := scenario.Load("../../scenarios/airspace-us.yaml", scenario.Options{Models: []sim.Model{airspace.Model()}, End: "12 h"})
		if err != nil {
			b.Fatal(err)
		}
		out, err := node.Run(context.Background(), s.Program, o)
		if err != nil {
			b.Fatal(err)
		}
		return out.Elapsed
	}
	var one, two time.Duration
	for range b.N {
		one += run(node.Options{Regions: 1})
		two += run(node.Options{Regions: 4, Workers: 2})
	}
	b.ReportMetric(one.Seconds()/float64(b.N), "one-region-s")
	b.ReportMetric(two.Seconds()/float64(b.N), "two-workers-s")
	b.ReportMetric(one.Seconds()/two.Seconds(), "speed-up")
	b.ReportMetric(0, "ns/op")
}
