package node_test

import (
	"context"
	"testing"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// fuzzSeed is a storm with everything: space, spawning, large payloads, rows.
const fuzzSeed = 11

func fuzzPart(t testing.TB, me int) *node.Part {
	p, err := node.NewPart(context.Background(), stormProgram(t, fuzzSeed), node.PartOptions{Owner: []int{0, 0, 1, 1}, Me: me, Workers: 1, Observe: true, Trace: true, Bins: 3})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// recordFrames runs the storm in two parts and returns frames of each sort that member 0 was sent.
func recordFrames(f *testing.F, keep func(sort string, data []byte)) {
	c := newTroupe(f, fuzzSeed, 2, 2, func() *sim.Program { return stormProgram(f, fuzzSeed) }, &tape{})
	c.keep = keep
	c.run()
}

// FuzzEventFrame takes in malformed event frames: an error, never a panic.
func FuzzEventFrame(f *testing.F) {
	seedFrames(f, "events")
	p := fuzzPart(f, 0)
	n := uint64(0)
	f.Fuzz(func(_ *testing.T, data []byte) {
		if p.Receive(1, n+1, data) == nil {
			n++
		}
	})
}

// FuzzContents looks at malformed event frames: what can be taken in can be looked at.
func FuzzContents(f *testing.F) {
	seedFrames(f, "events")
	prog := stormProgram(f, fuzzSeed)
	p := fuzzPart(f, 0)
	n := uint64(0)
	f.Fuzz(func(t *testing.T, data []byte) {
		parts := 0
		err := node.Contents(prog, data, func(node.Content) { parts++ })
		if p.Receive(1, n+1, data) == nil {
			n++
			if err != nil {
				t.Fatalf("taken in, but it cannot be looked at: %v", err)
			}
		}
		if parts > len(data) {
			t.Fatalf("%d parts in %d bytes", parts, len(data))
		}
	})
}

// FuzzParcel takes in malformed parcels of a cut.
func FuzzParcel(f *testing.F) {
	seedFrames(f, "parcel")
	f.Fuzz(func(t *testing.T, data []byte) {
		p := fuzzPart(t, 0)
		if _, err := p.Cut(0); err != nil {
			t.Fatal(err)
		}
		if p.TakeParcel(1, data) == nil {
			if _, err := p.EndCut(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzObservationFrame takes in malformed observations.
func FuzzObservationFrame(f *testing.F) {
	seedFrames(f, "observations")
	m := node.NewMerger(stormProgram(f, fuzzSeed), 1, &tape{})
	n := uint64(0)
	f.Fuzz(func(_ *testing.T, data []byte) {
		if m.Take(0, n+1, data) == nil {
			n++
		}
	})
}

// FuzzResultPiece takes in malformed pieces of a result.
func FuzzResultPiece(f *testing.F) {
	seedFrames(f, "result")
	f.Fuzz(func(t *testing.T, data []byte) {
		a := node.NewAssembly(stormProgram(t, fuzzSeed), 1)
		if complete, err := a.Take(0, data, true); err == nil && !complete {
			t.Fatal("the last piece of the only member does not complete the result")
		}
	})
}

// seedFrames gives a fuzzer some real frames to begin with.
func seedFrames(f *testing.F, sort string) {
	left := 8
	recordFrames(f, func(s string, data []byte) {
		if s == sort && left > 0 && len(data) > 0 && len(data) < 1<<14 {
			left--
			f.Add(data)
		}
	})
	if left == 8 {
		f.Fatalf("the storm has no %s", sort)
	}
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0, 0, 0, 255, 255, 255, 255})
}
