package life

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// encodeRLE writes a pattern in lines of at most 70 characters: the inverse of ParseRLE.
func encodeRLE(p Pattern) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#C written by a test\nx = %d, y = %d, rule = %s\n", p.Width, p.Height, p.Rule)
	line := 0
	put := func(n int, tag byte) {
		s := string(tag)
		if n > 1 {
			s = fmt.Sprint(n) + s
		}
		if line+len(s) > 70 {
			b.WriteByte('\n')
			line = 0
		}
		line += len(s)
		b.WriteString(s)
	}
	at := Cell{}
	for i := 0; i < len(p.Live); {
		c, n := p.Live[i], 1
		for i+n < len(p.Live) && p.Live[i+n] == (Cell{c.Col + int32(n), c.Row}) {
			n++
		}
		if c.Row > at.Row {
			put(int(c.Row-at.Row), '$')
			at = Cell{0, c.Row}
		}
		if c.Col > at.Col {
			put(int(c.Col-at.Col), 'b')
		}
		put(n, 'o')
		at.Col = c.Col + int32(n)
		i += n
	}
	return b.String() + "!\n"
}

// drawPattern draws a pattern within a box of at most the given side.
func drawPattern(t *rapid.T, side int) Pattern {
	p := Pattern{
		Width:  rapid.IntRange(1, side).Draw(t, "width"),
		Height: rapid.IntRange(1, side).Draw(t, "height"),
		Rule:   conway(),
	}
	if rapid.IntRange(0, 2).Draw(t, "other rule") == 0 {
		p.Rule = Rule{Birth: uint16(rapid.IntRange(0, 255).Draw(t, "birth")) << 1, Survival: uint16(rapid.IntRange(0, 511).Draw(t, "survival"))}
	}
	density := rapid.IntRange(0, 10).Draw(t, "density")
	cells := rapid.SliceOfN(rapid.IntRange(0, 9), p.Width*p.Height, p.Width*p.Height).Draw(t, "cells")
	for i, c := range cells {
		if c < density {
			p.Live = append(p.Live, Cell{int32(i % p.Width), int32(i / p.Width)})
		}
	}
	return p
}

func equal(a, b Pattern) bool {
	return a.Width == b.Width && a.Height == b.Height && a.Rule == b.Rule && slices.Equal(a.Live, b.Live)
}

func TestRLERoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPattern(t, 40)
		text := encodeRLE(p)
		q, err := ParseRLE("p.rle", []byte(text))
		if err != nil || !equal(p, q) {
			t.Fatalf("%v\n%s\n%+v\n%+v", err, text, p, q)
		}
		q, err = ParseRLE("p.rle", []byte(strings.ReplaceAll(text, "\n", "\r\n")))
		if err != nil || !equal(p, q) {
			t.Fatalf("with CRLF: %v", err)
		}
	})
}

func TestRLEForms(t *testing.T) {
	glider := Pattern{Width: 3, Height: 3, Rule: conway(), Live: []Cell{{1, 0}, {2, 1}, {0, 2}, {1, 2}, {2, 2}}}
	for _, text := range []string{
		"x = 3, y = 3, rule = B3/S23\nbob$2bo$3o!",
		"#N Glider\n#C a comment\n\nx=3,y=3\nbo$2bo$3o!",
		"x = 3, y = 3, rule = b3/s23\nb o b $\n2\nb o $ 3o ! and more text $$$$$$$$",
		"x = 3, y = 3, rule = 23/3\r\nbo$\r\n# in between\r\n2bo$3o!\r\n",
		"X = 3, Y = 3, RULE = B3/S23\nbo$bbo$ooo$!",
	} {
		p, err := ParseRLE("g.rle", []byte(text))
		if err != nil || !equal(p, glider) {
			t.Errorf("%q: %+v, %v", text, p, err)
		}
	}
}

func TestRLEErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "p:1:1: no header"},
		{"#C only\n#C comments\n", "p:3:1: no header"},
		{"bo$2bo$3o!", "p:1:1: \"bo$2bo$3o!\": expected a header"},
		{"x = 3\nooo!", "p:1:1: the header needs x and y"},
		{"x = 3, y = zero\nooo!", "p:1:7: y = zero: expected a whole number"},
		{"x = 0, y = 1\n!", "p:1:1: x = 0: expected a whole number from 1"},
		{"x = 99999999999999999999, y = 1\n!", "p:1:1: x = 99999999999999999999"},
		{"x = 3, y = 3, rule = B3/S29\n!", "p:1:14: rule \"B3/S29\": '9'"},
		{"x = 3, y = 3, rule = B03/S2\n!", "B0 is not possible"},
		{"x = 3, y = 3, rule = LifeHistory\n!", "write it as B3/S23"},
		{"x = 3, y = 3, rule = B3/S23:T10,10\n!", "':' is not a number of neighbours"},
		{"x = 3, y = 3\nbo$\n2bx$3o!", "p:3:3: 'x' is not part of a pattern"},
		{"x = 3, y = 3\nbo$2bo$3o", "p:2:10: the pattern is not ended"},
		{"x = 3, y = 3\nbo$\n2b2o!", "p:3:3: row 2 has more cells than x = 3"},
		{"x = 3, y = 3\n1000000000000o!", "p:2:1: row 1 has more cells than x = 3"},
		{"x = 3, y = 3\n99999999999999999999999999999o!", "p:2:1: row 1 has more cells"},
		{"x = 3, y = 3\n$$$$!", "p:2:4: more rows than y = 3"},
		{"x = 3, y = 3\n1000000000000$!", "p:2:1: more rows than y = 3"},
		{"x = 3, y = 3\n3$o!", "p:2:3: more rows than y = 3"},
		{"x = 3, y = 3\n1\n2o!", "p:2:1: row 1 has more cells than x = 3"},
		{"x = 3, y = 3\n0o!", "p:2:1: a run of 0"},
		{"x = 3, y = 3\n3o3!", "p:2:3: a count before the end mark"},
		{"x = 1048576, y = 1048576\n" + strings.Repeat("1048576o$", 5) + "!", "more than 4194304 live cells"},
	} {
		_, err := ParseRLE("p", []byte(c.text))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: got %v, want %s", c.text, err, c.want)
		}
	}
}

func TestRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rule{Birth: uint16(rapid.IntRange(0, 255).Draw(t, "birth")) << 1, Survival: uint16(rapid.IntRange(0, 511).Draw(t, "survival"))}
		got, err := ParseRule(r.String())
		if err != nil || got != r {
			t.Fatalf("%v: %v, %v", r, got, err)
		}
		older, err := ParseRule(digits(r.Survival) + "/" + digits(r.Birth))
		if err != nil || older != r {
			t.Fatalf("%v in the older order: %v, %v", r, older, err)
		}
	})
	for _, bad := range []string{"", "B3", "B3S23", "B3/23", "B9/S", "B3/S2x", "3b/2", strings.Repeat("1", 50) + "/3"} {
		if r, err := ParseRule(bad); err == nil {
			t.Errorf("%q gave %v", bad, r)
		}
	}
}

func FuzzRLE(f *testing.F) {
	f.Add("x = 3, y = 3, rule = B3/S23\nbo$2bo$3o!")
	f.Add("#C c\nx=1000000,y=1\r\n999999999999o!")
	f.Add("x = 3, y = 3, rule = 23/3\n3o$\n#\n$!")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseRLE("f.rle", []byte(text))
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Line < 1 || syntax.Column < 1 || len(err.Error()) > 1000 {
				t.Fatalf("%#v", err)
			}
			return
		}
		if len(p.Live) > 10_000 {
			return // The rest would only be slow.
		}
		for i, c := range p.Live {
			if c.Col < 0 || int(c.Col) >= p.Width || c.Row < 0 || int(c.Row) >= p.Height {
				t.Fatalf("cell %v is outside %d x %d", c, p.Width, p.Height)
			}
			if i > 0 && (c.Row < p.Live[i-1].Row || c.Row == p.Live[i-1].Row && c.Col <= p.Live[i-1].Col) {
				t.Fatalf("cell %v after %v", c, p.Live[i-1])
			}
		}
		if q, err := ParseRLE("f.rle", []byte(encodeRLE(p))); err != nil || !equal(p, q) {
			t.Fatalf("round trip: %v", err)
		}
	})
}

func TestShippedPattern(t *testing.T) {
	text, err := os.ReadFile("../../scenarios/data/r-pentomino.rle")
	if err != nil {
		t.Fatal(err)
	}
	p, err := ParseRLE("r-pentomino.rle", text)
	want := Pattern{Width: 3, Height: 3, Rule: conway(), Live: []Cell{{1, 0}, {2, 0}, {0, 1}, {1, 1}, {1, 2}}}
	if err != nil || !equal(p, want) {
		t.Errorf("%+v, %v", p, err)
	}
}
