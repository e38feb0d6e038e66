package life

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/simnode/simnode/sim"
)

// Params are the parameters of the model.
type Params struct {
	Pattern     sim.File `param:"pattern" doc:"RLE file of the pattern at generation 0"`
	Generations int64    `param:"generations" default:"100" min:"1" max:"1000000000" doc:"last generation, one a second"`
	Report      []int64  `param:"report" default:"[]" doc:"generations whose population is wanted in the results"`
	Width       int      `param:"width" default:"0" min:"0" max:"100000" doc:"columns of the grid; 0 is the pattern's and twice the margin"`
	Height      int      `param:"height" default:"0" min:"0" max:"100000" doc:"rows of the grid; 0 is the pattern's and twice the margin"`
	Margin      int      `param:"margin" default:"20" min:"0" max:"50000" doc:"empty cells around the pattern where width or height is 0"`
	Col         int      `param:"column" default:"-1" min:"-1" max:"100000" doc:"column of the pattern's left edge; -1 puts it in the middle"`
	Row         int      `param:"row" default:"-1" min:"-1" max:"100000" doc:"row of the pattern's upper edge; -1 puts it in the middle"`
	Wrap        string   `param:"wrap" default:"none" enum:"none,x,y,both" doc:"axes on which the grid closes to a torus; elsewhere beyond the border all is dead"`
}

// maxCells bounds the grid: a cell takes about a hundred bytes.
const maxCells = 50_000_000

// generation is the time that a generation takes.
const generation = sim.Second

// Model returns the model.
func Model() sim.Model {
	return sim.Define(sim.Model{
		Name:    "life",
		Summary: "Conway's Game of Life, event-driven: quiet cells cost nothing",
		Doc: "A cell that changes tells its eight neighbours, which hear it one generation later and then decide. " +
			"Plane with a dead border or torus; any pattern from an RLE file; rules of the B3/S23 family without B0.",
		Source:  "M. Gardner, \"The fantastic combinations of John Conway's new solitaire game 'life'\", Scientific American, October 1970. Format: LifeWiki, \"Run Length Encoded\".",
		Check:   "The r-pentomino has 121 cells at generation 100 and 116 at 1103; random patterns on planes and tori equal a plain array of cells.",
		Version: 1,
	}, setup)
}

// cell is the state of a cell.
type cell struct {
	Alive bool
	// Neighbours that were alive one generation ago, as far as heard.
	Neighbours uint8
	// Deciding is set while a decision is scheduled.
	Deciding bool
}

// grid is what the handlers share: everything in it is fixed by the end of setup. Cells are the only
// entities, so the id of a cell says where it is: 1 + row x width + column.
type grid struct {
	width, height int
	wrapX, wrapY  bool
	rule          Rule
	last          sim.Time
	start         []Cell
	report        []int64

	kind   sim.Kind[cell]
	wake   sim.Event[sim.None]
	tell   sim.Event[int8]
	decide sim.Event[sim.None]

	population     sim.Gauge
	births, deaths sim.Counter
}

func setup(b *sim.Builder, p *Params) error {
	_, err := newLife(b, p)
	return err
}

func newLife(b *sim.Builder, p *Params) (*grid, error) {
	pattern, err := ParseRLE(p.Pattern.Name, p.Pattern.Data)
	if err != nil {
		return nil, sim.BadParam("params.pattern", "%v", err)
	}
	g, err := newGrid(p, pattern)
	if err != nil {
		return nil, err
	}
	b.SetEnd(g.last.Add(generation / 2))
	if err := g.checkReport(b.End()); err != nil {
		return nil, err
	}
	b.SetSpace(g.space())
	if b.Space() != g.space() {
		return nil, sim.BadParam("space", "the grid makes its own space: leave space out and use params.width, height and wrap")
	}
	b.SetLimits(sim.Limits{Lookahead: generation})
	g.declare(b)
	g.populate(b)
	return g, nil
}

func newGrid(p *Params, pattern Pattern) (*grid, error) {
	g := &grid{
		width: p.Width, height: p.Height, rule: pattern.Rule, report: p.Report,
		wrapX: p.Wrap == "x" || p.Wrap == "both",
		wrapY: p.Wrap == "y" || p.Wrap == "both",
		last:  sim.Time(generation.Mul(p.Generations)),
	}
	if g.width == 0 {
		g.width = pattern.Width + 2*p.Margin
	}
	if g.height == 0 {
		g.height = pattern.Height + 2*p.Margin
	}
	if n := int64(g.width) * int64(g.height); n > maxCells {
		return nil, sim.BadParam("params.width", "a grid of %d x %d has %d cells: use at most %d", g.width, g.height, n, maxCells)
	}
	col, errCol := offset("params.column", p.Col, pattern.Width, g.width)
	row, errRow := offset("params.row", p.Row, pattern.Height, g.height)
	if err := errors.Join(errCol, errRow); err != nil {
		return nil, err
	}
	g.start = make([]Cell, len(pattern.Live))
	for i, c := range pattern.Live {
		g.start[i] = Cell{c.Col + int32(col), c.Row + int32(row)}
	}
	return g, nil
}

// offset places a pattern of the given size on a side of the grid.
func offset(path string, at, size, side int) (int, error) {
	if at < 0 {
		at = (side - size) / 2
	}
	if at < 0 || at+size > side {
		return 0, sim.BadParam(path, "a pattern of %d cells at %d does not fit a side of %d: make the grid larger", size, at, side)
	}
	return at, nil
}

func (g *grid) checkReport(end sim.Time) error {
	for i, r := range g.report {
		path := fmt.Sprintf("params.report[%d]", i)
		switch {
		case r < 0 || sim.Time(generation.Mul(r)) > g.last:
			return sim.BadParam(path, "generation %d: use 0 to params.generations, %d", r, g.last/sim.Time(generation))
		case i > 0 && r <= g.report[i-1]:
			return sim.BadParam(path, "generation %d after %d: list them in ascending order, each once", r, g.report[i-1])
		case reportTime(r) >= end:
			return sim.BadParam(path, "generation %d is at %v, after the end of the run at %v", r, sim.Duration(generation.Mul(r)), end)
		}
	}
	return nil
}

// reportTime is when generation n is looked at: between its changes and those of the next.
func reportTime(n int64) sim.Time { return sim.Time(generation.Mul(n)).Add(generation / 4) }

// space is one metre a cell, x to the right and y upwards.
func (g *grid) space() sim.Space {
	s := sim.Space{Kind: sim.Plane, Dims: 2, Bounds: sim.Box{Max: sim.Vec{X: float64(g.width), Y: float64(g.height)}}}
	if g.wrapX || g.wrapY {
		s.Kind = sim.Torus
		s.Periodic = [3]bool{g.wrapX, g.wrapY, false}
	}
	return s
}

func (g *grid) declare(b *sim.Builder) {
	g.wake = sim.DefineEvent[sim.None](b, "wake", sim.Planned)
	g.tell = sim.DefineEvent[int8](b, "tell", sim.Interaction)
	g.decide = sim.DefineEvent[sim.None](b, "decide", sim.Planned)
	g.kind = sim.DefineKind[cell](b, "cell", "a square of the grid")
	sim.Handle(g.kind, g.wake, g.handleWake)
	sim.Handle(g.kind, g.tell, g.handleTell)
	sim.Handle(g.kind, g.decide, g.handleDecide)

	at := make([]sim.Time, len(g.report))
	for i, r := range g.report {
		at[i] = reportTime(r)
	}
	g.population = sim.DefineGauge(b, "population", "cells", "live cells", float64(len(g.start)), at...)
	g.births = sim.DefineCounter(b, "births", "cells", "cells born")
	g.deaths = sim.DefineCounter(b, "deaths", "cells", "cells that died")
	b.Results(g.results)
	b.Pictures(g.pictures)
}

// Weights of the first cut into regions: work is where the pattern is.
const (
	deadWeight = 0.001
	liveWeight = 1
)

func (g *grid) populate(b *sim.Builder) {
	next := 0
	for row := range g.height {
		for col := range g.width {
			live := next < len(g.start) && g.start[next] == Cell{int32(col), int32(row)}
			id := sim.Add(g.kind, sim.Vec{X: float64(col) + 0.5, Y: float64(g.height-row) - 0.5}, cell{Alive: live})
			if !live {
				b.SetWeight(id, deadWeight)
				continue
			}
			next++
			b.SetWeight(id, liveWeight)
			g.wake.Init(b, id, 0, sim.None{})
		}
	}
}

// handleWake is what a cell of the pattern does at time 0, as if it had just been born.
func (g *grid) handleWake(c *sim.Context, s *cell, _ sim.None) { g.changed(c, s) }

// handleTell counts a neighbour. Notices of one instant come before decisions of that instant, by
// their class, so a decision knows all of them.
func (g *grid) handleTell(c *sim.Context, s *cell, change int8) {
	s.Neighbours += uint8(change)
	if !s.Deciding {
		s.Deciding = true
		g.decide.Schedule(c, 0, sim.None{})
	}
}

func (g *grid) handleDecide(c *sim.Context, s *cell, _ sim.None) {
	s.Deciding = false
	if g.rule.Next(s.Alive, s.Neighbours) == s.Alive {
		return
	}
	s.Alive = !s.Alive
	if s.Alive {
		g.births.Add(c, 1)
		g.population.Add(c, 1)
	} else {
		g.deaths.Add(c, 1)
		g.population.Add(c, -1)
	}
	g.changed(c, s)
}

// changed tells the neighbours. A cell decides again a generation later even if it hears nothing,
// should it not be content with the neighbours it has.
func (g *grid) changed(c *sim.Context, s *cell) {
	if c.Now() >= g.last {
		return
	}
	change := int8(-1)
	if s.Alive {
		change = 1
	}
	col, row := g.place(c.Self())
	for dy := -1; dy <= 1; dy++ {
		for dx := -1; dx <= 1; dx++ {
			if dx == 0 && dy == 0 {
				continue
			}
			if id := g.at(col+dx, row+dy); id != 0 {
				g.tell.Send(c, id, generation, change)
			}
		}
	}
	if g.rule.Next(s.Alive, s.Neighbours) != s.Alive {
		s.Deciding = true
		g.decide.Schedule(c, generation, sim.None{})
	}
}

func (g *grid) place(id sim.EntityID) (col, row int) {
	i := int(id - 1)
	return i % g.width, i / g.width
}

// at returns the cell at a place, or 0 beyond a border that does not wrap.
func (g *grid) at(col, row int) sim.EntityID {
	if g.wrapX {
		col = (col + g.width) % g.width
	}
	if g.wrapY {
		row = (row + g.height) % g.height
	}
	if col < 0 || col >= g.width || row < 0 || row >= g.height {
		return 0
	}
	return sim.EntityID(1 + row*g.width + col)
}

func (g *grid) results(f *sim.Final) (map[string]any, error) {
	p := g.population.Of(f)
	at := make(map[string]int64, len(g.report))
	for i, r := range g.report {
		if i < len(p.At) && reportTime(r) < f.End {
			at[strconv.FormatInt(r, 10)] = int64(p.At[i])
		}
	}
	return map[string]any{
		"population":    int64(p.Last),
		"population_at": at,
		"births":        int64(g.births.Of(f).Last),
		"deaths":        int64(g.deaths.Of(f).Last),
		"generation":    min(int64(f.End), int64(g.last)) / int64(generation),
		"rule":          g.rule.String(),
		"width":         g.width,
		"height":        g.height,
	}, nil
}
