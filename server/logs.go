package server

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/simnode/simnode/api"
)

// keptLines is how many of the last log lines a node keeps for people.
const keptLines = 10_000

// logbook keeps the last log lines. Lines are numbered from 1.
type logbook struct {
	mu    sync.Mutex
	lines []api.LogLine // a ring once it is full
	last  uint64
	// news is closed and replaced when a line is added.
	news chan struct{}
}

func newLogbook() *logbook { return &logbook{news: make(chan struct{})} }

func (b *logbook) add(l api.LogLine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) < keptLines {
		b.lines = append(b.lines, l)
	} else {
		b.lines[b.last%keptLines] = l
	}
	b.last++
	close(b.news)
	b.news = make(chan struct{})
}

// after returns at most most lines that follow line number n, and the number of the last one returned.
// Lines that are no longer kept are passed over.
func (b *logbook) after(n uint64, most int) (lines []api.LogLine, last uint64, news <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = max(min(n, b.last), b.last-uint64(len(b.lines)))
	for ; n < b.last && len(lines) < most; n++ {
		lines = append(lines, b.lines[n%keptLines])
	}
	return lines, n, b.news
}

// before returns the number after which the last most lines come.
func (b *logbook) before(most int) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last - uint64(min(len(b.lines), max(most, 0)))
}

// bookHandler writes log records into a logbook and to another handler.
type bookHandler struct {
	book  *logbook
	level slog.Level
	also  slog.Handler // nil for none
	// fields and prefix are those of With.
	fields []api.LogField
	prefix string
}

// Enabled implements slog.Handler.
func (h *bookHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// Handle implements slog.Handler.
func (h *bookHandler) Handle(ctx context.Context, r slog.Record) error {
	line := api.LogLine{Time: r.Time, Level: r.Level.String(), Text: r.Message, Fields: slices.Clone(h.fields)}
	r.Attrs(func(a slog.Attr) bool {
		line.Fields = appendField(line.Fields, h.prefix, a)
		return true
	})
	h.book.add(line)
	if h.also == nil || !h.also.Enabled(ctx, r.Level) {
		return nil
	}
	return h.also.Handle(ctx, r)
}

func appendField(fields []api.LogField, prefix string, a slog.Attr) []api.LogField {
	v := a.Value.Resolve()
	if v.Kind() != slog.KindGroup {
		return append(fields, api.LogField{Key: prefix + a.Key, Value: v.String()})
	}
	for _, sub := range v.Group() {
		fields = appendField(fields, prefix+a.Key+".", sub)
	}
	return fields
}

// WithAttrs implements slog.Handler.
func (h *bookHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.fields = slices.Clone(h.fields)
	for _, a := range attrs {
		next.fields = appendField(next.fields, h.prefix, a)
	}
	if h.also != nil {
		next.also = h.also.WithAttrs(attrs)
	}
	return &next
}

// WithGroup implements slog.Handler.
func (h *bookHandler) WithGroup(name string) slog.Handler {
	next := *h
	next.prefix += name + "."
	if h.also != nil {
		next.also = h.also.WithGroup(name)
	}
	return &next
}
