package scenario

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/spatial"
)

// modelsFault tells an author's fault from a user's.
const modelsFault = "this is a fault of the model's code"

// setUp runs the model's setup and checks what it made.
func (l *loader) setUp() {
	s := l.scenario
	program, err := l.newProgram()
	if err != nil {
		l.setupProblems(err)
		return
	}
	if program == nil {
		return
	}
	l.checkProgram(program)
	s.Program, s.Space = program, program.Space
	if l.count == 0 {
		s.Hash = l.hash()
	}
}

// newProgram runs the setup; a model that panics is reported with its source line.
func (l *loader) newProgram() (p *sim.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("the model's setup failed with a panic: %s (at %s)", shorten(fmt.Sprint(r)), panicLine())
		}
	}()
	return sim.NewProgram(l.scenario.Model, l.params, l.space, l.scenario.Seed, l.end)
}

// panicLine finds the source line that panicked: the first outside of the runtime and package sim.
func panicLine() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		own := strings.HasPrefix(f.Function, "runtime.") || strings.HasPrefix(f.Function, "github.com/simnode/simnode/sim.")
		if !own && f.File != "" {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return "an unknown line"
		}
	}
}

// setupProblems gives every fault that setup found its place.
func (l *loader) setupProblems(err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			l.setupProblems(e)
		}
		return
	}
	var p *sim.ParamError
	var own *sim.Fault
	switch {
	case errors.As(err, &own):
		l.add(l.place("model"), "model", faultf(modelsFault, "model %s: %s", l.scenario.Model.Name, err.Error()))
		return
	case !errors.As(err, &p):
		l.add(l.place("model"), "model", faultf("", "%s", err.Error()))
		return
	}
	at := l.place(p.Path)
	if p.Row > 0 {
		at = l.rowPlace(p, at)
	}
	l.add(at, p.Path, faultf("", "%s", l.reason(err, p)))
}

// reason is that of a ParamError; of a duplicate it names the lines.
func (l *loader) reason(err error, p *sim.ParamError) string {
	var d *sim.DuplicateError
	if !errors.As(err, &d) {
		return p.Reason
	}
	first, second := l.line(d.Path, d.First), l.line(d.Path, d.Row)
	if first == 0 || second == 0 {
		return p.Reason
	}
	return d.Reason("lines", first, second)
}

// line returns the line of a row of a table, or 0 if it is unknown.
func (l *loader) line(path string, row int) int {
	steps := splitPath(path)
	if len(steps) < 2 {
		return 0
	}
	t := l.tables[steps[1]]
	if t == nil || row < 1 || row > len(t.lines) {
		return 0
	}
	return int(t.lines[row-1])
}

// rowPlace finds the line of a row in the table that a ParamError names.
func (l *loader) rowPlace(p *sim.ParamError, otherwise place) place {
	line := l.line(p.Path, p.Row)
	if line == 0 {
		return otherwise
	}
	return place{l.tables[splitPath(p.Path)[1]].path, line, 1}
}

// checkProgram checks what setup declared.
func (l *loader) checkProgram(p *sim.Program) {
	model := l.place("model")
	if p.End <= 0 {
		l.add(l.place("end"), "end", faultf("give an end, such as \"1 d\"", "the run ends at %v, not after its start", p.End))
	}
	l.checkEvents(p, model)
	if p.Space.Kind == sim.NoSpace {
		if p.Limits.Range > 0 {
			l.add(model, "space", faultf("give the scenario a space", "model %s looks around within %g m but has no space", p.Model.Name, p.Limits.Range))
		}
		return
	}
	if space := l.checkSpace(p.Space); space != nil {
		l.checkPlaces(p, space)
	}
}

// checkEvents reports events that nobody handles.
func (l *loader) checkEvents(p *sim.Program, model place) {
	for e, info := range p.Events {
		handled := false
		for _, k := range p.Kinds {
			handled = handled || handles(k, e)
		}
		if !handled {
			l.add(model, "model", faultf(modelsFault, "event %s is declared, but no kind handles it", info.Name))
		}
	}
	reported := map[[2]int]bool{}
	for _, i := range p.Initial {
		kind := int(p.EntityKind[i.Entity-1])
		which := [2]int{kind, int(i.Event)}
		if handles(p.Kinds[kind], int(i.Event)) || reported[which] {
			continue
		}
		reported[which] = true
		l.add(model, "model", faultf(modelsFault, "entity %d of kind %s begins with event %s, which its kind does not handle",
			i.Entity, p.Kinds[kind].Name, p.EventName(i.Event)))
	}
}

func handles(k *sim.KindInfo, event int) bool {
	return event < len(k.Handlers) && k.Handlers[event] != nil
}

// checkPlaces checks the range and the position of every entity.
func (l *loader) checkPlaces(p *sim.Program, space *spatial.Space) {
	if err := space.CheckRange(p.Limits.Range); err != nil {
		l.add(l.place("space"), "space", faultf("make the space larger or the range smaller", "%s", err.Error()))
	}
	const shown = 5
	bad := 0
	for i, pos := range p.EntityPos {
		err := space.CheckPosition(pos)
		if err == nil {
			continue
		}
		if bad++; bad <= shown {
			l.add(l.place("space"), "space", faultf("", "entity %d of kind %s: %s", i+1, p.Kinds[p.EntityKind[i]].Name, err.Error()))
		}
	}
	if bad > shown {
		l.add(l.place("space"), "space", faultf("", "and %d more entities with wrong positions", bad-shown))
	}
}
