package scenario

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Bounds of a table.
const (
	maxTable = 256 << 20
	// maxRow bounds a row, which an unclosed quote can make as long as the file.
	maxRow = 1 << 20
	// maxTableProblems bounds how many problems of one table are listed.
	maxTableProblems = 20
)

// tableFile remembers where the rows of a table are.
type tableFile struct {
	path string
	// lines of the data rows.
	lines []int32
}

// bindTable reads the table that n names.
func (l *loader) bindTable(f *field, path string, n *node, to reflect.Value) {
	if n.text == "" && f.hasFallback && f.fallback == "" {
		return // No table is what the default says.
	}
	if !l.openable(path, n) {
		return
	}
	file, fault := l.files.open(n.text)
	if fault != nil {
		l.add(n.at, path, fault)
		return
	}
	defer file.Close()
	name := l.files.shown(n.text)
	r := newTableReader(f, path, name, file, &l.report)
	to.Set(r.read())
	l.tables[f.name] = &tableFile{name, r.lines}
}

// tableReader reads one CSV file (RFC 4180, with or without a byte order mark).
type tableReader struct {
	field  *field
	path   string
	file   string
	input  *boundedReader
	csv    *csv.Reader
	report *report
	// found counts problems; last is the place of the last one listed.
	found int
	last  place
	// at gives the place of each column in a record, or -1.
	at []int
	// seen holds the line of each value of the key columns.
	seen   []map[any]int
	header []string
	lines  []int32
	// next is the line after the last row, blank lines left out.
	next int
}

func newTableReader(f *field, path, file string, r io.Reader, to *report) *tableReader {
	input := &boundedReader{input: skipBOM(r), left: maxRow, total: maxTable}
	c := csv.NewReader(input)
	c.ReuseRecord = true
	return &tableReader{field: f, path: path, file: file, input: input, csv: c, report: to, next: 1}
}

func skipBOM(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	if start, _ := b.Peek(3); bytes.Equal(start, []byte("\xef\xbb\xbf")) {
		_, _ = b.Discard(3)
	}
	return b
}

// boundedReader ends with an error when a row or the file is too long.
type boundedReader struct {
	input       io.Reader
	left, total int64
}

var (
	errLongRow   = errors.New("row too long")
	errLongTable = errors.New("table too long")
)

func (b *boundedReader) Read(p []byte) (int, error) {
	switch {
	case b.left <= 0:
		return 0, errLongRow
	case b.total <= 0:
		return 0, errLongTable
	}
	n, err := b.input.Read(p)
	b.left -= int64(n)
	b.total -= int64(n)
	return n, err
}

// read returns the rows as a slice. Rows with problems are left out.
func (t *tableReader) read() reflect.Value {
	rows := reflect.MakeSlice(t.field.typ, 0, 0)
	if !t.readHeader() {
		return rows
	}
	row := reflect.New(t.field.typ.Elem()).Elem()
	for {
		t.input.left = maxRow
		record, err := t.csv.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if t.csvProblem(err, len(record)) {
				continue
			}
			break
		}
		line, _ := t.csv.FieldPos(0)
		t.passed(record)
		row.SetZero()
		if t.readRow(record, line, row) {
			rows = reflect.Append(rows, row)
			t.lines = append(t.lines, int32(line))
		}
	}
	if more := t.found - maxTableProblems; more > 0 {
		t.report.add(t.last, t.path, faultf("mend these first", "and %d more problems in this table", more))
	}
	return rows
}

// passed notes where a row ended.
func (t *tableReader) passed(record []string) {
	last := len(record) - 1
	line, _ := t.csv.FieldPos(last)
	t.next = line + strings.Count(record[last], "\n") + 1
}

// problem reports a fault of the table, up to a bound.
func (t *tableReader) problem(line, column int, name string, f *fault) {
	t.found++
	if t.found > maxTableProblems {
		return
	}
	path := t.path
	if name != "" {
		path = join(path, name)
	}
	t.last = place{t.file, line, column}
	t.report.add(t.last, path, f)
}

// csvProblem reports an error of the CSV reader and tells whether reading can go on.
func (t *tableReader) csvProblem(err error, cells int) bool {
	line, column := 1, 1
	var p *csv.ParseError
	if errors.As(err, &p) {
		line, column, err = p.Line, max(p.Column, 1), p.Err
		t.next = line + 1
	} else if cells > 0 {
		line, _ = t.csv.FieldPos(0)
	} else {
		line = t.next // The reader does not tell where a quoted cell without an end begins.
	}
	switch {
	case errors.Is(err, csv.ErrFieldCount):
		t.problem(line, 1, "", faultf("put text that holds commas into quotes", "the row has %d cells and the header has %d", cells, len(t.header)))
		return true
	case errors.Is(err, csv.ErrQuote), errors.Is(err, csv.ErrBareQuote):
		t.problem(line, column, "", faultf("put the cell into quotes, and write a quote inside as \"\"", "a quote in the wrong place"))
		return true
	case errors.Is(err, errLongRow):
		t.problem(line, column, "", faultf("is a closing quote missing?", "a row is longer than %s", size(maxRow)))
	case errors.Is(err, errLongTable):
		t.problem(line, column, "", faultf("leave out columns that are not used", "the table is larger than %s", size(maxTable)))
	default:
		t.problem(line, column, "", faultf("", "cannot be read: %s", reason(err)))
	}
	return false
}

// readHeader finds the columns by name.
func (t *tableReader) readHeader() bool {
	record, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		t.problem(1, 1, "", faultf("begin with a header: "+strings.Join(t.wanted(), ","), "the table is empty"))
		return false
	}
	if err != nil {
		t.csvProblem(err, len(record))
		return false
	}
	t.passed(record)
	for _, name := range record {
		t.header = append(t.header, strings.TrimSpace(name))
	}
	before := t.found
	t.at = make([]int, len(t.field.columns))
	t.seen = make([]map[any]int, len(t.field.columns))
	for i, c := range t.field.columns {
		t.at[i] = t.findColumn(c)
		if c.key {
			t.seen[i] = map[any]int{}
		}
	}
	return t.found == before
}

func (t *tableReader) wanted() []string {
	var names []string
	for _, c := range t.field.columns {
		names = append(names, c.name)
	}
	return names
}

func (t *tableReader) findColumn(c *field) int {
	found := -1
	for i, name := range t.header {
		if name != c.name {
			continue
		}
		if found >= 0 {
			line, column := t.csv.FieldPos(i)
			t.problem(line, column, c.name, faultf("keep one", "two columns have this name"))
		}
		found = i
	}
	if found < 0 && !c.optional {
		t.problem(1, 1, c.name, faultf(t.headerHelp(c.name), "the table has no column %q", c.name))
	}
	return found
}

// headerHelp names the columns that there are; a hostile header is cut.
func (t *tableReader) headerHelp(name string) string {
	shown := make([]string, 0, len(t.header))
	for i, h := range t.header {
		if i == 20 {
			shown = append(shown, fmt.Sprintf("and %d more", len(t.header)-i))
			break
		}
		shown = append(shown, strings.Trim(quote(h), `"`))
	}
	help := "columns there are: " + strings.Join(shown, ", ")
	if near := nearest(name, t.header); near != "" {
		help = fmt.Sprintf("rename the column %q? %s", near, help)
	}
	return help
}

// readRow reads the cells of one record into row.
func (t *tableReader) readRow(record []string, line int, row reflect.Value) bool {
	ok := true
	for i, c := range t.field.columns {
		text := ""
		if t.at[i] >= 0 {
			text = record[t.at[i]]
		}
		v, fault := t.cell(c, text)
		if fault == nil && t.seen[i] != nil {
			fault = t.unique(i, v, line, text)
		}
		if fault != nil {
			ok = false
			l, column := t.csv.FieldPos(max(t.at[i], 0))
			t.problem(l, column, c.name, fault)
			continue
		}
		if v.IsValid() {
			row.Field(c.index).Set(v)
		}
	}
	return ok
}

// cell reads one cell; the value is invalid if the zero value is meant.
func (t *tableReader) cell(c *field, text string) (v reflect.Value, _ *fault) {
	if !utf8.ValidString(text) {
		return v, faultf("save the table as UTF-8", "%s is not valid UTF-8", quote(text))
	}
	if c.kind != textField {
		text = strings.TrimSpace(text)
	}
	if text != "" {
		return c.parse(text, true)
	}
	switch {
	case c.hasFallback && c.fallback != "":
		return c.parse(c.fallback, true)
	case c.optional || c.kind == textField && !c.key && len(c.enum) == 0:
		return v, nil
	}
	return v, faultf(c.cellHelp(), "the cell is empty")
}

func (f *field) cellHelp() string {
	if f.measure.name != "" {
		return fmt.Sprintf("expected a number in %s, or with its unit", f.measure.name)
	}
	return f.help()
}

// unique refuses a value of a key column that an earlier row has.
func (t *tableReader) unique(i int, v reflect.Value, line int, text string) *fault {
	if !v.IsValid() {
		return nil
	}
	key := v.Interface()
	if first, is := t.seen[i][key]; is {
		return faultf("keep one", "duplicate %s: lines %d and %d", quote(text), first, line)
	}
	t.seen[i][key] = line
	return nil
}
