package summary

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record/report"
	"github.com/simnode/simnode/sim"
)

// page makes the report page.
func (r Run) page(s *Summary, pictures []sim.Picture) ([]byte, error) {
	title, program := r.Scenario.Title, r.Scenario.Program
	if title == "" {
		title = program.Model.Name + ": " + program.Model.Summary
	}
	doc := report.Report{
		Title: title, Model: s.Model, Scenario: s.Scenario, Facts: s.facts(),
		Results: json.RawMessage(s.Results), End: program.End, Pictures: pictures,
	}
	for i, info := range program.Series {
		doc.Series = append(doc.Series, report.Series{Name: info.Name, Unit: info.Unit, Doc: info.Doc, Kind: info.Kind, Stats: r.Recorder.Stats(i)})
	}
	doc.Load, doc.Rate = loads(r.Outcome, r.From, program.End)
	for _, load := range r.Outcome.Regions {
		doc.RegionEvents = append(doc.RegionEvents, load.Events)
		doc.RegionBusy = append(doc.RegionBusy, load.Busy.Seconds())
	}
	if r.Outcome.Map != nil && r.Outcome.Map.Len() > 1 {
		doc.Map = r.Outcome.Map.String()
	}
	var b bytes.Buffer
	err := report.Write(&b, doc)
	return b.Bytes(), err
}

// PageBins is into how many intervals the page divides a run to show its load; see node.Options.Bins.
const PageBins = 288

// loads returns the events of each region in each bin, and the rate of events per simulated second. Bins
// that an interrupted run did not reach, and those that began before from, are NaN.
func loads(out *node.Outcome, from, end sim.Time) (load [][]float64, rate []float64) {
	width := end.Seconds() / PageBins
	rate = make([]float64, PageBins)
	for _, r := range out.Regions {
		bins := make([]float64, len(r.Bins))
		for i, n := range r.Bins {
			bins[i] = float64(n)
			rate[i] += float64(n) / width
		}
		load = append(load, bins)
	}
	for i := range rate {
		late := out.End < end && float64(i)*width >= out.End.Seconds()
		if late || float64(i)*width < from.Seconds() {
			rate[i] = math.NaN()
			for _, bins := range load {
				bins[i] = math.NaN()
			}
		}
	}
	return load, rate
}
