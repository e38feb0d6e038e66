package life

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outcome is what a run gives.
type outcome struct {
	results  map[string]any
	live     []Cell
	pictures []sim.Picture
	digest   uint64
	events   uint64
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// run runs a pattern in the engine.
func run(t failer, p *Params, regions int) outcome {
	t.Helper()
	var g *grid
	model := sim.Define(sim.Model{Name: "life"}, func(b *sim.Builder, p *Params) (err error) {
		g, err = newLife(b, p)
		return err
	})
	prog, err := sim.NewProgram(model, p, sim.Space{}, 1, sim.Never)
	if err != nil {
		t.Fatalf("setup: %v", err)
	}
	return finish(t, g, prog, regions)
}

func finish(t failer, g *grid, prog *sim.Program, regions int) outcome {
	t.Helper()
	rec, err := record.New(prog, record.Options{Level: record.Off})
	if err != nil {
		t.Fatalf("%v", err)
	}
	out, err := node.Run(context.Background(), prog, node.Options{Regions: regions, Workers: 2, Sink: rec})
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if err := rec.Finish(out.End); err != nil {
		t.Fatalf("%v", err)
	}
	f := out.Final(rec)
	o := outcome{digest: out.Digest, events: out.Events}
	if o.results, err = prog.Results(f); err != nil {
		t.Fatalf("%v", err)
	}
	if o.pictures, err = prog.Pictures(f); err != nil {
		t.Fatalf("%v", err)
	}
	if g == nil {
		return o
	}
	sim.Each(f, g.kind, func(id sim.EntityID, s *cell) {
		if s.Alive {
			col, row := g.place(id)
			o.live = append(o.live, Cell{int32(col), int32(row)})
		}
	})
	return o
}

// array is Life in a plain array: the oracle.
type array struct {
	w, h         int
	wrapX, wrapY bool
	rule         Rule
	live         []bool
}

func (a *array) step() {
	next := make([]bool, len(a.live))
	for row := range a.h {
		for col := range a.w {
			n := uint8(0)
			for _, d := range [][2]int{{-1, -1}, {0, -1}, {1, -1}, {-1, 0}, {1, 0}, {-1, 1}, {0, 1}, {1, 1}} {
				if a.at(col+d[0], row+d[1]) {
					n++
				}
			}
			next[row*a.w+col] = a.rule.Next(a.live[row*a.w+col], n)
		}
	}
	a.live = next
}

func (a *array) at(col, row int) bool {
	if a.wrapX {
		col = (col%a.w + a.w) % a.w
	}
	if a.wrapY {
		row = (row%a.h + a.h) % a.h
	}
	return col >= 0 && col < a.w && row >= 0 && row < a.h && a.live[row*a.w+col]
}

func (a *array) cells() (live []Cell) {
	for i, l := range a.live {
		if l {
			live = append(live, Cell{int32(i % a.w), int32(i / a.w)})
		}
	}
	return live
}

// params are the defaults with the pattern.
func params(p Pattern, generations int64) *Params {
	return &Params{
		Pattern:     sim.File{Name: "test.rle", Data: []byte(encodeRLE(p))},
		Generations: generations, Col: -1, Row: -1, Wrap: "none",
	}
}

func TestEqualsPlainArray(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := drawPattern(t, 10)
		p := params(pattern, rapid.Int64Range(1, 10).Draw(t, "generations"))
		p.Margin = rapid.IntRange(0, 3).Draw(t, "margin")
		p.Wrap = rapid.SampledFrom([]string{"none", "x", "y", "both"}).Draw(t, "wrap")
		for g := range p.Generations + 1 {
			p.Report = append(p.Report, g)
		}
		a := &array{
			w: pattern.Width + 2*p.Margin, h: pattern.Height + 2*p.Margin, rule: pattern.Rule,
			wrapX: p.Wrap == "x" || p.Wrap == "both", wrapY: p.Wrap == "y" || p.Wrap == "both",
		}
		a.live = make([]bool, a.w*a.h)
		for _, c := range pattern.Live {
			a.live[(int(c.Row)+p.Margin)*a.w+int(c.Col)+p.Margin] = true
		}
		want := map[string]int64{"0": int64(len(pattern.Live))}
		for g := range p.Generations {
			a.step()
			want[fmt.Sprint(g+1)] = int64(len(a.cells()))
		}
		digest := uint64(0)
		for _, regions := range []int{1, rapid.SampledFrom([]int{2, 3, 8}).Draw(t, "regions")} {
			got := run(t, p, regions)
			if !slices.Equal(got.live, a.cells()) {
				t.Fatalf("%d regions: %v\nwant %v", regions, got.live, a.cells())
			}
			if fmt.Sprint(got.results["population_at"]) != fmt.Sprint(want) {
				t.Fatalf("%d regions: populations %v, want %v", regions, got.results["population_at"], want)
			}
			if got.results["population"] != int64(len(a.cells())) || got.results["generation"] != p.Generations {
				t.Fatalf("%d regions: %v", regions, got.results)
			}
			if regions > 1 && got.digest != digest {
				t.Fatalf("%d regions: digest %x, with one %x", regions, got.digest, digest)
			}
			digest = got.digest
		}
	})
}

func TestRPentomino(t *testing.T) {
	s, err := scenario.Load("../../scenarios/life-r-pentomino.yaml", scenario.Options{Models: []sim.Model{Model()}})
	if err != nil {
		t.Fatal(err)
	}
	o := finish(t, nil, s.Program, 4)
	want := map[string]int64{"0": 5, "1": 6, "100": 121, "500": 174, "1000": 156, "1103": 116}
	if fmt.Sprint(o.results["population_at"]) != fmt.Sprint(want) || o.results["population"] != int64(116) {
		t.Errorf("got %v, want %v", o.results, want)
	}
	if d := o.results["births"].(int64) - o.results["deaths"].(int64); d != 111 {
		t.Errorf("births less deaths: %d, want 111", d)
	}
	for _, p := range o.pictures {
		checkXML(t, p.SVG)
		if len(p.SVG) > 100_000 {
			t.Errorf("%s has %d bytes", p.Name, len(p.SVG))
		}
	}
}

func checkXML(t *testing.T, data []byte) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(string(data)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// A block is quiet: after each of its cells and neighbours has decided once, nothing happens.
func TestQuietCellsCostNothing(t *testing.T) {
	block := Pattern{Width: 2, Height: 2, Rule: conway(), Live: []Cell{{0, 0}, {1, 0}, {0, 1}, {1, 1}}}
	short := run(t, params(block, 2), 1)
	long := run(t, params(block, 100_000), 1)
	if short.events != long.events || long.events > 60 {
		t.Errorf("%d events in 2 generations, %d in 100,000", short.events, long.events)
	}
	if long.results["population"] != int64(4) {
		t.Errorf("%v", long.results)
	}
}

func TestEmptyPattern(t *testing.T) {
	o := run(t, params(Pattern{Width: 3, Height: 3, Rule: conway()}, 10), 2)
	if o.results["population"] != int64(0) || o.events != 0 {
		t.Errorf("%v, %d events", o.results, o.events)
	}
}

func TestBadParams(t *testing.T) {
	block := Pattern{Width: 2, Height: 2, Rule: conway(), Live: []Cell{{0, 0}}}
	for _, c := range []struct {
		name   string
		change func(p *Params)
		want   string
	}{
		{"syntax", func(p *Params) { p.Pattern.Data = []byte("x = 3, y = 3\nbo$\nq!") }, "params.pattern: test.rle:3:1: 'q'"},
		{"too narrow", func(p *Params) { p.Width = 1 }, "params.column: a pattern of 2 cells at 0 does not fit a side of 1"},
		{"offset", func(p *Params) { p.Height, p.Row = 10, 9 }, "params.row: a pattern of 2 cells at 9 does not fit"},
		{"too many cells", func(p *Params) { p.Width, p.Height = 100_000, 100_000 }, "params.width: a grid of 100000 x 100000"},
		{"report beyond", func(p *Params) { p.Report = []int64{1, 11} }, "params.report[1]: generation 11: use 0 to params.generations, 10"},
		{"report order", func(p *Params) { p.Report = []int64{2, 2} }, "params.report[1]: generation 2 after 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := params(block, 10)
			c.change(p)
			_, err := sim.NewProgram(Model(), p, sim.Space{}, 1, sim.Never)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	p := params(block, 10)
	p.Report = []int64{1, 8}
	_, err := sim.NewProgram(Model(), p, sim.Space{}, 1, sim.Time(5*sim.Second))
	if err == nil || !strings.Contains(err.Error(), "params.report[1]: generation 8 is at 8s, after the end of the run at 5s") {
		t.Errorf("report after the end: %v", err)
	}
	plane := sim.Space{Kind: sim.Plane, Dims: 2, Bounds: sim.Box{Max: sim.Vec{X: 1, Y: 1}}}
	if _, err = sim.NewProgram(Model(), params(block, 10), plane, 1, sim.Never); err == nil || !strings.Contains(err.Error(), "leave space out") {
		t.Errorf("space given: %v", err)
	}
}
