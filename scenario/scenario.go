package scenario

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/simnode/simnode/sim"
)

// Options are what the command line adds to a file.
type Options struct {
	// Models are those that a scenario may name.
	Models []sim.Model
	// Set holds overrides "path=value", such as "params.radars=10"; later ones win. The value is
	// YAML; files are relative to the scenario.
	Set []string
	// Seed and End override the file; empty means not given.
	Seed, End string
}

// Scenario is a scenario that has been checked and set up.
type Scenario struct {
	// Path of the file, and its title, which may be empty.
	Path, Title string
	Model       sim.Model
	Seed        uint64
	// Space is the space of the run: that of the file, or else the model's.
	Space  sim.Space
	Record Record
	// Settings are the model's parameters in the order of their declaration.
	Settings []Setting
	// Program is what an engine runs. It may be used for one run.
	Program *sim.Program
	// Hash is the SHA-256 of everything that can change a result: model and version, seed, end, space,
	// parameters, and the content of tables and files. Scenarios that differ in spelling, units,
	// comments, title or recording have one hash.
	Hash [32]byte
}

// Setting is the value of one parameter.
type Setting struct {
	// Name as in the file, without "params.".
	Name string
	// Text is the value as it was written; a table or file is its name.
	Text string
	// Given tells a value that was written from a default.
	Given bool
}

// Load reads the scenario at path, checks it whole and sets the model up. The error is of type
// Problems and holds everything that is wrong.
func Load(path string, o Options) (*Scenario, error) {
	data, err := readScenario(path)
	if err != nil {
		return nil, err
	}
	return load(path, data, o)
}

// load is Load of a file that has been read.
func load(path string, data []byte, o Options) (*Scenario, error) {
	return loadFrom(disk{path}, path, data, o)
}

// loadFrom is load with the files that the scenario names from elsewhere.
func loadFrom(files source, path string, data []byte, o Options) (*Scenario, error) {
	l := &loader{file: path, files: files, options: o, scenario: &Scenario{Path: path}}
	root := parseYAML(path, data, &l.report)
	if root == nil {
		return nil, l.report.err()
	}
	l.root = root
	l.run()
	if err := l.report.err(); err != nil {
		return nil, err
	}
	return l.scenario, nil
}

// loader is one Load on its way.
type loader struct {
	report
	file     string
	files    source
	options  Options
	root     *node
	fields   []*field
	params   any
	end      sim.Time
	space    sim.Space
	tables   map[string]*tableFile
	scenario *Scenario
}

// sections are the keys of a scenario file.
func sections() []string {
	return []string{"model", "title", "seed", "end", "space", "params", "record"}
}

func (l *loader) run() {
	switch {
	case l.root.kind == nullNode:
		l.root.kind = mapNode
		if len(l.options.Set) == 0 {
			l.add(l.root.at, "", faultf("begin with \"model: NAME\"; "+choose("", "models", l.modelNames()), "the scenario is empty"))
			return
		}
	case l.root.kind != mapNode:
		l.add(l.root.at, "", faultf("begin with \"model: NAME\"", "a scenario is a section of keys, not %v", l.root.kind))
		return
	}
	l.applySets("model")
	hasModel := l.readModel()
	l.applySets("")
	l.knownKeys(l.root, "", sections())
	l.readTitle()
	before := l.count
	l.readSeed()
	l.readEnd()
	l.readSpace()
	if hasModel {
		l.readParams()
	}
	runnable := hasModel && l.count == before
	l.readRecord()
	if runnable {
		l.setUp()
	}
}

// knownKeys reports the keys of a section that are not among the allowed ones.
func (l *loader) knownKeys(n *node, path string, allowed []string) {
	for _, e := range n.entries {
		if !contains(allowed, e.key) {
			l.add(e.at, join(path, e.key), faultf(choose(e.key, "keys here", allowed), "unknown key"))
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func (l *loader) modelNames() []string {
	names := make([]string, len(l.options.Models))
	for i, m := range l.options.Models {
		names[i] = m.Name
	}
	return names
}

// readModel finds the model and its parameters' declaration.
func (l *loader) readModel() bool {
	e := l.root.get("model")
	if e == nil {
		l.add(l.root.at, "model", faultf(choose("", "models", l.modelNames()), "missing"))
		return false
	}
	name, ok := l.text(e, "model")
	if !ok {
		return false
	}
	for _, m := range l.options.Models {
		if m.Name != name {
			continue
		}
		fields, err := paramFields(m)
		if err != nil {
			l.add(e.value.at, "model", faultf(modelsFault, "%v", err))
			return false
		}
		l.scenario.Model, l.fields = m, fields
		return true
	}
	l.add(e.value.at, "model", faultf(choose(name, "models", l.modelNames()), "unknown model %s", quote(name)))
	return false
}

// text returns the text of a single value.
func (l *loader) text(e *entry, path string) (string, bool) {
	if e.value.kind != scalarNode {
		l.add(e.value.at, path, faultf("give one value, or leave the line out", "expected a single value, not %v", e.value.kind))
		return "", false
	}
	return e.value.text, true
}

func (l *loader) readTitle() {
	if e := l.root.get("title"); e != nil {
		l.scenario.Title, _ = l.text(e, "title")
	}
}

// flagOr returns the entry of a key, or one with the flag's value if that is given.
func (l *loader) flagOr(key, flag string) *entry {
	if flag == "" {
		return l.root.get(key)
	}
	at := place{file: "--" + key}
	return &entry{key, at, &node{kind: scalarNode, at: at, text: flag}}
}

func (l *loader) readSeed() {
	l.scenario.Seed = 1
	e := l.flagOr("seed", l.options.Seed)
	if e == nil {
		return
	}
	text, ok := l.text(e, "seed")
	if !ok {
		return
	}
	f := field{kind: uintField, typ: reflect.TypeFor[uint64](), measure: newMeasure("")}
	v, fault := f.parse(text, false)
	if fault != nil {
		fault.help = "expected a whole number from 0 to 18446744073709551615"
		l.add(e.value.at, "seed", fault)
		return
	}
	l.scenario.Seed = v.Uint()
}

func (l *loader) readEnd() {
	l.end = sim.Never
	e := l.flagOr("end", l.options.End)
	if e == nil {
		return
	}
	text, ok := l.text(e, "end")
	if !ok {
		return
	}
	if number, _ := cutNumber(strings.TrimSpace(text)); strings.HasPrefix(number, "-") {
		l.add(e.value.at, "end", faultf("a run starts at time 0; expected a duration such as \"1 d\"", "%s is before the start", quote(text)))
		return
	}
	d, fault := parseDuration(text)
	switch {
	case fault != nil:
		l.add(e.value.at, "end", fault)
	case d == 0:
		l.add(e.value.at, "end", faultf("a run starts at time 0; expected a duration such as \"1 d\"", "the run ends when it starts"))
	default:
		l.end = sim.Time(d)
	}
}

// place returns where the field at path was written, or the nearest section above it, or the line
// of the model.
func (l *loader) place(path string) place {
	at, n := place{file: l.file, line: 1, column: 1}, l.root
	if e := l.root.get("model"); e != nil {
		at = e.at
	}
	for _, step := range splitPath(path) {
		next := n.child(step)
		if next == nil {
			return at
		}
		at = next.at
		if e := n.get(step); e != nil && next.kind == mapNode {
			at = e.at
		}
		n = next
	}
	return at
}

// CheckRun says whether the scenario can run in that many regions on that many workers.
func (s *Scenario) CheckRun(regions, workers int) error {
	const maxRegions, maxWorkers = 1 << 10, 1 << 10
	switch {
	case regions < 1 || regions > maxRegions:
		return fmt.Errorf("regions %d: use a number from 1 to %d", regions, maxRegions)
	case workers < 1 || workers > maxWorkers:
		return fmt.Errorf("workers %d: use a number from 1 to %d", workers, maxWorkers)
	case regions > 1 && s.Program.Limits.Lookahead == 0:
		return fmt.Errorf("regions %d: model %s has lookahead 0 here: an entity may affect another without delay, so nothing can run "+
			"in parallel; use 1 region%s", regions, s.Model.Name, s.lookaheadHint())
	}
	return nil
}

// lookaheadHint points to the model's own parameter, if there is one.
func (s *Scenario) lookaheadHint() string {
	for _, p := range s.Settings {
		if p.Name == "lookahead" {
			return fmt.Sprintf(", or set params.lookahead (now %s) above 0", p.Text)
		}
	}
	return ""
}
