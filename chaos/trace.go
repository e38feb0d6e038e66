package chaos

import (
	"fmt"
	"strings"
	"time"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/sim"
)

// lastKept is how many events are shown with a failure.
const lastKept = 200

// trace is the history of a run: a hash of all of it, and its last events.
type trace struct {
	hash uint64
	ring [lastKept]record
	n    int
}

// record is an event in the history, put into words only when it is to be read.
type record struct {
	at      time.Duration
	format  string
	args    []any
	boot    string
	to      int
	message control.Message
}

func (t *trace) fold(a, b uint64) { t.hash = sim.Digest(t.hash, a, b) }

func (t *trace) add(r record) {
	t.ring[t.n%lastKept] = r
	t.n++
}

// lines returns the last events, the oldest first.
func (t *trace) lines() (list []string) {
	for i := max(0, t.n-lastKept); i < t.n; i++ {
		list = append(list, t.ring[i%lastKept].String())
	}
	return list
}

// longest bounds a line of the history.
const longest = 300

func (r *record) String() string {
	s := fmt.Sprintf("%12.6f s  ", r.at.Seconds())
	if r.message == nil {
		s += fmt.Sprintf(r.format, r.args...)
	} else {
		s += fmt.Sprintf("%s to %s: %s", r.boot, nodeName(r.to), describe(r.message))
	}
	if s = strings.ReplaceAll(s, "\n", " "); len(s) > longest {
		s = s[:longest] + " ..."
	}
	return s
}

// describe puts a message into words, without the data in it.
func describe(m control.Message) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", m), "*control.")
	switch m := m.(type) {
	case *control.Batch:
		return fmt.Sprintf("%s %d of epoch %d, %d bytes", name, m.Number, m.Epoch, len(m.Data))
	case *control.Observed:
		return fmt.Sprintf("%s %d of epoch %d, %d bytes", name, m.Number, m.Epoch, len(m.Data))
	case *control.Parcel:
		return fmt.Sprintf("%s %d at %v of epoch %d, %d bytes", name, m.Number, m.At, m.Epoch, len(m.Data))
	case *control.Restored:
		return fmt.Sprintf("%s of epoch %d, %d bytes, last %t", name, m.Epoch, len(m.Data), m.Last)
	case *control.Final:
		return fmt.Sprintf("%s of epoch %d, %d bytes, last %t", name, m.Epoch, len(m.Data), m.Last)
	}
	return name + strings.TrimPrefix(fmt.Sprintf(" %+v", m), " &")
}

// note tells of something in the history.
func (w *world) note(format string, args ...any) {
	w.trace.add(record{at: w.now, format: format, args: args})
}

// traceMessage notes a message, and folds all of it but the wall times that results carry.
func (w *world) traceMessage(p *process, to int, m control.Message) {
	w.trace.add(record{at: w.now, boot: p.boot, to: to, message: m})
	if f, ok := m.(*control.Final); ok {
		w.trace.fold(uint64(p.i)<<32|uint64(to), uint64(len(f.Data)))
		return
	}
	w.buffer = control.Append(w.buffer[:0], m)
	w.trace.fold(uint64(p.i)<<32|uint64(to), checksum(w.buffer))
}

// headerOf returns the header of a message.
func headerOf(m control.Message) *control.Header {
	switch m := m.(type) {
	case *control.Assume:
		return &m.Header
	case *control.Settle:
		return &m.Header
	case *control.Grants:
		return &m.Header
	case *control.Cut:
		return &m.Header
	case *control.Floor:
		return &m.Header
	case *control.Finish:
		return &m.Header
	case *control.Ping:
		return &m.Header
	case *control.Frozen:
		return &m.Header
	case *control.Full:
		return &m.Header
	case *control.Report:
		return &m.Header
	case *control.CutDone:
		return &m.Header
	case *control.Recorded:
		return &m.Header
	case *control.Broken:
		return &m.Header
	case *control.Pong:
		return &m.Header
	case *control.Batch:
		return &m.Header
	case *control.Parcel:
		return &m.Header
	case *control.Observed:
		return &m.Header
	case *control.Final:
		return &m.Header
	case *control.Retrieve:
		return &m.Header
	case *control.Abandon:
		return &m.Header
	case *control.Retrieved:
		return &m.Header
	case *control.Unfit:
		return &m.Header
	case *control.Stored:
		return &m.Header
	case *control.Restored:
		return &m.Header
	}
	panic(fmt.Sprintf("unknown message %T", m))
}
