package record

import (
	"fmt"

	"github.com/simnode/simnode/sim"
)

// Level says how much of a run is written to files.
type Level uint8

// The levels; each writes what the ones before it write and more.
const (
	// Off writes nothing and makes no folder.
	Off Level = iota
	// Summary writes nothing here either; the folder is made for the caller's own summary.
	Summary
	// Statistical writes the statistics of each series, the timeline and the tables.
	Statistical
	// Raw writes every event as well.
	Raw
)

// Levels returns the names of all levels in their order.
func Levels() []string { return []string{"off", "summary", "statistical", "raw"} }

// String returns the name of the level.
func (l Level) String() string {
	if names := Levels(); int(l) < len(names) {
		return names[l]
	}
	return fmt.Sprintf("level-%d", uint8(l))
}

// ParseLevel reads the name of a level.
func ParseLevel(text string) (Level, error) {
	for i, name := range Levels() {
		if name == text {
			return Level(i), nil
		}
	}
	return Off, fmt.Errorf("recording level %q: use off, summary, statistical or raw", text)
}

// Options say what to record and where.
type Options struct {
	// Level of detail of the files.
	Level Level
	// CSV and Parquet choose the formats of the files; with neither they are CSV.
	CSV, Parquet bool
	// Dir is the folder of the files. It is made if it does not exist.
	Dir string
	// Bins is into how many equal intervals the run is cut for series over time; 0 means 288, which
	// are five minutes of a day.
	Bins int
}

const (
	defaultBins = 288
	maxBins     = 1 << 20
	// keptRows is how many rows of each table Rows gives back (sim.Measured promises 100,000).
	keptRows = 100_000
)

// DirError says that the output folder cannot be made or written to.
type DirError struct {
	Dir string
	Err error
}

func (e *DirError) Error() string {
	return fmt.Sprintf("output folder %q cannot be written to: %v: choose a folder in which files can be made", e.Dir, e.Err)
}

// Unwrap returns the cause.
func (e *DirError) Unwrap() error { return e.Err }

// ObservationError says that a model observed something that cannot be recorded.
type ObservationError struct {
	// Series and Kind are names.
	Series, Kind string
	Entity       sim.EntityID
	Time         sim.Time
	// Reason says what is wrong and what is expected.
	Reason string
}

func (e *ObservationError) Error() string {
	return fmt.Sprintf("series %s: observation of entity %d (%s) at %v: %s", e.Series, e.Entity, e.Kind, e.Time, e.Reason)
}
