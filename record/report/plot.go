package report

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"strings"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/simnode/simnode/sim"
)

const (
	// Size of a plot in points; the page stretches it to its column.
	plotWidth  vg.Length = 520
	plotHeight vg.Length = 190
	// maxSteps bounds the size of a line: more bins are averaged together.
	maxSteps = 720
	// maxBars is how many regions a bar chart shows.
	maxBars = 1024
	// largest value that is drawn; beyond it differences of axes lose their meaning.
	largest = 1e200
)

// palette returns the colours of lines, told apart by every common sort of colour vision and legible
// on white and on black.
func palette() []color.NRGBA {
	return []color.NRGBA{
		{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
		{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x94, 0x6c, 0x3d, 0xff}, {0x8a, 0x8a, 0x8a, 0xff},
	}
}

// ink and faint stand for the page's own colours, which differ between light and dark.
func ink() color.NRGBA   { return color.NRGBA{0x12, 0x34, 0x56, 0xff} }
func faint() color.NRGBA { return color.NRGBA{0x65, 0x43, 0x21, 0xff} }

// Line is a series over time: the values of equal intervals, NaN where there is none.
type Line struct {
	Values []float64
	// Colour is an index into the palette.
	Colour int
}

// drawable reports whether there is a value to draw.
func drawable(values []float64) bool {
	for _, v := range values {
		if !math.IsNaN(v) && math.Abs(v) <= largest {
			return true
		}
	}
	return false
}

// PlotSeries draws a series over simulated time up to end.
func PlotSeries(s Series, end sim.Time) ([]byte, error) {
	label := s.Unit
	switch s.Kind {
	case sim.CounterSeries:
		label = join(s.Unit, "per "+binWidth(len(s.Stats.Bins), end))
	case sim.TableSeries:
		label = "rows per " + binWidth(len(s.Stats.Bins), end)
	case sim.GaugeSeries:
		label = join(s.Unit, "(average)")
	case sim.SampleSeries:
		label = join(s.Unit, "(mean)")
	}
	zero := s.Kind == sim.CounterSeries || s.Kind == sim.TableSeries
	return PlotLine(Line{Values: s.Stats.Bins}, end, label, zero)
}

func join(unit, what string) string { return strings.TrimSpace(unit + " " + what) }

// binWidth prints the length of one of n bins of [0, end).
func binWidth(n int, end sim.Time) string {
	return sim.Duration(math.Round(float64(end) / float64(max(n, 1)))).String()
}

// PlotLine draws one line over simulated time; label names the quantity and its unit. With zero the
// axis begins there.
func PlotLine(l Line, end sim.Time, label string, zero bool) ([]byte, error) {
	return plotLines([]Line{l}, end, label, zero)
}

// PlotLoad draws the events of each region over simulated time. Of more regions than there are
// colours it draws the largest, the mean and the smallest.
func PlotLoad(load [][]float64, end sim.Time) ([]byte, error) {
	var lines []Line
	bins := 0
	for i, values := range load {
		lines = append(lines, Line{values, i})
		bins = max(bins, len(values))
	}
	if len(load) > len(palette()) {
		lines = envelope(load, bins)
	}
	return plotLines(lines, end, "events per "+binWidth(bins, end), true)
}

// envelope returns the largest, mean and smallest of many lines.
func envelope(load [][]float64, bins int) []Line {
	top, mean, bottom := make([]float64, bins), make([]float64, bins), make([]float64, bins)
	for i := range bins {
		top[i], mean[i], bottom[i] = math.Inf(-1), math.NaN(), math.Inf(1)
		total, n := 0.0, 0
		for _, values := range load {
			if i < len(values) && !math.IsNaN(values[i]) {
				top[i], bottom[i] = max(top[i], values[i]), min(bottom[i], values[i])
				total, n = total+values[i], n+1
			}
		}
		if n > 0 {
			mean[i] = total / float64(n)
		}
	}
	return []Line{{top, 1}, {mean, 0}, {bottom, 2}}
}

func plotLines(lines []Line, end sim.Time, label string, zero bool) ([]byte, error) {
	unit := timeUnitOf(end)
	p := newPlot("simulated time ("+unit.name+")", label)
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		for _, run := range steps(thin(l.Values), end.Seconds()/unit.seconds) {
			for _, xy := range run {
				low, high = min(low, xy.Y), max(high, xy.Y)
			}
			line, err := plotter.NewLine(run)
			if err != nil {
				return nil, err
			}
			colours := palette()
			line.LineStyle = draw.LineStyle{Color: colours[l.Colour%len(colours)], Width: vg.Points(1.4)}
			p.Add(line)
		}
	}
	if low > high {
		return nil, errors.New("there is no value that can be drawn")
	}
	p.Y.Min, p.Y.Max = valueRange(low, high, zero)
	p.X.Min, p.X.Max = 0, max(end.Seconds()/unit.seconds, math.SmallestNonzeroFloat32)
	p.X.Tick.Marker = unit.ticker()
	return render(p)
}

// valueRange widens the range of the values to that of the axis.
func valueRange(low, high float64, zero bool) (float64, float64) {
	if zero || low > 0 && low < high/2 {
		low, high = min(low, 0), max(high, 0)
	}
	pad := (high - low) * 0.05
	if pad == 0 {
		pad = max(math.Abs(high)*0.05, 1)
		if low >= 0 && low-pad < 0 {
			return 0, high + pad
		}
	}
	if low != 0 {
		low -= pad
	}
	return low, high + pad
}

// thin averages neighbouring values until there are at most maxSteps.
func thin(values []float64) []float64 {
	if len(values) <= maxSteps {
		return values
	}
	out := make([]float64, maxSteps)
	for i := range out {
		total, n := 0.0, 0
		for _, v := range values[i*len(values)/maxSteps : (i+1)*len(values)/maxSteps] {
			if !math.IsNaN(v) {
				total, n = total+v, n+1
			}
		}
		out[i] = total / float64(n) // NaN if there was none
	}
	return out
}

// steps turns the values of equal intervals of [0, length) into lines that are level within each
// interval and broken where there is no value.
func steps(values []float64, length float64) (runs []plotter.XYs) {
	var run plotter.XYs
	for i, v := range values {
		if math.IsNaN(v) || math.Abs(v) > largest {
			if len(run) > 0 {
				runs = append(runs, run)
			}
			run = nil
			continue
		}
		n := float64(len(values))
		run = append(run, plotter.XY{X: length * float64(i) / n, Y: v}, plotter.XY{X: length * float64(i+1) / n, Y: v})
	}
	if len(run) > 0 {
		runs = append(runs, run)
	}
	return runs
}

// PlotRegions draws a bar for the events of each region.
func PlotRegions(events []uint64) ([]byte, error) {
	if len(events) == 0 || len(events) > maxBars {
		return nil, fmt.Errorf("%d regions: a bar chart shows 1 to %d", len(events), maxBars)
	}
	values := make(plotter.Values, len(events))
	for i, n := range events {
		values[i] = float64(n)
	}
	bars, err := plotter.NewBarChart(values, plotWidth*0.8/vg.Length(len(events)+1))
	if err != nil {
		return nil, err
	}
	bars.Color, bars.LineStyle.Width = palette()[0], 0
	p := newPlot("region", "events")
	p.Add(bars)
	p.X.Min, p.X.Max = -0.5, float64(len(events))-0.5
	p.X.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick { return ticks(max(low, 0), high, max(1, niceStep(high/12))) })
	p.Y.Min, p.Y.Max = valueRange(0, p.Y.Max, true)
	return render(p)
}

// newPlot returns an empty plot in the style of the page.
func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Label.Text, p.Y.Label.Text = printable(x), printable(y)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color, axis.Tick.Color = ink(), ink()
		axis.Label.TextStyle.Color, axis.Tick.Label.Color = ink(), ink()
		axis.Label.TextStyle.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: 10}
		axis.Tick.Label.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: 9}
		axis.Width, axis.Tick.Width = vg.Points(0.6), vg.Points(0.6)
		axis.Padding = 0
	}
	p.Y.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick { return ticks(low, high, niceStep((high-low)/6)) })
	grid := plotter.NewGrid()
	grid.Horizontal = draw.LineStyle{Color: faint(), Width: vg.Points(0.5)}
	grid.Vertical = grid.Horizontal
	p.Add(grid)
	return p
}

// printable drops what XML cannot hold and shortens what would not fit.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > 60 {
		return string(runes[:59]) + "…"
	}
	return s
}

// render draws the plot as an svg element that takes its text and grid colours from the page.
func render(p *plot.Plot) ([]byte, error) {
	canvas := vgsvg.New(plotWidth, plotHeight)
	p.Draw(draw.Crop(draw.New(canvas), 2, -8, 2, -6))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, err
	}
	svg := strings.NewReplacer(
		"#123456", "var(--ink,#222222)",
		"#654321", "var(--grid,#dddddd)",
		"font-family:Liberation Sans", "font-family:Liberation Sans,Arial,Helvetica,sans-serif",
	).Replace(b.String())
	out, err := inline([]byte(svg))
	return []byte(out), err
}
