package summary

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/simnode/simnode/sim"
)

func TestGroupReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64().Draw(t, "n")
		var back uint64
		if err := json.Unmarshal([]byte(strings.ReplaceAll(Group(n), ",", "")), &back); err != nil || back != n {
			t.Fatalf("%d: %s", n, Group(n))
		}
		for i, part := range strings.Split(Group(n), ",") {
			if len(part) > 3 || i > 0 && len(part) != 3 {
				t.Fatalf("%d: %s", n, Group(n))
			}
		}
	})
}

// Whatever a model gives as results is printed without harm, in the order of keys.
func TestTextOfAnyResults(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		list := []*rapid.Generator[any]{rapid.Float64Range(-1e300, 1e300).AsAny(), rapid.Int64().AsAny(), rapid.String().AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil)}
		if depth > 0 {
			list = append(list, rapid.SliceOfN(value(depth-1), 0, 20).AsAny(), rapid.MapOfN(rapid.String(), value(depth-1), 0, 20).AsAny())
		}
		return rapid.OneOf(list...)
	}
	results := rapid.MapOfN(rapid.String(), value(2), 0, 20)
	rapid.Check(t, func(t *rapid.T) {
		encoded, err := encodeResults(results.Draw(t, "results"))
		if err != nil {
			t.Fatal(err)
		}
		s := &Summary{Results: encoded, Outputs: []string{}}
		once, err := s.Text()
		if err != nil || !utf8.Valid(once) {
			t.Fatalf("%v: %q", err, once)
		}
		if again, _ := s.Text(); !bytes.Equal(once, again) {
			t.Fatal("two texts of one summary differ")
		}
	})
}

// What Parse reads of a summary is what was written.
func TestParseReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := sim.Time(rapid.Int64Range(0, 1<<52).Draw(t, "end"))
		s := &Summary{Scenario: rapid.String().Draw(t, "name"), Seed: rapid.Uint64().Draw(t, "seed"), EndTime: end.Seconds(),
			Interrupted: rapid.Bool().Draw(t, "interrupted"), Outputs: []string{"a"}, Results: json.RawMessage("{}")}
		once, err := s.JSON()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(once)
		if err != nil {
			t.Fatal(err)
		}
		if back.End != end {
			t.Fatalf("end %v, not %v", back.End, end)
		}
		if again, err := back.JSON(); err != nil || !json.Valid(again) || !bytes.Equal(bytes.ReplaceAll(again, []byte("\n"), nil), bytes.ReplaceAll(once, []byte("\n"), nil)) {
			t.Fatalf("%v: %s, not %s", err, again, once)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"end_time_s": 1e300, "results": null}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data)
		if err != nil {
			return
		}
		if _, err := s.JSON(); err != nil {
			t.Error(err)
		}
		if _, err := s.Text(); err != nil {
			t.Error(err)
		}
	})
}
