package scenario

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/simnode/simnode/sim"
)

// maxFile bounds a file parameter.
const maxFile = 64 << 20

// readParams fills the model's parameters from the file and the defaults.
func (l *loader) readParams() {
	l.params = l.scenario.Model.NewParams()
	l.tables = map[string]*tableFile{}
	section := l.section("params")
	names := make([]string, len(l.fields))
	for i, f := range l.fields {
		names[i] = f.name
	}
	l.knownKeys(section, "params", names)
	to := reflect.ValueOf(l.params).Elem()
	for _, f := range l.fields {
		l.readParam(f, section.get(f.name), to.Field(f.index))
	}
}

// section returns a section of the file; it is empty if it is missing or not a section, which is
// reported.
func (l *loader) section(name string) *node {
	e := l.root.get(name)
	if e == nil || e.value.kind == nullNode {
		return &node{kind: mapNode}
	}
	if e.value.kind != mapNode {
		l.add(e.value.at, name, faultf("write its keys below it, indented", "expected a section of keys, not %v", e.value.kind))
		return &node{kind: mapNode}
	}
	return e.value
}

func (l *loader) readParam(f *field, e *entry, to reflect.Value) {
	path := join("params", f.name)
	given := e != nil
	switch {
	case given:
	case f.hasFallback:
		e = l.fallback(f)
	default:
		l.add(l.place("params"), path, faultf(f.help(), "missing, and it has no default"))
	}
	if e == nil {
		return
	}
	if e.value.kind == nullNode && given {
		l.add(e.at, path, faultf(f.leaveOut(), "has no value"))
		return
	}
	l.bind(f, path, e.value, to)
	l.scenario.Settings = append(l.scenario.Settings, Setting{f.name, e.value.summary(), given})
}

// fallback returns the default, which paramFields has checked, as if it had been written.
func (l *loader) fallback(f *field) *entry {
	at := l.place("model")
	n := &node{kind: scalarNode, at: at, text: f.fallback}
	if f.kind == listField && f.fallback != "" {
		n = f.defaultList()
		n.moveTo(at)
	}
	return &entry{f.name, at, n}
}

// summary prints a value in a line.
func (n *node) summary() string {
	switch n.kind {
	case listNode:
		parts := make([]string, len(n.items))
		for i, item := range n.items {
			parts[i] = item.summary()
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case scalarNode:
		return n.text
	}
	return ""
}

// bind reads the value n into to.
func (l *loader) bind(f *field, path string, n *node, to reflect.Value) {
	if f.kind == listField {
		l.bindList(f, path, n, to)
		return
	}
	if n.kind != scalarNode {
		l.add(n.at, path, faultf(f.help(), "expected a single value, not %v", n.kind))
		return
	}
	switch f.kind {
	case fileField:
		l.bindFile(f, path, n, to)
	case tableField:
		l.bindTable(f, path, n, to)
	default:
		v, fault := f.parse(n.text, false)
		if fault != nil {
			l.add(n.at, path, fault)
			return
		}
		to.Set(v)
	}
}

func (l *loader) bindList(f *field, path string, n *node, to reflect.Value) {
	if n.kind == scalarNode && n.text == "" {
		return // An empty default.
	}
	if n.kind != listNode {
		l.add(n.at, path, faultf("write it in brackets, such as [1, 2]", "expected a list, not %v", n.kind))
		return
	}
	list := reflect.MakeSlice(f.typ, len(n.items), len(n.items))
	for i, item := range n.items {
		l.bind(f.elem, fmt.Sprintf("%s[%d]", path, i), item, list.Index(i))
	}
	to.Set(list)
}

func (l *loader) bindFile(f *field, path string, n *node, to reflect.Value) {
	if n.text == "" && f.hasFallback && f.fallback == "" {
		return // No file is what the default says.
	}
	if !l.openable(path, n) {
		return
	}
	data, fault := readFile(l.files, n.text, maxFile)
	if fault != nil {
		l.add(n.at, path, fault)
		return
	}
	to.Set(reflect.ValueOf(sim.File{Name: n.text, Data: data}))
}

// openable checks that the file named by n is there and is one whose reading ends.
func (l *loader) openable(path string, n *node) bool {
	if n.text == "" || strings.ContainsRune(n.text, 0) {
		l.add(n.at, path, faultf("files are named relative to the scenario", "expected the name of a file"))
		return false
	}
	file, fault := l.files.open(n.text)
	if fault != nil {
		fault.help = strings.TrimPrefix(fault.help+"; files are named relative to the scenario", "; ")
		l.add(n.at, path, fault)
		return false
	}
	file.Close()
	return true
}

// help says what a value of the field looks like.
func (f *field) help() string {
	parts := []string{"expected " + f.valueText()}
	switch f.kind {
	case textField:
		if len(f.enum) > 0 {
			parts = []string{"allowed: " + strings.Join(f.enum, ", ")}
		}
	case intField, uintField, floatField, durationField:
		if f.measure.name != "" {
			parts = []string{f.measure.expected()}
		} else if f.kind == floatField {
			parts = []string{"expected a number"}
		}
		if r := f.rangeText(); r != "" {
			parts = append(parts, r)
		}
	case fileField, tableField:
		parts = append(parts, "named relative to the scenario")
	}
	if f.doc != "" {
		parts = append(parts, "it means: "+f.doc)
	}
	return strings.Join(parts, "; ")
}

func (f *field) leaveOut() string {
	if f.hasFallback {
		return fmt.Sprintf("give one, or leave the line out for the default %s", quote(f.fallback))
	}
	return f.help()
}
