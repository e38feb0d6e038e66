package phold

import (
	"bytes"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/simnode/simnode/sim"
)

// pictures draws how many entities handled how many events.
func pictures(f *sim.Final, k sim.Kind[State]) ([]sim.Picture, error) {
	var counts plotter.Values
	sim.Each(f, k, func(_ sim.EntityID, s *State) { counts = append(counts, float64(s.Count)) })
	p := plot.New()
	p.X.Label.Text = "events handled"
	p.Y.Label.Text = "entities"
	h, err := plotter.NewHist(counts, 40)
	if err != nil {
		return nil, err
	}
	h.FillColor = color.RGBA{R: 0x33, G: 0x77, B: 0xaa, A: 0xff}
	h.LineStyle.Width = vg.Points(0.3)
	p.Add(h)
	canvas := vgsvg.New(18*vg.Centimeter, 9*vg.Centimeter)
	p.Draw(draw.New(canvas))
	var buf bytes.Buffer
	if _, err := canvas.WriteTo(&buf); err != nil {
		return nil, err
	}
	return []sim.Picture{{
		Name: "events-per-entity", Title: "Events per entity",
		Caption: "How many entities handled how many events.", SVG: buf.Bytes(),
	}}, nil
}
