package record

import (
	"testing"

	"github.com/simnode/simnode/sim"
)

func BenchmarkEvents(b *testing.B) {
	for name, o := range map[string]Options{"csv": {CSV: true}, "parquet": {Parquet: true}} {
		b.Run(name, func(b *testing.B) {
			o.Level, o.Dir = Raw, b.TempDir()
			r, err := New(program(b, 1e15), o)
			if err != nil {
				b.Fatal(err)
			}
			obs := []sim.Observation{{Series: sim.TraceSeries}}
			b.ReportAllocs()
			for i := range b.N {
				obs[0].Time += 977
				obs[0].Key, obs[0].Seq, obs[0].Entity = uint64(i*7919%50000), uint64(i)<<16, sim.EntityID(i*104729%50000)
				if err := r.Observe(obs); err != nil {
					b.Fatal(err)
				}
			}
			if err := r.Finish(1e15); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkSeries(b *testing.B) {
	r, err := New(program(b, 1e15), Options{})
	if err != nil {
		b.Fatal(err)
	}
	obs := []sim.Observation{{Series: departures, Value: 1}, {Series: airborne, Value: 1}, {Series: wait, Op: sim.OpSet, Value: 1}}
	b.ReportAllocs()
	for i := range b.N {
		o := &obs[i%3]
		o.Time = sim.Time(i) * 977
		if err := r.Observe(obs[i%3 : i%3+1]); err != nil {
			b.Fatal(err)
		}
	}
}
