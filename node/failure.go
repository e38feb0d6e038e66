package node

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/simnode/simnode/sim"
)

// Failure is a run that ended because a model broke its contract or panicked.
type Failure struct {
	// Entity that handled the event, and its kind.
	Entity sim.EntityID
	Kind   string
	// Event being handled, its sender and the simulated time.
	Event  string
	Source sim.EntityID
	Time   sim.Time
	// Where is the model's source line, as file:line, or empty.
	Where string
	// Reason says what happened and what to do.
	Reason string

	// key and seq complete the place of the event in the order of events.
	key, seq uint64
}

func (f *Failure) Error() string {
	at := ""
	if f.Where != "" {
		at = " at " + f.Where
	}
	return fmt.Sprintf("%s (in entity %d of kind %s, handling event %s from entity %d at simulated time %v%s)",
		f.Reason, f.Entity, f.Kind, f.Event, f.Source, f.Time, at)
}

// before orders failures by the events that caused them, so that the first one is reported whatever
// the regions and workers.
func (f *Failure) before(o *Failure) bool {
	a := sim.Message{Time: f.Time, Key: f.key, Seq: f.seq}
	b := sim.Message{Time: o.Time, Key: o.key, Seq: o.seq}
	return a.Before(&b)
}

// explain, deferred by run, turns a panic of a handler, or the end of its goroutine, into the region's
// failure.
func (r *region) explain() {
	v := recover()
	switch {
	case v == nil && r.msg == nil:
		return
	case v == nil:
		v = &sim.Breach{Reason: "the handler ended its goroutine (runtime.Goexit, or FailNow of a test): return instead, or panic"}
	case r.msg == nil:
		panic(v) // not in a handler: a fault of the engine
	}
	f := &Failure{
		Entity: r.self.id, Kind: r.world.prog.Kinds[r.self.kind].Name,
		Event: r.world.prog.EventName(r.msg.Event()), Source: r.msg.Source(), Time: r.msg.Time,
		key: r.msg.Key, seq: r.msg.Seq, Where: modelLine(),
	}
	switch v := v.(type) {
	case *sim.Breach:
		f.Reason = v.Reason
	case error:
		f.Reason = "the model panicked: " + v.Error()
	default:
		f.Reason = fmt.Sprintf("the model panicked: %v", v)
	}
	r.msg = nil
	r.self.gen = (r.self.gen + 1) & genMask // drops what is still to come for the entity
	if r.failure == nil || f.before(r.failure) {
		r.failure = f
	}
}

// stopped reports whether a region that failed has nothing left to run: the other events of that time,
// one of which may fail too and come first. With lookahead 0 those may depend on what failed, and
// there is one region only.
func (r *region) stopped() bool {
	return r.world.lookahead == 0 || r.queue.peek() > r.failure.Time
}

// pastEvent is the failure of the engine's own promise; it never happens unless the engine is wrong.
func pastEvent(e *entity, m *sim.Message) *sim.Breach {
	return &sim.Breach{Reason: fmt.Sprintf("engine fault: event at %v after the entity handled one at %v; please report it", m.Time, e.last)}
}

// modelLine finds the innermost frame of the panicking stack that is the model's: neither the engine's
// nor the standard library's.
func modelLine() string {
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var list []runtime.Frame
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); strings.HasSuffix(f.Function, ".(*region).handle") {
			break
		}
		if f.Function != "" && !engineFrame(f.Function, f.File) {
			list = append(list, f)
		}
	}
	if len(list) == 0 {
		return ""
	}
	// The outermost is the handler, which is the model's.
	module := firstElement(list[len(list)-1].Function)
	for _, f := range list {
		if first := firstElement(f.Function); first == module || strings.Contains(first, ".") {
			return filepath.Join(filepath.Base(filepath.Dir(f.File)), filepath.Base(f.File)) + fmt.Sprintf(":%d", f.Line)
		}
	}
	return ""
}

// firstElement returns the first element of the import path of a function's package. In the standard
// library it has no dot.
func firstElement(function string) string {
	path, _, nested := strings.Cut(function, "/")
	if !nested {
		path, _, _ = strings.Cut(path, ".")
	}
	return path
}

// engineFrame tells the frames of the runtime and of the engine from those of a model.
func engineFrame(function, file string) bool {
	if strings.HasPrefix(function, "runtime.") {
		return true
	}
	if strings.HasSuffix(file, "_test.go") {
		return false
	}
	for _, pkg := range []string{"sim", "node", "spatial", "partition", "lbts"} {
		if strings.HasPrefix(function, "github.com/simnode/simnode/"+pkg+".") {
			return true
		}
	}
	return false
}
