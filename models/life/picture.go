package life

import (
	"bytes"
	"fmt"
	"strings"

	svg "github.com/ajstarks/svgo"

	"github.com/simnode/simnode/sim"
)

const (
	// unit is the side of a cell in the picture.
	unit = 10
	// maxDrawn bounds the size of the picture.
	maxDrawn = 50_000
)

func (g *grid) pictures(f *sim.Final) ([]sim.Picture, error) {
	var live []Cell
	sim.Each(f, g.kind, func(id sim.EntityID, s *cell) {
		if s.Alive {
			col, row := g.place(id)
			live = append(live, Cell{int32(col), int32(row)})
		}
	})
	last := min(int64(f.End), int64(g.last)) / int64(generation)
	start := g.picture("life-start", 0, g.start, f.Regions)
	return []sim.Picture{start, g.picture("life", last, live, f.Regions)}, nil
}

// picture draws live cells, by row and column, and the borders of the regions.
func (g *grid) picture(name string, n int64, live []Cell, regions []sim.Box) sim.Picture {
	var buf bytes.Buffer
	s := svg.New(&buf)
	x, y, w, h := g.window(live)
	edge := max(w, h)/400 + 1
	s.Startraw(fmt.Sprintf(`viewBox="%d %d %d %d"`, x, y, w, h), `width="100%"`)
	s.Rect(x, y, w, h, `fill="#dfe3e6"`)
	s.Rect(0, 0, g.width*unit, g.height*unit, `fill="#ffffff"`, `stroke="#9aa7b0"`, fmt.Sprintf(`stroke-width="%d"`, edge))
	if len(regions) > 1 {
		s.Path(g.borders(regions), `fill="none"`, `stroke="#b0452c"`, `stroke-opacity="0.6"`, fmt.Sprintf(`stroke-width="%d"`, edge),
			fmt.Sprintf(`stroke-dasharray="%d"`, 5*edge))
	}
	// A thin edge keeps single cells of a large grid visible.
	s.Path(squares(live[:min(len(live), maxDrawn)]), `fill="#1b3a5c"`, `stroke="#1b3a5c"`, fmt.Sprintf(`stroke-width="%d"`, max(w, h)/700))
	s.End()
	caption := fmt.Sprintf("%d live cells on a grid of %d x %d, rule %s; the picture shows the part that lives.", len(live), g.width, g.height, g.rule)
	if len(live) > maxDrawn {
		caption += fmt.Sprintf(" The first %d are drawn.", maxDrawn)
	}
	return sim.Picture{
		Name: name, Title: fmt.Sprintf("Generation %d", n), Caption: caption,
		SVG: buf.Bytes()[bytes.Index(buf.Bytes(), []byte("<svg")):],
	}
}

// window is the part of the grid that the picture shows, in its units: the live cells with a margin,
// or all if none lives.
func (g *grid) window(live []Cell) (x, y, w, h int) {
	if len(live) == 0 {
		return 0, 0, g.width * unit, g.height * unit
	}
	low, high := live[0], live[0]
	for _, c := range live {
		low.Col, high.Col = min(low.Col, c.Col), max(high.Col, c.Col)
		low.Row, high.Row = min(low.Row, c.Row), max(high.Row, c.Row)
	}
	margin := 3 + int(max(high.Col-low.Col, high.Row-low.Row))/20
	w = (int(high.Col-low.Col) + 1 + 2*margin) * unit
	h = (int(high.Row-low.Row) + 1 + 2*margin) * unit
	return (int(low.Col) - margin) * unit, (int(low.Row) - margin) * unit, w, h
}

// squares is a path of one rectangle for each run of cells in a row.
func squares(live []Cell) string {
	var b strings.Builder
	for i := 0; i < len(live); {
		n := 1
		for i+n < len(live) && live[i+n] == (Cell{live[i].Col + int32(n), live[i].Row}) {
			n++
		}
		fmt.Fprintf(&b, "M%d %dh%dv%dh%dz", int(live[i].Col)*unit, int(live[i].Row)*unit, n*unit, unit, -n*unit)
		i += n
	}
	return b.String()
}

// borders is a path around each region; rows grow downwards, y upwards.
func (g *grid) borders(regions []sim.Box) string {
	var b strings.Builder
	for _, r := range regions {
		fmt.Fprintf(&b, "M%.0f %.0fH%.0fV%.0fH%.0fz", r.Min.X*unit, (float64(g.height)-r.Min.Y)*unit,
			r.Max.X*unit, (float64(g.height)-r.Max.Y)*unit, r.Min.X*unit)
	}
	return b.String()
}
