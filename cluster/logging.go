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
	// told keeps what repeats from filling the log: what differs from an earlier line only in where it came
	// from, in an error or in a time is told once a minute.
	told *teller
	// expected says of a line that what it tells is no trouble; nil for none.
	expected func(text string) bool
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
	if l.usual(text) || l.expected != nil && l.expected(text) {
		level = min(level, slog.LevelDebug)
	}
	if level >= slog.LevelInfo && l.told.again(lasting(text)) {
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, text, "from", l.name)
	return len(b), nil
}

// usual reports whether a line tells of nothing but that a node waits or learns.
func (l lines) usual(text string) bool {
	return strings.Contains(text, "last-leader-addr= ") || strings.Contains(text, `last-leader-addr="" `) || strings.HasPrefix(text, "failed to get previous log") || strings.HasPrefix(text, "appendEntries rejected")
}

// lasting is what stays the same of a line that comes again and again.
func lasting(text string) string {
	if strings.HasPrefix(text, "failed to ") {
		for _, varies := range []string{" error=", " time=", " backoff time="} {
			text, _, _ = strings.Cut(text, varies)
		}
	}
	text, _, _ = strings.Cut(text, "from=")
	return text
}

func lineLogger(to *slog.Logger, name string) *log.Logger {
	return log.New(lines{log: to, name: name, told: &teller{}}, "", 0)
}

// expected reports whether raft tells of what is no trouble: this node ends, or the line is about one that has
// announced its end.
func (c *Cluster) expected(text string) bool {
	if c.ending.Load() {
		return true
	}
	g := c.gossiping()
	if g == nil {
		return false
	}
	p := g.peer(aboutPeer(text))
	return p != nil && (p.meta.stopping || p.meta.leaving)
}

// aboutPeer is the node that a line of raft is about, "" for none: peer=a, target="{Voter a a}", server-id=a.
func aboutPeer(text string) string {
	for _, key := range []string{" peer=", " server-id=", " target="} {
		_, rest, found := strings.Cut(text, key)
		if !found {
			continue
		}
		if in, ok := strings.CutPrefix(rest, `"{`); ok {
			_, rest, _ = strings.Cut(in, " ")
		}
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	return ""
}

// raftLogger returns a logger for raft.
func raftLogger(to *slog.Logger, expected func(string) bool) hclog.Logger {
	level := hclog.Warn
	if to.Enabled(context.Background(), slog.LevelDebug) {
		level = hclog.Info
	}
	return hclog.New(&hclog.LoggerOptions{Name: "raft", Level: level, Output: lines{log: to, name: "raft", told: &teller{}, expected: expected}, DisableTime: true})
}
