package cluster

import (
	"context"
	"log"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// lines takes the lines that memberlist and raft log, such as "[WARN] raft: text", to a slog.Logger.
type lines struct {
	log  *slog.Logger
	name string
	// told keeps strangers from filling the log: what differs from an earlier line only in where it came from
	// is told once a minute. Nil tells everything.
	told *teller
}

var levels = []struct {
	tag   string
	level slog.Level
}{
	{"[TRACE]", slog.LevelDebug - 4}, {"[DEBUG]", slog.LevelDebug}, {"[INFO]", slog.LevelDebug},
	{"[WARN]", slog.LevelInfo}, {"[ERR]", slog.LevelWarn}, {"[ERROR]", slog.LevelWarn},
}

// Write logs one line, one level lower than the library has it: what matters to people this package says
// itself.
func (l lines) Write(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	level := slog.LevelDebug
	for _, v := range levels {
		if rest, ok := strings.CutPrefix(text, v.tag); ok {
			level, text = v.level, strings.TrimSpace(rest)
			break
		}
	}
	text = strings.TrimPrefix(text, l.name+": ")
	if what, _, _ := strings.Cut(text, "from="); l.told != nil && l.told.again(what) {
		level = min(level, slog.LevelDebug)
	}
	l.log.Log(context.Background(), level, text, "from", l.name)
	return len(b), nil
}

func lineLogger(to *slog.Logger, name string) *log.Logger {
	return log.New(lines{log: to, name: name, told: &teller{}}, "", 0)
}

// raftLogger returns a logger for raft.
func raftLogger(to *slog.Logger) hclog.Logger {
	level := hclog.Warn
	if to.Enabled(context.Background(), slog.LevelDebug) {
		level = hclog.Info
	}
	return hclog.New(&hclog.LoggerOptions{Name: "raft", Level: level, Output: lines{log: to, name: "raft"}, DisableTime: true})
}
