package phold

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/simnode/simnode/sim"
)

// pictures draws how many entities handled how many events.
func pictures(f *sim.Final, k sim.Kind[State]) ([]sim.Picture, error) {
	bars, each := histogram(f, k)
	p := plot.New()
	p.X.Label.Text = "events handled"
	p.Y.Label.Text = "entities"
	p.X.Tick.Marker, p.Y.Tick.Marker = wholeTicks{}, wholeTicks{}
	p.Add(&plotter.Histogram{Bins: bars, Width: float64(each), FillColor: color.RGBA{R: 0x33, G: 0x77, B: 0xaa, A: 0xff},
		LineStyle: draw.LineStyle{Color: color.Black, Width: vg.Points(0.3)}})
	p.Y.Min, p.Y.Max = 0, p.Y.Max*1.05
	canvas := vgsvg.New(18*vg.Centimeter, 9*vg.Centimeter)
	p.Draw(draw.New(canvas))
	var buf bytes.Buffer
	if _, err := canvas.WriteTo(&buf); err != nil {
		return nil, err
	}
	caption := "How many entities handled how many events."
	if each > 1 {
		caption += fmt.Sprintf(" Each bar stands for %d numbers of events.", each)
	}
	return []sim.Picture{{Name: "events-per-entity", Title: "Events per entity", Caption: caption, SVG: buf.Bytes()}}, nil
}

// histogram counts the entities by the events that they handled, in at most 40 bars, each for the same
// whole number of counts and centred on them.
func histogram(f *sim.Final, k sim.Kind[State]) (bars []plotter.HistogramBin, each int64) {
	const most = 40
	least, greatest := int64(math.MaxInt64), int64(0)
	sim.Each(f, k, func(_ sim.EntityID, s *State) { least, greatest = min(least, s.Count), max(greatest, s.Count) })
	least = min(least, greatest)
	each = (greatest-least)/most + 1
	for from := least; from <= greatest; from += each {
		bars = append(bars, plotter.HistogramBin{Min: float64(from) - 0.5, Max: float64(from+each) - 0.5})
	}
	sim.Each(f, k, func(_ sim.EntityID, s *State) { bars[(s.Count-least)/each].Weight++ })
	return bars, each
}

// wholeTicks are the default ticks at whole numbers.
type wholeTicks struct{}

func (wholeTicks) Ticks(least, most float64) []plot.Tick {
	var whole []plot.Tick
	for _, t := range (plot.DefaultTicks{}).Ticks(least, most) {
		if t.Value == math.Trunc(t.Value) {
			whole = append(whole, t)
		}
	}
	return whole
}
