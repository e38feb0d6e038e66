package cli

import (
	"bytes"
	"encoding/json"

	"github.com/simnode/simnode/record/report"
	"github.com/simnode/simnode/sim"
)

// writeFiles writes the page and the summary.
func (j *job) writeFiles(s *summary, pictures []sim.Picture) error {
	if j.scenario.Record.Report {
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
