package record

import (
	"testing"

	"github.com/simnode/simnode/sim"
)

func BenchmarkEvents(b *testing.B) {
	for name, o := range map[string]Options{
		"csv": {CSV: true}, "parquet": {Parquet: true}, "csv resumable": {CSV: true, Resumable: true}, "parquet resumable": {Parquet: true, Resumable: true},
	} {
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
	for name, o := range map[string]Options{
		"plain": {}, "resumable": {Level: Summary, Resumable: true}, "rebin": {Level: Summary, Resumable: true, Rebin: true},
	} {
		b.Run(name, func(b *testing.B) {
			o.Dir = b.TempDir()
			r, err := New(program(b, 1e15), o)
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
			if r.spool != nil {
				b.ReportMetric(float64(r.spool.out.length)/float64(b.N), "B/op-spool")
			}
			mustClose(b, r)
		})
	}
}

// BenchmarkSave: 1,000 rows after a million.
func BenchmarkSave(b *testing.B) {
	r, err := New(program(b, 1e15), Options{Level: Raw, CSV: true, Resumable: true, Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	obs := make([]sim.Observation, 1000)
	for i := range obs {
		obs[i].Series = sim.TraceSeries
	}
	for range 1000 {
		if err := r.Observe(obs); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := r.Observe(obs); err != nil {
			b.Fatal(err)
		}
		if _, err := r.Save(); err != nil {
			b.Fatal(err)
		}
	}
	mustClose(b, r)
}
