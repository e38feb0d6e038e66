package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// shownRows is how many elements of a list are shown.
const shownRows = 100

// tree is a value of the results as the template shows it: a text, or named parts, or a table.
type tree struct {
	Text  string
	Parts []part
	Head  []string
	Rows  [][]*tree
	// More says how many elements are not shown.
	More string
}

type part struct {
	Name  string
	Value *tree
}

// newTree makes the tree of anything that JSON can hold, or nil for nothing.
func newTree(v any) (*tree, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if m, ok := value.(map[string]any); value == nil || ok && len(m) == 0 {
		return nil, nil
	}
	return grow(value), nil
}

func grow(v any) *tree {
	switch v := v.(type) {
	case nil:
		return &tree{Text: "–"}
	case json.Number:
		return &tree{Text: jsonNumber(v)}
	case map[string]any:
		t := &tree{}
		for _, name := range keys(v) {
			t.Parts = append(t.Parts, part{name, grow(v[name])})
		}
		return t.orText("–")
	case []any:
		return growList(v)
	}
	return &tree{Text: fmt.Sprint(v)}
}

func (t *tree) orText(text string) *tree {
	if len(t.Parts) == 0 {
		t.Text = text
	}
	return t
}

func jsonNumber(n json.Number) string {
	if !strings.ContainsAny(n.String(), ".eE") {
		return group(n.String())
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	return number(f)
}

func keys(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, compareKeys)
	return names
}

// compareKeys orders whole numbers by value before names by text.
func compareKeys(a, b string) int {
	m, errM := strconv.ParseInt(a, 10, 64)
	n, errN := strconv.ParseInt(b, 10, 64)
	switch {
	case errM == nil && errN == nil && m != n:
		return cmp.Compare(m, n)
	case (errM == nil) != (errN == nil):
		if errM == nil {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}

// growList makes a table of a list of objects and a line of a list of anything else.
func growList(list []any) *tree {
	t := &tree{}
	if len(list) > shownRows {
		t.More = fmt.Sprintf("and %s more", group(fmt.Sprint(len(list)-shownRows)))
		list = list[:shownRows]
	}
	if t.Head = commonKeys(list); t.Head == nil {
		var texts []string
		for _, v := range list {
			texts = append(texts, flat(v))
		}
		t.Text = strings.Join(texts, ", ")
		if len(list) == 0 {
			t.Text = "–"
		}
		return t
	}
	for _, v := range list {
		var row []*tree
		for _, name := range t.Head {
			row = append(row, grow(v.(map[string]any)[name]))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// commonKeys returns all keys of a list of objects, or nil if it is another list.
func commonKeys(list []any) []string {
	all := make(map[string]any)
	for _, v := range list {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		for name := range m {
			all[name] = nil
		}
	}
	if len(all) == 0 {
		return nil
	}
	return keys(all)
}

// flat prints an element of a list in one line.
func flat(v any) string {
	switch v.(type) {
	case map[string]any, []any:
		data, err := json.Marshal(v)
		if err != nil {
			return "–"
		}
		return string(data)
	}
	return grow(v).Text
}
