package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/record/report"
	"github.com/simnode/simnode/sim"
)

const (
	summaryFile = "summary.json"
	pageFile    = "report.html"
)

// summary is what is told about a run. Its JSON is the output of -o json and the file summary.json; the
// keys and their order do not change.
type summary struct {
	Scenario string `json:"scenario"`
	Model    string `json:"model"`
	Seed     uint64 `json:"seed"`
	Regions  int    `json:"regions"`
	Workers  int    `json:"workers"`
	// EndTime is the simulated time that was reached, in seconds.
	EndTime     float64 `json:"end_time_s"`
	Interrupted bool    `json:"interrupted,omitempty"`
	Events      uint64  `json:"events"`
	Entities    int     `json:"entities"`
	// Digest of all events handled and all final states: 16 hexadecimal digits.
	Digest string `json:"digest"`
	// Wall is how long the events took, without reading the scenario and writing the report.
	Wall         float64         `json:"wall_s"`
	EventsPerSec float64         `json:"events_per_s"`
	PeakRSS      int64           `json:"peak_rss_bytes"`
	Outputs      []string        `json:"outputs"`
	Results      json.RawMessage `json:"results"`

	end sim.Time
	// planned is the end that the scenario asks for.
	planned sim.Time
}

func (j *job) summary(results map[string]any, pictures []sim.Picture) (*summary, error) {
	out := j.outcome
	encoded, err := encodeResults(results)
	if err != nil {
		return nil, fmt.Errorf("model %s: its results cannot be written as JSON: %w", j.program.Model.Name, err)
	}
	s := &summary{
		Scenario: j.flags.file, Model: j.program.Model.Name, Seed: j.program.Seed,
		Regions: j.options.Regions, Workers: j.options.Workers,
		EndTime: out.End.Seconds(), Interrupted: out.Interrupted, Events: out.Events, Entities: out.Entities,
		Digest: fmt.Sprintf("%016x", out.Digest), Wall: j.wall.Seconds(), PeakRSS: peakRSS(),
		Outputs: []string{}, Results: encoded, end: out.End, planned: j.program.End,
	}
	if j.wall > 0 {
		s.EventsPerSec = math.Round(float64(out.Events) / j.wall.Seconds())
	}
	for _, name := range j.fileNames(pictures) {
		s.Outputs = append(s.Outputs, filepath.Join(j.dir, name))
	}
	return s, nil
}

// fileNames lists the files of the run in the order in which they are completed.
func (j *job) fileNames(pictures []sim.Picture) []string {
	names := j.recorder.Outputs()
	if j.level < record.Summary {
		return names
	}
	if j.scenario.Record.Report {
		for _, p := range pictures {
			names = append(names, p.Name+".svg")
		}
		names = append(names, pageFile)
	}
	return append(names, summaryFile)
}

// encodeResults writes a model's results; a model without any has an empty object.
func encodeResults(results map[string]any) (json.RawMessage, error) {
	if results == nil {
		return json.RawMessage("{}"), nil
	}
	return encode(results)
}

// encode writes v as JSON that ends in a new line, with < and > as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

// json returns the summary as one JSON object that ends in a new line.
func (s *summary) json() ([]byte, error) { return encode(s) }

// facts are the summary for people, without results and outputs.
func (s *summary) facts() []report.Fact {
	end := s.end.String()
	if s.Interrupted {
		end += fmt.Sprintf(" (interrupted; the scenario ends at %v)", s.planned)
	}
	return []report.Fact{
		{Name: "scenario", Value: s.Scenario},
		{Name: "model", Value: s.Model},
		{Name: "seed", Value: strconv.FormatUint(s.Seed, 10)},
		{Name: "regions", Value: strconv.Itoa(s.Regions)},
		{Name: "workers", Value: strconv.Itoa(s.Workers)},
		{Name: "end", Value: end},
		{Name: "events", Value: group(s.Events)},
		{Name: "entities", Value: group(uint64(s.Entities))},
		{Name: "digest", Value: s.Digest},
		{Name: "wall", Value: time.Duration(s.Wall * float64(time.Second)).Round(time.Millisecond).String()},
		{Name: "rate", Value: group(uint64(s.EventsPerSec)) + " events/s"},
		{Name: "peak RSS", Value: megabytes(s.PeakRSS)},
	}
}

func megabytes(n int64) string {
	if n <= 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// group writes a number with commas between thousands.
func group(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// print writes the summary in the given format.
func (s *summary) print(w io.Writer, format string) error {
	text := s.text
	if format == "json" {
		text = s.json
	}
	data, err := text()
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}

// text returns the summary for people.
func (s *summary) text() ([]byte, error) {
	var b bytes.Buffer
	for _, f := range s.facts() {
		fmt.Fprintf(&b, "%-10s %s\n", f.Name, f.Value)
	}
	var results any
	dec := json.NewDecoder(bytes.NewReader(s.Results))
	dec.UseNumber()
	if err := dec.Decode(&results); err != nil {
		return nil, err
	}
	if m, ok := results.(map[string]any); ok && len(m) > 0 {
		fmt.Fprintln(&b, "results")
		printTree(&b, "  ", m)
	}
	if len(s.Outputs) > 0 {
		fmt.Fprintln(&b, "outputs")
		for _, o := range s.Outputs {
			fmt.Fprintf(&b, "  %s\n", o)
		}
	}
	return b.Bytes(), nil
}

// shownEntries is how many entries of a list or map the text shows; the JSON has all.
const shownEntries = 12

// printTree prints decoded JSON, the keys of a map in order.
func printTree(b *bytes.Buffer, indent string, m map[string]any) {
	keys := sortedKeys(m)
	width := 0
	for _, k := range keys[:min(len(keys), shownEntries)] {
		if _, section := m[k].(map[string]any); !section {
			width = max(width, len(k))
		}
	}
	for i, k := range keys {
		if i == shownEntries {
			fmt.Fprintf(b, "%s... %d more\n", indent, len(keys)-i)
			return
		}
		if sub, ok := m[k].(map[string]any); ok && len(sub) > 0 {
			fmt.Fprintf(b, "%s%s\n", indent, k)
			printTree(b, indent+"  ", sub)
			continue
		}
		fmt.Fprintf(b, "%s%-*s  %s\n", indent, width, k, inline(m[k]))
	}
}

// sortedKeys returns the keys of a map in order: numbers by value, before words by spelling.
func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool {
		a, errA := strconv.ParseInt(keys[i], 10, 64)
		b, errB := strconv.ParseInt(keys[j], 10, 64)
		switch {
		case errA == nil && errB == nil && a != b:
			return a < b
		case (errA == nil) != (errB == nil):
			return errA == nil
		}
		return keys[i] < keys[j]
	})
	return keys
}

// inline prints a value in a line.
func inline(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case json.Number:
		return number(v)
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case []any:
		var parts []string
		for i, x := range v {
			if i == shownEntries {
				parts = append(parts, fmt.Sprintf("... %d more", len(v)-i))
				break
			}
			parts = append(parts, inline(x))
		}
		return strings.Join(parts, ", ")
	case map[string]any:
		var parts []string
		for _, k := range sortedKeys(v) {
			parts = append(parts, k+" "+inline(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v)
}

// number prints whole numbers in full and others with six digits.
func number(n json.Number) string {
	if _, err := n.Int64(); err == nil {
		return n.String()
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	return strconv.FormatFloat(f, 'g', 6, 64)
}

// writeFile writes a file of the output folder, under another name until it is complete.
func (j *job) writeFile(name string, data []byte) error {
	path := filepath.Join(j.dir, name)
	if err := os.WriteFile(path+".partial", data, 0o666); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(path+".partial", path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
