package summary

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
)

// The files that a run writes last.
const (
	// File is the summary.
	File = "summary.json"
	// Page is the report page.
	Page = "report.html"
)

// Run is a run that has ended, with its recording finished.
type Run struct {
	Scenario *scenario.Scenario
	// Name of the scenario as the user gave it.
	Name string
	// Dir is the folder of the recording's files, as the summary tells it; Path is where it is, Dir if
	// empty.
	Dir, Path string
	Level     record.Level
	Regions   int
	// Workers of all nodes.
	Workers  int
	Recorder *record.Recorder
	Outcome  *node.Outcome
	// Wall is how long the events took.
	Wall time.Duration
	// From is the simulated time at which the process that tells this went on with the run: of what came before,
	// the load of the regions is not known.
	From sim.Time
}

// Write asks the model for its results and pictures, writes the files that complete the folder, if Level
// wants any, and returns the summary.
func (r Run) Write() (*Summary, error) {
	results, pictures, err := modelResults(r.Scenario.Program, r.Outcome.Final(r.Recorder))
	if err != nil {
		return nil, err
	}
	s, err := r.summary(results, pictures)
	if err != nil || r.Level < record.Summary {
		return s, err
	}
	return s, r.writeFiles(s, pictures)
}

func (r Run) summary(results map[string]any, pictures []sim.Picture) (*Summary, error) {
	out, program := r.Outcome, r.Scenario.Program
	encoded, err := encodeResults(results)
	if err != nil {
		return nil, fmt.Errorf("model %s: its results cannot be written as JSON: %w", program.Model.Name, err)
	}
	s := &Summary{
		Scenario: r.Name, Model: program.Model.Name, Seed: program.Seed, Regions: r.Regions, Workers: r.Workers,
		EndTime: out.End.Seconds(), Interrupted: out.Interrupted, Events: out.Events, Entities: out.Entities,
		Digest: fmt.Sprintf("%016x", out.Digest), Wall: r.Wall.Seconds(), PeakRSS: peakRSS(),
		Outputs: []string{}, Results: encoded, End: out.End, Planned: program.End,
	}
	if r.Wall > 0 {
		s.EventsPerSec = math.Round(float64(out.Events) / r.Wall.Seconds())
	}
	for _, name := range r.fileNames(pictures) {
		s.Outputs = append(s.Outputs, filepath.Join(r.Dir, name))
	}
	return s, nil
}

// fileNames lists the files of the run in the order in which they are completed.
func (r Run) fileNames(pictures []sim.Picture) []string {
	names := r.Recorder.Outputs()
	if r.Level < record.Summary {
		return names
	}
	if r.Scenario.Record.Report {
		for _, p := range pictures {
			names = append(names, p.Name+".svg")
		}
		names = append(names, Page)
	}
	return append(names, File)
}

// encodeResults writes a model's results; a model without any has an empty object.
func encodeResults(results map[string]any) (json.RawMessage, error) {
	if results == nil {
		return json.RawMessage("{}"), nil
	}
	return Encode(results)
}

// writeFiles writes the pictures, the page and last the summary.
func (r Run) writeFiles(s *Summary, pictures []sim.Picture) error {
	if r.Scenario.Record.Report {
		for _, p := range pictures {
			if err := r.writeFile(p.Name+".svg", p.SVG); err != nil {
				return err
			}
		}
		data, err := r.page(s, pictures)
		if err != nil {
			return err
		}
		if err := r.writeFile(Page, data); err != nil {
			return err
		}
	}
	data, err := s.JSON()
	if err != nil {
		return err
	}
	return r.writeFile(File, data)
}

// writeFile writes a file of the output folder, under another name until it is complete.
func (r Run) writeFile(name string, data []byte) error {
	dir := r.Path
	if dir == "" {
		dir = r.Dir
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".partial", data, 0o666); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(path+".partial", path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// modelResults asks the model for its results and pictures; a panic there is an error like any other.
func modelResults(p *sim.Program, f *sim.Final) (results map[string]any, pictures []sim.Picture, err error) {
	what := "results"
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("model %s: its %s failed with a panic: %v", p.Model.Name, what, v)
		}
	}()
	if results, err = p.Results(f); err != nil {
		return nil, nil, fmt.Errorf("model %s: its results failed: %w", p.Model.Name, err)
	}
	what = "pictures"
	if pictures, err = p.Pictures(f); err == nil {
		err = checkPictures(pictures)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("model %s: its pictures failed: %w", p.Model.Name, err)
	}
	return results, pictures, nil
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
