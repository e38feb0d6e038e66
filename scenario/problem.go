package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong with a scenario.
type Problem struct {
	// File is the scenario, a table, or the flag that gave the value ("--set").
	File string
	// Line and Column count from 1; 0 where there is no place in a file.
	Line, Column int
	// Field is the path of the value, such as "params.radars".
	Field string
	// Text says what is wrong.
	Text string
	// Help says what is allowed, and the nearest right spelling.
	Help string
}

// String prints "file:line:column: field: text; help".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	switch {
	case p.Field == "", p.File == "--"+p.Field:
		b.WriteString(": ")
	case strings.HasPrefix(p.File, "--"):
		b.WriteString(" " + p.Field + ": ")
	default:
		b.WriteString(": " + p.Field + ": ")
	}
	b.WriteString(p.Text)
	if p.Help != "" {
		b.WriteString("; " + p.Help)
	}
	return b.String()
}

// Problems is everything that is wrong with a scenario, sorted by file, line and column.
type Problems []Problem

// Error prints one problem a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, q := range p {
		lines[i] = q.String()
	}
	return strings.Join(lines, "\n")
}

// maxProblems bounds how many problems are listed; the others are counted.
const maxProblems = 200

// fault is what is wrong with a value, before its place is known.
type fault struct{ text, help string }

func faultf(help, format string, args ...any) *fault {
	return &fault{fmt.Sprintf(format, args...), help}
}

// report collects problems.
type report struct {
	list  Problems
	count int
}

func (r *report) add(at place, field string, f *fault) {
	r.count++
	if r.count <= maxProblems {
		r.list = append(r.list, Problem{at.file, at.line, at.column, field, oneLine(f.text), oneLine(f.help)})
	}
}

// oneLine keeps the messages of models and libraries on the line of their problem.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}

// err returns the sorted problems, or nil if there are none.
func (r *report) err() error {
	if r.count == 0 {
		return nil
	}
	slices.SortStableFunc(r.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if more := r.count - maxProblems; more > 0 {
		last := r.list[len(r.list)-1]
		r.list = append(r.list, Problem{File: last.File, Line: last.Line, Column: last.Column,
			Text: fmt.Sprintf("and %d more problems", more), Help: "mend these first"})
	}
	return r.list
}

// quote prints user text for a message: quoted, and cut to a length that people read.
func quote(s string) string {
	const most = 60
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%q...", s[:cut])
}

// choose prints what is allowed, with the nearest right spelling of got first if one is near.
func choose(got, what string, allowed []string) string {
	list := "allowed: " + strings.Join(allowed, ", ")
	if len(allowed) == 0 {
		list = "there are no " + what
	}
	if near := nearest(got, allowed); near != "" {
		return fmt.Sprintf("did you mean %q? %s", near, list)
	}
	return list
}

// nearest returns the candidate with the least edit distance to word, or "" if none is near. The
// first of equals wins.
func nearest(word string, candidates []string) string {
	if word == "" || len(word) > 64 {
		return ""
	}
	best, bestDistance := "", 1+max(1, utf8.RuneCountInString(word)/3)
	for _, c := range candidates {
		d := editDistance([]rune(strings.ToLower(word)), []rune(strings.ToLower(c)))
		if d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance counts insertions, deletions, changes and swaps of neighbours (optimal string
// alignment; F. Damerau, "A technique for computer detection and correction of spelling errors",
// 1964).
func editDistance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(last[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
