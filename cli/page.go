package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record/report"
	"github.com/simnode/simnode/sim"
)

// writeFiles writes the pictures, the page and last the summary.
func (j *job) writeFiles(s *summary, pictures []sim.Picture) error {
	if j.scenario.Record.Report {
		for _, p := range pictures {
			if err := j.writeFile(p.Name+".svg", p.SVG); err != nil {
				return err
			}
		}
		data, err := j.page(s, pictures)
		if err != nil {
			return err
		}
		if err := j.writeFile(pageFile, data); err != nil {
			return err
		}
	}
	data, err := s.json()
	if err != nil {
		return err
	}
	return j.writeFile(summaryFile, data)
}

// checkPictures refuses names that are no names of files, or that stand twice.
func checkPictures(pictures []sim.Picture) error {
	seen := map[string]bool{}
	for _, p := range pictures {
		if strings.Trim(p.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || p.Name == "" || seen[p.Name] {
			return fmt.Errorf("picture %q: give each picture a name of its own from a-z, 0-9 and dashes", p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

// page makes the report page.
func (j *job) page(s *summary, pictures []sim.Picture) ([]byte, error) {
	title := j.scenario.Title
	if title == "" {
		title = j.program.Model.Name + ": " + j.program.Model.Summary
	}
	r := report.Report{
		Title: title, Model: s.Model, Scenario: s.Scenario, Facts: s.facts(),
		Results: json.RawMessage(s.Results), End: j.program.End, Pictures: pictures,
	}
	for i, info := range j.program.Series {
		r.Series = append(r.Series, report.Series{Name: info.Name, Unit: info.Unit, Doc: info.Doc, Kind: info.Kind, Stats: j.recorder.Stats(i)})
	}
	r.Load, r.Rate = loads(j.outcome, j.program.End)
	for _, load := range j.outcome.Regions {
		r.RegionEvents = append(r.RegionEvents, load.Events)
		r.RegionBusy = append(r.RegionBusy, load.Busy.Seconds())
	}
	if j.outcome.Map != nil && j.outcome.Map.Len() > 1 {
		r.Map = j.outcome.Map.String()
	}
	var b bytes.Buffer
	err := report.Write(&b, r)
	return b.Bytes(), err
}

// pageBins is into how many intervals the page divides a run to show its load.
const pageBins = 288

// loads returns the events of each region in each bin, and the rate of events per simulated second. Bins
// that an interrupted run did not reach are NaN.
func loads(out *node.Outcome, end sim.Time) (load [][]float64, rate []float64) {
	width := end.Seconds() / pageBins
	rate = make([]float64, pageBins)
	for _, r := range out.Regions {
		bins := make([]float64, len(r.Bins))
		for i, n := range r.Bins {
			bins[i] = float64(n)
			rate[i] += float64(n) / width
		}
		load = append(load, bins)
	}
	for i := range rate {
		if out.End < end && float64(i)*width >= out.End.Seconds() {
			rate[i] = math.NaN()
			for _, bins := range load {
				bins[i] = math.NaN()
			}
		}
	}
	return load, rate
}
