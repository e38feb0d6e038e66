package life

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// MaxSide is the largest width and height of a pattern, MaxLive the most live cells in one.
const (
	MaxSide = 1 << 20
	MaxLive = 1 << 22
)

// Cell is the place of a live cell: column and row, from 0, rows downwards.
type Cell struct{ Col, Row int32 }

// Pattern is what an RLE file holds.
type Pattern struct {
	Width, Height int
	Rule          Rule
	// Live cells by row, then column.
	Live []Cell
}

// Rule says, for each number of live neighbours, whether a cell is born and whether it survives: bit n
// for n neighbours.
type Rule struct{ Birth, Survival uint16 }

// conway is B3/S23.
func conway() Rule { return Rule{Birth: 1 << 3, Survival: 1<<2 | 1<<3} }

// Next returns whether a cell lives on with n live neighbours.
func (r Rule) Next(alive bool, n uint8) bool {
	if alive {
		return r.Survival>>n&1 == 1
	}
	return r.Birth>>n&1 == 1
}

// String prints the rule as B.../S....
func (r Rule) String() string { return "B" + digits(r.Birth) + "/S" + digits(r.Survival) }

func digits(set uint16) string {
	var b strings.Builder
	for ; set != 0; set &= set - 1 {
		b.WriteByte('0' + byte(bits.TrailingZeros16(set)))
	}
	return b.String()
}

// ParseRule reads a rule as B3/S23 or, in the older order, as 23/3; letters may be small. Rules with
// B0 are refused: in them empty space changes, so no cell is ever quiet.
func ParseRule(text string) (Rule, error) {
	first, second, ok := strings.Cut(strings.TrimSpace(text), "/")
	if !ok || len(text) > 40 {
		return Rule{}, fmt.Errorf("rule %.40q: write it as B3/S23", text)
	}
	birth, survival := first, second
	if !strings.HasPrefix(strings.ToUpper(first), "B") {
		birth, survival = second, first
	} else if !strings.HasPrefix(strings.ToUpper(second), "S") {
		return Rule{}, fmt.Errorf("rule %q: after the slash an S must follow, as in B3/S23", text)
	}
	b, errB := neighbourCounts(strings.TrimLeft(birth, "Bb"))
	s, errS := neighbourCounts(strings.TrimLeft(survival, "Ss"))
	switch {
	case errB != nil:
		return Rule{}, fmt.Errorf("rule %q: %w", text, errB)
	case errS != nil:
		return Rule{}, fmt.Errorf("rule %q: %w", text, errS)
	case b&1 == 1:
		return Rule{}, fmt.Errorf("rule %q: B0 is not possible here: empty space would change everywhere", text)
	}
	return Rule{b, s}, nil
}

func neighbourCounts(text string) (set uint16, err error) {
	for _, c := range text {
		if c < '0' || c > '8' {
			return 0, fmt.Errorf("%q is not a number of neighbours: use the digits 0 to 8", c)
		}
		set |= 1 << (c - '0')
	}
	return set, nil
}

// SyntaxError is a fault in an RLE file.
type SyntaxError struct {
	// Name of the file; Line and Column from 1, in bytes.
	Name         string
	Line, Column int
	// Text says what is wrong and what was expected.
	Text string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, e.Text)
}

// ParseRLE reads a pattern in the run length encoded format (LifeWiki, "Run Length Encoded"): lines
// that begin with # are comments; the header is "x = 3, y = 3, rule = B3/S23", the rule being
// optional; then runs of b (dead), o (live) and $ (end of row), each with an optional count before
// it, ended by !. What follows is ignored. name appears in errors.
//
// Memory and time are in proportion to the text and the live cells, which are bounded by the header
// and MaxLive, whatever the counts say.
func ParseRLE(name string, text []byte) (Pattern, error) {
	r := reader{name: name, text: text, line: 1}
	r.skipComments()
	if err := r.header(); err != nil {
		return Pattern{}, err
	}
	if err := r.body(); err != nil {
		return Pattern{}, err
	}
	return r.p, nil
}

// reader walks through the text of an RLE file.
type reader struct {
	name  string
	text  []byte
	at    int
	line  int // number of the line that holds at
	start int // where that line begins
	p     Pattern
	// col and row are where the next run begins.
	col, row int
}

// place is a line and a column, from 1.
type place struct{ line, column int }

// place returns the place of offset at, which is in the current line.
func (r *reader) place(at int) place { return place{r.line, at - r.start + 1} }

// fail returns an error at an offset in the current line, failAt one at any place.
func (r *reader) fail(at int, format string, args ...any) error {
	return r.failAt(r.place(at), format, args...)
}

func (r *reader) failAt(at place, format string, args ...any) error {
	return &SyntaxError{Name: r.name, Line: at.line, Column: at.column, Text: fmt.Sprintf(format, args...)}
}

// skipLine moves to the next line.
func (r *reader) skipLine() {
	n := bytes.IndexByte(r.text[r.at:], '\n')
	if n < 0 {
		r.at = len(r.text)
		return
	}
	r.at += n + 1
	r.line++
	r.start = r.at
}

// skipComments moves to the next line that is neither empty nor a comment.
func (r *reader) skipComments() {
	for r.at < len(r.text) {
		line := r.text[r.at:]
		if n := bytes.IndexByte(line, '\n'); n >= 0 {
			line = line[:n]
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return
		}
		r.skipLine()
	}
}

func (r *reader) header() error {
	if r.at == len(r.text) {
		return r.fail(r.at, "no header: expected a line like \"x = 3, y = 3, rule = B3/S23\"")
	}
	line := r.text[r.at:]
	if n := bytes.IndexByte(line, '\n'); n >= 0 {
		line = line[:n]
	}
	if len(line) > 1000 {
		return r.fail(r.at, "a header of %d characters: expected a line like \"x = 3, y = 3, rule = B3/S23\"", len(line))
	}
	r.p.Rule = conway()
	at := r.at
	for i, field := range strings.Split(string(line), ",") {
		if err := r.headerField(i, at, field); err != nil {
			return err
		}
		at += len(field) + 1
	}
	if r.p.Height == 0 {
		return r.fail(r.at, "the header needs x and y, as in \"x = 3, y = 3\"")
	}
	r.skipLine()
	return nil
}

func (r *reader) headerField(i, at int, field string) error {
	key, value, ok := strings.Cut(field, "=")
	key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
	want := []string{"x", "y", "rule"}
	if !ok || i >= len(want) || key != want[i] {
		return r.fail(at, "%.40q: expected a header like \"x = 3, y = 3, rule = B3/S23\"", field)
	}
	if key == "rule" {
		rule, err := ParseRule(value)
		if err != nil {
			return r.fail(at, "%v", err)
		}
		r.p.Rule = rule
		return nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > MaxSide {
		return r.fail(at, "%s = %.40s: expected a whole number from 1 to %d", key, value, MaxSide)
	}
	if key == "x" {
		r.p.Width = n
		return nil
	}
	r.p.Height = n
	return nil
}

func (r *reader) body() error {
	count, counted, countAt := 0, false, place{}
	for r.at < len(r.text) {
		at, c := r.at, r.text[r.at]
		switch {
		case c == '\n':
			r.skipLine()
			if r.at < len(r.text) && r.text[r.at] == '#' {
				r.skipLine()
			}
			continue
		case c == ' ' || c == '\t' || c == '\r':
			r.at++
			continue
		case c >= '0' && c <= '9':
			if !counted {
				counted, countAt = true, r.place(at)
			}
			count = min(count*10+int(c-'0'), 1<<40)
			r.at++
			continue
		}
		if counted && count == 0 {
			return r.failAt(countAt, "a run of 0: leave it out")
		}
		if !counted {
			count, countAt = 1, r.place(at)
		}
		if c == '!' {
			if counted {
				return r.failAt(countAt, "a count before the end mark \"!\": expected b, o or $ after it")
			}
			return nil
		}
		if err := r.run(c, count, countAt); err != nil {
			return err
		}
		count, counted = 0, false
		r.at++
	}
	return r.fail(r.at, "the pattern is not ended: expected \"!\"")
}

// run takes count times tag c.
func (r *reader) run(c byte, count int, at place) error {
	switch c {
	case '$':
		if count > r.p.Height-r.row {
			return r.failAt(at, "more rows than y = %d of the header", r.p.Height)
		}
		r.row, r.col = r.row+count, 0
		return nil
	case 'b', 'o':
	default:
		return r.fail(r.at, "%q is not part of a pattern: expected b (dead), o (live), $ (end of row), a count or ! (end)", rune(c))
	}
	switch {
	case r.row >= r.p.Height:
		return r.failAt(at, "more rows than y = %d of the header", r.p.Height)
	case count > r.p.Width-r.col:
		return r.failAt(at, "row %d has more cells than x = %d of the header", r.row+1, r.p.Width)
	case c == 'o' && count > MaxLive-len(r.p.Live):
		return r.failAt(at, "more than %d live cells", MaxLive)
	}
	if c == 'o' {
		r.p.Live = slices.Grow(r.p.Live, count)
		for i := range count {
			r.p.Live = append(r.p.Live, Cell{int32(r.col + i), int32(r.row)})
		}
	}
	r.col += count
	return nil
}
