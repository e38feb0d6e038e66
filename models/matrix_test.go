package models_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/simnode/simnode/models"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
)

// shipped are the scenarios that ship, made small.
func shipped() map[string]scenario.Options {
	return map[string]scenario.Options{
		"airspace-us": {End: "20 min", Set: []string{"params.traffic=0.2"}},
		"phold":       {End: "4 s", Set: []string{"params.entities=600", "params.destinations=spatial"}},
		"life-r-pentomino": {Set: []string{"params.generations=60", "params.report=[60]",
			"params.width=120", "params.height=120", "params.column=58", "params.row=58"}},
	}
}

// answer is all that must not depend on how a run is carried out.
type answer struct {
	digest  uint64
	events  uint64
	results string
	files   string
}

// run runs a shipped scenario; with a level other than off it records to a folder and returns the files.
func run(t *testing.T, name string, seed uint64, level record.Level, o node.Options) answer {
	t.Helper()
	options := shipped()[name]
	options.Models, options.Seed = models.All(), fmt.Sprint(seed)
	s, err := scenario.Load(filepath.Join("..", "scenarios", name+".yaml"), options)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rec, err := record.New(s.Program, record.Options{Level: level, CSV: true, Parquet: level == record.Raw, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	o.Sink, o.Trace = rec, level == record.Raw
	out, err := node.Run(context.Background(), s.Program, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Finish(out.End); err != nil {
		t.Fatal(err)
	}
	results, err := s.Program.Results(out.Final(rec))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(results)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{digest: out.Digest, events: out.Events, results: string(text)}
	for _, f := range rec.Outputs() {
		data, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			t.Fatal(err)
		}
		a.files += f + "\n" + string(data)
	}
	return a
}

// TestOneAnswer: every shipped model gives one digest, one set of results and the same bytes of records
// for every number of regions, workers and processors.
func TestOneAnswer(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for name := range shipped() {
		want := run(t, name, 1, record.Raw, node.Options{Regions: 1, Workers: 1})
		for i, regions := range []int{1, 2, 3, 4, 8, 16} {
			for j, workers := range []int{1, 2} {
				for k, procs := range []int{1, 2, 8} {
					if testing.Short() && (i+j+k)%6 != 0 {
						continue
					}
					runtime.GOMAXPROCS(procs)
					got := run(t, name, 1, record.Raw, node.Options{Regions: regions, Workers: workers})
					if got != want {
						t.Errorf("%s: %d regions, %d workers, %d processors: digest %x, results %s; one region: %x, %s; records equal: %v",
							name, regions, workers, procs, got.digest, got.results, want.digest, want.results, got.files == want.files)
					}
				}
			}
		}
		off := run(t, name, 1, record.Off, node.Options{Regions: 3, Workers: 2})
		if off.digest != want.digest || off.results != want.results {
			t.Errorf("%s: without recording the digest is %x, not %x", name, off.digest, want.digest)
		}
	}
}

// TestTenSeeds: ten seeds of each model, of which each gives its own answer, the same in 4 regions.
func TestTenSeeds(t *testing.T) {
	for name := range shipped() {
		seen := make(map[uint64]uint64)
		for seed := range uint64(10) {
			one := run(t, name, seed, record.Statistical, node.Options{Regions: 1, Workers: 1})
			four := run(t, name, seed, record.Statistical, node.Options{Regions: 4, Workers: 2})
			if one != four {
				t.Errorf("%s, seed %d: digest %x in one region, %x in four", name, seed, one.digest, four.digest)
			}
			if other, ok := seen[one.digest]; ok {
				t.Errorf("%s: seeds %d and %d give one digest", name, seed, other)
			}
			seen[one.digest] = seed
		}
	}
}
