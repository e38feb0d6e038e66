package scenario

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// splitPath splits "params.report[2]" or "params.report.2" into its steps.
func splitPath(path string) []string {
	path = strings.ReplaceAll(strings.ReplaceAll(path, "[", "."), "]", "")
	if path == "" {
		return nil
	}
	return strings.Split(path, ".")
}

// child returns the value below n at a step of a path: a key or the index of a list.
func (n *node) child(step string) *node {
	if n.kind == listNode {
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.items) {
			return n.items[i]
		}
		return nil
	}
	if e := n.get(step); e != nil {
		return e.value
	}
	return nil
}

// applySets applies the overrides of one path or, if only is empty, all others. Keys that do not
// exist are reported where all keys are checked.
func (l *loader) applySets(only string) {
	for _, s := range l.options.Set {
		path, value, ok := strings.Cut(s, "=")
		path = strings.TrimSpace(path)
		at := place{file: "--set"}
		if (path == "model") != (only == "model") {
			continue
		}
		if !ok || path == "" {
			l.add(at, join("", s), faultf("write --set path=value, such as --set params.radars=10", "there is no %s", missing(ok)))
			continue
		}
		if !isPath(path) {
			l.add(at, join("", path), faultf("write --set path=value, such as --set params.radars=10", "%s is not a path", quote(path)))
			continue
		}
		v := l.parseSet(at, path, value)
		if v == nil {
			continue
		}
		if f := l.set(at, path, v); f != nil {
			l.add(at, path, f)
		}
	}
}

// isPath tells a path from text that cannot be one.
func isPath(s string) bool {
	steps := splitPath(s)
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	return len(s) <= 200 && len(steps) > 0 && !slices.Contains(steps, "") && !strings.ContainsFunc(s, odd)
}

func missing(hasSign bool) string {
	if hasSign {
		return "path before \"=\""
	}
	return "\"=\""
}

// parseSet reads the value of an override and marks it as coming from there.
func (l *loader) parseSet(at place, path, value string) *node {
	if len(value) > maxScenario {
		l.add(at, path, faultf("", "the value is larger than %s", size(maxScenario)))
		return nil
	}
	var r report
	v := parseYAML(at.file, []byte(value), &r)
	for _, p := range r.list {
		l.add(at, path, faultf(p.Help, "%s", p.Text))
	}
	if v == nil || r.count > 0 {
		return nil
	}
	v.moveTo(at)
	return v
}

func (n *node) moveTo(at place) {
	n.at = at
	for _, i := range n.items {
		i.moveTo(at)
	}
	for _, e := range n.entries {
		e.at = at
		e.value.moveTo(at)
	}
}

// set puts v at path, making sections on the way.
func (l *loader) set(at place, path string, v *node) *fault {
	steps := splitPath(path)
	n := l.root
	for i, step := range steps[:len(steps)-1] {
		if next := n.child(step); next != nil && next.kind != nullNode {
			n = next
			continue
		}
		next := l.defaultList(steps[:i+1])
		if next == nil {
			next = &node{kind: mapNode, at: at}
		}
		if f := n.put(at, step, next); f != nil {
			return f
		}
		n = next
	}
	return n.put(at, steps[len(steps)-1], v)
}

// put sets the value of a key, or of an element of a list that is there.
func (n *node) put(at place, step string, v *node) *fault {
	switch n.kind {
	case listNode:
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i >= len(n.items) {
			return faultf("elements count from 0", "the list has %d elements and none at %s", len(n.items), quote(step))
		}
		n.items[i] = v
	case mapNode:
		if e := n.get(step); e != nil {
			e.at, e.value = at, v
			return nil
		}
		n.entries = append(n.entries, &entry{step, at, v})
	default:
		return faultf("set the whole value", "there is %v above %s, not a section or a list", n.kind, quote(step))
	}
	return nil
}

// defaultList gives the default of a list parameter as a list to set elements of, or nil.
func (l *loader) defaultList(steps []string) *node {
	if len(steps) != 2 || steps[0] != "params" {
		return nil
	}
	for _, f := range l.fields {
		if f.name != steps[1] || f.kind != listField || !f.hasFallback {
			continue
		}
		if n := f.defaultList(); n != nil {
			n.moveTo(place{file: "--set"})
			return n
		}
	}
	return nil
}
