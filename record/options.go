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
	// Resumable makes a recording whose state Save returns, so that Resume can go on with it. From
	// level summary on it keeps rows in a file of its own (a spool), from which Finish makes the Parquet
	// files, and brings files to the disk before it gives them their names.
	Resumable bool
	// Rebin keeps every value that was observed in the spool as well, about 10 bytes each, so that a
	// resumed run may have another end or other bins: all bins move then, and there is no other way to
	// what the run to that end would have had. It needs Resumable and has no effect at level off, which
	// has no folder.
	Rebin bool
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

// DamageError says that a file of a saved recording, or the saved state itself, is not what was saved.
type DamageError struct {
	// File is the name in the output folder, empty for the state itself.
	File string
	// Err says what is wrong.
	Err error
}

func (e *DamageError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("saved recording: the state is damaged: %v: resume from another checkpoint or copy", e.Err)
	}
	return fmt.Sprintf("saved recording: %s is not as it was saved: %v: put back a copy, or resume from an earlier checkpoint", e.File, e.Err)
}

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Err }

// reason is the cause of a DamageError: what is wrong and, if it is not nil, the error behind it.
func reason(err error, format string, args ...any) error {
	if err != nil {
		return fmt.Errorf(format+": %w", append(args, err)...)
	}
	return fmt.Errorf(format, args...)
}

// ChangeError says that a recording cannot be resumed with other settings than it was saved with.
type ChangeError struct {
	// What differs, as it was saved and as it is asked for now.
	What, Saved, Asked string
	// Remedy says what to do; empty for the usual: resume with what was saved.
	Remedy string
}

func (e *ChangeError) Error() string {
	remedy := e.Remedy
	if remedy == "" {
		remedy = "resume with what was saved"
	}
	return fmt.Sprintf("saved recording: the %s was %s and is now %s: %s", e.What, e.Saved, e.Asked, remedy)
}

// FinishedError says that a recording cannot be resumed since it was finished and released: its files
// are complete.
type FinishedError struct {
	Dir string
	// File is one of the complete files.
	File string
}

func (e *FinishedError) Error() string {
	return fmt.Sprintf("output folder %q: the recording is finished (%s is complete): resume into another folder with a copy of the unfinished files", e.Dir, e.File)
}
