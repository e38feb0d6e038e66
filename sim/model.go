package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Model is a model that can be run: its description for people, its parameters and its setup.
type Model struct {
	// Name is how a scenario names it: lower case, digits and dashes.
	Name string
	// Summary says in one line what is simulated.
	Summary string
	// Doc explains purpose and behaviour in plain text.
	Doc string
	// Source names where the method and the data come from.
	Source string
	// Check says what the model has been checked against.
	Check string
	// Version changes whenever the same scenario gives another result.
	Version int

	params func() any
	setup  func(b *Builder, params any) error
}

// Define completes the description of a model with its parameters and setup.
//
// P is a struct whose exported fields are the parameters. The tags of a field are
//
//	param:"radars"     the name in the scenario; without it the field name in lower case
//	default:"80 ms"    the value when the scenario gives none, in scenario text; without it the
//	                   parameter must be given
//	unit:"m"           the dimension, as the SI unit that the field holds: m, m/s, s, deg, kg, W, Hz,
//	                   1/s, or any; the scenario must then name a unit of that dimension
//	min:"0" max:"1"    the allowed range, both ends included, in scenario text
//	above:"0"          the value must be larger than this
//	enum:"a,b"         the allowed words
//	doc:"..."          what it means
//
// Field types: bool, string, integers, float64, Duration (always with a unit), File, Table fields
// ([]T, where T is a struct whose fields carry col:"name" and the tags above, and key:"yes" on a
// column without duplicates) tagged table:"yes", and slices of integers, floats and durations.
//
// setup declares kinds, events, limits and entities. It must depend on its arguments alone.
func Define[P any](m Model, setup func(b *Builder, p *P) error) Model {
	m.params = func() any { return new(P) }
	m.setup = func(b *Builder, params any) error {
		p, ok := params.(*P)
		if !ok {
			return fmt.Errorf("model %s takes parameters of type %T, not %T", m.Name, new(P), params)
		}
		return setup(b, p)
	}
	return m
}

// NewParams returns a pointer to a zero parameter struct; package scenario fills it.
func (m Model) NewParams() any { return m.params() }

// File is a parameter that names a file relative to the scenario; the scenario package reads it.
type File struct {
	// Name is the path as the scenario wrote it.
	Name string
	// Data is the content.
	Data []byte
}

// Limits are what a model promises; the engine derives from them how far apart in time regions may
// run, which entities need ghosts where, and how often entities change owner.
type Limits struct {
	// Lookahead is the least delay of any effect of one entity on another: of a send, and of a
	// publication becoming visible. With 0 the model runs in one region only.
	Lookahead Duration
	// Range is how far an entity can look or act, in metres.
	Range float64
	// Speed bounds how fast a published position moves, in metres per second. 0 means that
	// positions may jump: every region then holds a ghost of every published entity.
	Speed float64
	// LocalSends says that sends go only to entities that are visible within Range; a farther send
	// is an error. Far regions may then run farther apart in time.
	LocalSends bool
}

// Builder is what setup declares a model with. Faults are collected and reported together.
type Builder struct {
	prog *Program
	errs []error
}

// Seed returns the seed of the run, for drawing initial conditions: use Stream.
func (b *Builder) Seed() uint64 { return b.prog.Seed }

// Stream returns a random stream for initial conditions. Streams of different names are independent
// of one another and of all entities'.
func (b *Builder) Stream(name string) *Rand {
	h := b.prog.Seed
	for _, c := range []byte(name) {
		h = mix64(h ^ uint64(c))
	}
	r := NewRand(h, 1<<60)
	return &r
}

// End returns the end that the scenario gives, or Never if it gives none.
func (b *Builder) End() Time { return b.prog.End }

// SetEnd sets the end of a run whose scenario gives none.
func (b *Builder) SetEnd(t Time) {
	if b.prog.End == Never {
		b.prog.End = t
	}
}

// SetStopEvery lets entities end the run: at every multiple of d it is asked whether one of them has
// called Context.Stop, and if so the run ends there. Without it Context.Stop is a breach.
func (b *Builder) SetStopEvery(d Duration) {
	if d <= 0 {
		b.wrong("stop every %v: the duration must be above 0", d)
		return
	}
	b.prog.StopEvery = d
}

// Space returns the space of the run; its Kind is NoSpace if neither scenario nor model has set one.
func (b *Builder) Space() Space { return b.prog.Space }

// SetSpace sets the space of a run whose scenario gives none. It must come before the first entity.
func (b *Builder) SetSpace(s Space) {
	if b.prog.Space.Kind != NoSpace {
		return
	}
	if len(b.prog.EntityKind) > 0 && s.Kind != NoSpace {
		b.fail("the space is set after %d entities were added: set it before the first", len(b.prog.EntityKind))
		return
	}
	b.prog.Space = s
}

// SetLimits declares lookahead, range and speed. A model that does not call it has lookahead 0.
func (b *Builder) SetLimits(l Limits) {
	if l.Lookahead < 0 {
		b.wrong("lookahead %v is negative", l.Lookahead)
	}
	if !(l.Range >= 0 && l.Range <= math.MaxFloat64) {
		b.wrong("range %g m must be 0 or more, and finite", l.Range)
	}
	if !(l.Speed >= 0 && l.Speed <= math.MaxFloat64) {
		b.wrong("speed %g m/s must be 0 or more, and finite (0 if positions may jump)", l.Speed)
	}
	b.prog.Limits = l
}

// Results sets the function that makes the model's own results from the end of a run. The values
// must be what encoding/json can write.
func (b *Builder) Results(f func(f *Final) (map[string]any, error)) { b.prog.results = f }

// Pictures sets the function that draws the model's own pictures for the report.
func (b *Builder) Pictures(f func(f *Final) ([]Picture, error)) { b.prog.pictures = f }

// wrong is for what the parameters may be the cause of.
func (b *Builder) wrong(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

// fail is for what the model's code alone can be the cause of.
func (b *Builder) fail(format string, args ...any) {
	b.errs = append(b.errs, &Fault{fmt.Errorf(format, args...).Error()})
}

// NewProgram runs the setup of m and checks what it declared; all faults come back joined. params
// is what NewParams returned, filled. An end of Never means that the scenario gives none.
func NewProgram(m Model, params any, space Space, seed uint64, end Time) (*Program, error) {
	b := &Builder{prog: &Program{Model: m, Seed: seed, End: end, Space: space}}
	if m.setup == nil {
		return b.prog, fmt.Errorf("model %q has no setup: make it with sim.Define", m.Name)
	}
	if err := b.runSetup(params); err != nil {
		b.errs = append(b.errs, err)
	}
	if len(b.errs) == 0 {
		b.check()
	}
	return b.prog, errors.Join(b.errs...)
}

// runSetup turns a Breach that setup ran into (a bad argument to a random draw, a negative time)
// into an error.
func (b *Builder) runSetup(params any) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Breach:
			err = fmt.Errorf("setup of model %s: %w", b.prog.Model.Name, r)
		default:
			panic(r)
		}
	}()
	return b.prog.Model.setup(b, params)
}

func (b *Builder) check() {
	p := b.prog
	switch {
	case p.End == Never:
		b.errs = append(b.errs, BadParam("end", "missing: say when the run ends, such as \"1 d\""))
	case p.End < 0:
		b.errs = append(b.errs, BadParam("end", "%v is before the start: use 0 or later", p.End))
	}
	if len(p.EntityKind) == 0 {
		b.wrong("model %s has no entity", p.Model.Name)
	}
	names := map[string]bool{}
	for _, e := range p.Events {
		if names[e.Name] {
			b.fail("event %s is declared twice", e.Name)
		}
		names[e.Name] = true
	}
	b.checkEntities()
}

// checkEntities names the first entity with a bad place and the first with a bad weight: if one is
// wrong, thousands are.
func (b *Builder) checkEntities() {
	p := b.prog
	if i := slices.IndexFunc(p.EntityPos, func(v Vec) bool { return !finite(v.X) || !finite(v.Y) || !finite(v.Z) }); i >= 0 {
		b.wrong("entity %d of kind %s: position %v is not finite", i+1, p.Kinds[p.EntityKind[i]].Name, p.EntityPos[i])
	}
	if i := slices.IndexFunc(p.EntityWeight, func(w float32) bool { return !finite(float64(w)) }); i >= 0 {
		b.wrong("entity %d of kind %s: weight %v is not finite", i+1, p.Kinds[p.EntityKind[i]].Name, p.EntityWeight[i])
	}
}

func finite(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }
