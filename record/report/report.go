package report

import (
	"bytes"
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/simnode/simnode/sim"
)

// Report is what the page shows. Fields left empty leave their part of the page out.
type Report struct {
	// Title of the run; Model and Scenario are names.
	Title, Model, Scenario string
	// Facts are the summary, in this order.
	Facts []Fact
	// Results are the model's own; anything that encoding/json can write.
	Results any
	// Series are the observed series, in this order.
	Series []Series
	// End is the end that the bins of series, Rate and Load divide into equal intervals.
	End sim.Time
	// Rate is the number of events per simulated second in each bin, over all regions.
	Rate []float64
	// Load is, for each region, the number of events in each bin.
	Load [][]float64
	// RegionEvents is the number of events of each region.
	RegionEvents []uint64
	// RegionBusy is the wall time in seconds that each region spent on events.
	RegionBusy []float64
	// Map is a text picture of the partition.
	Map string
	// Pictures are the model's own.
	Pictures []sim.Picture
}

// Fact is one line of the summary.
type Fact struct{ Name, Value string }

// Series is an observed series with its statistics.
type Series struct {
	Name, Unit, Doc string
	Kind            sim.SeriesKind
	Stats           sim.Stats
}

//go:embed page.html
var page string

// Write writes the page. Results that JSON cannot hold (NaN, an infinity) are replaced by a note; an
// error comes from w alone.
func Write(w io.Writer, r Report) error {
	t, err := template.New("page").Funcs(template.FuncMap{"breaks": breaks}).Parse(page)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, newView(r)); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// breaks allows lines to break between the parts of a path.
func breaks(text string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(text), "/", "/<wbr>")) // text was escaped
}

// view is the page's content, ready for the template.
type view struct {
	Report
	Tree     *tree
	NoTree   string
	Drawings []figure
	Plots    []figure
	Loads    []figure
	Regions  []regionRow
	Stats    []seriesRow
}

// figure is a drawing with its text; Note stands in its place if it cannot be shown.
type figure struct {
	Title, Caption string
	SVG            template.HTML
	Legend         []entry
	Note           string
}

// entry explains a colour.
type entry struct {
	Colour template.CSS
	Name   string
}

type regionRow struct{ Region, Events, Share, Busy string }

// seriesRow is a line of the table of series.
type seriesRow struct{ Name, Unit, Doc, Kind, Count, Total, Mean, Deviation, Min, Median, P95, Max, Last string }

func newView(r Report) *view {
	v := &view{Report: r}
	var err error
	if v.Tree, err = newTree(r.Results); err != nil {
		v.NoTree = fmt.Sprintf("The results cannot be shown: %v.", err)
	}
	for _, p := range r.Pictures {
		v.Drawings = append(v.Drawings, drawing(p))
	}
	v.addPlots()
	v.addLoads()
	for _, s := range r.Series {
		v.Stats = append(v.Stats, describe(s))
	}
	return v
}

func drawing(p sim.Picture) figure {
	f := figure{Title: p.Title, Caption: p.Caption}
	if f.Title == "" {
		f.Title = p.Name
	}
	svg, err := inline(p.SVG)
	if err != nil {
		f.Note = fmt.Sprintf("This picture was left out: %v.", err)
		return f
	}
	f.SVG = template.HTML(svg) // every element and attribute was checked, all text escaped
	return f
}

func (v *view) plot(list *[]figure, title, caption string, svg []byte, err error) {
	f := figure{Title: title, Caption: caption, SVG: template.HTML(svg)}
	if err != nil {
		f.SVG, f.Note = "", fmt.Sprintf("There is no plot: %v.", err)
	}
	*list = append(*list, f)
}

func (v *view) addPlots() {
	if drawable(v.Rate) {
		svg, err := PlotLine(Line{Values: v.Rate}, v.End, "events per simulated second", true)
		v.plot(&v.Plots, "Event rate", "", svg, err)
	}
	for _, s := range v.Series {
		if !drawable(s.Stats.Bins) {
			continue
		}
		svg, err := PlotSeries(s, v.End)
		v.plot(&v.Plots, s.Name, s.Doc, svg, err)
	}
}

func (v *view) addLoads() {
	var total uint64
	for _, n := range v.RegionEvents {
		total += n
	}
	for i, n := range v.RegionEvents {
		row := regionRow{Region: fmt.Sprint(i), Events: group(fmt.Sprint(n)), Share: "–", Busy: "–"}
		if total > 0 {
			row.Share = fmt.Sprintf("%.1f %%", 100*float64(n)/float64(total))
		}
		if i < len(v.RegionBusy) {
			row.Busy = number(v.RegionBusy[i]) + " s"
		}
		v.Regions = append(v.Regions, row)
	}
	if len(v.RegionEvents) > 1 {
		svg, err := PlotRegions(v.RegionEvents)
		v.plot(&v.Loads, "Events by region", "", svg, err)
	}
	if len(v.Load) > 1 {
		svg, err := PlotLoad(v.Load, v.End)
		v.plot(&v.Loads, "Load by region over simulated time", "", svg, err)
		v.Loads[len(v.Loads)-1].Legend = loadLegend(len(v.Load))
	}
}

// loadLegend explains the lines of PlotLoad.
func loadLegend(regions int) (legend []entry) {
	colours := palette()
	add := func(colour int, name string) {
		c := colours[colour]
		legend = append(legend, entry{template.CSS(fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B)), name})
	}
	if regions > len(colours) {
		add(1, "largest")
		add(0, "mean")
		add(2, "smallest")
		return legend
	}
	for i := range regions {
		add(i, fmt.Sprintf("region %d", i))
	}
	return legend
}

// describe prints the statistics of a series; what it does not have is a dash.
func describe(s Series) seriesRow {
	st := s.Stats
	row := seriesRow{Name: s.Name, Unit: s.Unit, Doc: s.Doc, Kind: s.Kind.String(), Count: group(fmt.Sprint(st.Count)),
		Total: "–", Mean: "–", Deviation: "–", Min: "–", Median: "–", P95: "–", Max: "–", Last: "–"}
	switch {
	case s.Kind == sim.CounterSeries:
		row.Total = number(st.Sum)
	case s.Kind == sim.TableSeries, s.Kind == sim.SampleSeries && st.Count == 0:
		return row
	case s.Kind == sim.SampleSeries:
		row.Total, row.Median, row.P95 = number(st.Sum), number(st.Quantiles[2]), number(st.Quantiles[4])
	}
	if s.Kind == sim.CounterSeries {
		return row
	}
	row.Mean, row.Deviation = number(st.Mean), number(math.Sqrt(st.Variance))
	row.Min, row.Max, row.Last = number(st.Min), number(st.Max), number(st.Last)
	return row
}
