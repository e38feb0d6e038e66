package summary

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/simnode/simnode/record/report"
	"github.com/simnode/simnode/sim"
)

// Summary is what is told about a run. Its JSON is the output of -o json and the file summary.json; the
// keys and their order do not change.
type Summary struct {
	Scenario string `json:"scenario"`
	Model    string `json:"model"`
	Seed     uint64 `json:"seed"`
	Regions  int    `json:"regions"`
	// Workers of all nodes.
	Workers int `json:"workers"`
	// EndTime is the simulated time that was reached, in seconds.
	EndTime     float64 `json:"end_time_s"`
	Interrupted bool    `json:"interrupted,omitempty"`
	Events      uint64  `json:"events"`
	Entities    int     `json:"entities"`
	// Digest of all events handled and all final states: 16 hexadecimal digits.
	Digest string `json:"digest"`
	// Wall is how long the events took, without reading the scenario and writing the report.
	Wall         float64 `json:"wall_s"`
	EventsPerSec float64 `json:"events_per_s"`
	// PeakRSS is the most memory that the process held which wrote this.
	PeakRSS int64           `json:"peak_rss_bytes"`
	Outputs []string        `json:"outputs"`
	Results json.RawMessage `json:"results"`

	// End is EndTime in ticks.
	End sim.Time `json:"-"`
	// Planned is the end that the scenario asks for, or 0 where that is not known.
	Planned sim.Time `json:"-"`
}

// Parse reads the JSON of a summary.
func Parse(data []byte) (*Summary, error) {
	s := &Summary{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("this is no summary of a run: %w", err)
	}
	s.End = sim.Time(sim.FromSeconds(max(s.EndTime, 0)))
	if s.Outputs == nil {
		s.Outputs = []string{}
	}
	if len(s.Results) == 0 {
		s.Results = json.RawMessage("{}")
	}
	return s, nil
}

// Encode writes v as JSON that ends in a new line, with < and > as they are.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

// JSON returns the summary as one JSON object that ends in a new line.
func (s *Summary) JSON() ([]byte, error) { return Encode(s) }

// facts are the summary for people, without results and outputs.
func (s *Summary) facts() []report.Fact {
	end := s.End.String()
	if s.Interrupted {
		end += " (interrupted)"
		if s.Planned > 0 {
			end = fmt.Sprintf("%v (interrupted; the scenario ends at %v)", s.End, s.Planned)
		}
	}
	return []report.Fact{
		{Name: "scenario", Value: s.Scenario},
		{Name: "model", Value: s.Model},
		{Name: "seed", Value: strconv.FormatUint(s.Seed, 10)},
		{Name: "regions", Value: strconv.Itoa(s.Regions)},
		{Name: "workers", Value: strconv.Itoa(s.Workers)},
		{Name: "end", Value: end},
		{Name: "events", Value: Group(s.Events)},
		{Name: "entities", Value: Group(uint64(s.Entities))},
		{Name: "digest", Value: s.Digest},
		{Name: "wall", Value: time.Duration(s.Wall * float64(time.Second)).Round(time.Millisecond).String()},
		{Name: "rate", Value: Group(uint64(s.EventsPerSec)) + " events/s"},
		{Name: "peak RSS", Value: megabytes(s.PeakRSS)},
	}
}

func megabytes(n int64) string {
	if n <= 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// Group writes a number with commas between thousands.
func Group(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Print writes the summary in the given format.
func (s *Summary) Print(w io.Writer, format string) error {
	text := s.Text
	if format == "json" {
		text = s.JSON
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

// Text returns the summary for people.
func (s *Summary) Text() ([]byte, error) {
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
