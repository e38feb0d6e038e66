package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"strings"
)

// drawn are the elements that a picture may hold: all that draw or describe, none that runs or loads.
func drawn() map[string]bool {
	set := make(map[string]bool)
	for _, name := range strings.Fields(`svg g defs symbol use path rect circle ellipse line polyline polygon text tspan
		textPath title desc style clipPath mask pattern marker linearGradient radialGradient stop image
		filter feGaussianBlur feOffset feBlend feColorMatrix feMerge feMergeNode feFlood feComposite`) {
		set[name] = true
	}
	return set
}

// inline writes a picture again so that it can stand inside the page. Comments, declarations and
// namespaces are dropped, text is escaped anew, and what is not drawing is an error.
func inline(svg []byte) (string, error) {
	d := xml.NewDecoder(bytes.NewReader(svg))
	in := &inliner{drawn: drawn()}
	for {
		t, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			return in.end()
		}
		if err != nil {
			return "", fmt.Errorf("it is not well-formed: %w", err)
		}
		if err := in.token(t); err != nil {
			return "", err
		}
	}
}

type inliner struct {
	out   strings.Builder
	drawn map[string]bool
	stack []string
	done  bool
}

func (in *inliner) end() (string, error) {
	switch {
	case len(in.stack) > 0:
		return "", fmt.Errorf("element %s is not closed", in.stack[len(in.stack)-1])
	case !in.done:
		return "", errors.New("it holds no svg element")
	}
	return in.out.String(), nil
}

func (in *inliner) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		return in.start(t)
	case xml.EndElement:
		name := qualified(t.Name)
		if len(in.stack) == 0 || in.stack[len(in.stack)-1] != name {
			return fmt.Errorf("element %s is closed but not open", name)
		}
		in.stack = in.stack[:len(in.stack)-1]
		in.done = len(in.stack) == 0
		in.out.WriteString("</" + name + ">")
	case xml.CharData:
		if len(in.stack) > 0 {
			return in.text(string(t))
		}
	}
	return nil
}

func (in *inliner) text(s string) error {
	if in.stack[len(in.stack)-1] == "style" && loads(s) {
		return errors.New("its style refers to something outside the picture")
	}
	in.out.WriteString(html.EscapeString(s))
	return nil
}

func (in *inliner) start(e xml.StartElement) error {
	name := qualified(e.Name)
	switch {
	case in.done:
		return errors.New("it holds more than one svg element")
	case len(in.stack) == 0 && name != "svg":
		return fmt.Errorf("it begins with %s and not with svg", name)
	case !in.drawn[name]:
		return fmt.Errorf("it holds the element %s, which does not draw", name)
	}
	in.out.WriteString("<" + name)
	for _, a := range e.Attr {
		if a.Name.Space == "xmlns" || a.Name.Local == "xmlns" {
			continue
		}
		if reason := refuse(a); reason != "" {
			return fmt.Errorf("element %s: attribute %s %s", name, qualified(a.Name), reason)
		}
		in.out.WriteString(" " + qualified(a.Name) + `="` + html.EscapeString(a.Value) + `"`)
	}
	in.out.WriteString(">")
	in.stack = append(in.stack, name)
	return nil
}

// refuse says why an attribute cannot stand in the page, or nothing.
func refuse(a xml.Attr) string {
	local := strings.ToLower(a.Name.Local)
	switch {
	case strings.HasPrefix(local, "on"):
		return "runs a script"
	case local == "href" || local == "src":
		if !strings.HasPrefix(a.Value, "#") && !strings.HasPrefix(a.Value, "data:image/png;base64,") && !strings.HasPrefix(a.Value, "data:image/jpeg;base64,") {
			return "refers to something outside the picture"
		}
	case loads(a.Value):
		return "refers to something outside the picture"
	}
	return ""
}

// loads reports whether a style would load something: an import, or a url other than url(#id). CSS
// escapes could hide either and are refused with them.
func loads(style string) bool {
	s := strings.ToLower(style)
	if strings.ContainsAny(s, `\`) || strings.Contains(s, "@import") || strings.Contains(s, "image-set") {
		return true
	}
	for {
		_, after, found := strings.Cut(s, "url(")
		if !found {
			return false
		}
		if !strings.HasPrefix(strings.TrimLeft(after, ` "'`), "#") {
			return true
		}
		s = after
	}
}

func qualified(n xml.Name) string {
	if n.Space == "" {
		return n.Local
	}
	return n.Space + ":" + n.Local
}
