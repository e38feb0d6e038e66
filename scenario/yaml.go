package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a scenario file. The parser recurses and needs quadratic time on hostile nesting, so the
// tokens are counted before it sees them.
const (
	maxScenario = 1 << 20
	maxTokens   = 20_000
	maxNesting  = 32
	maxIndent   = 200
)

// place is where a value was written.
type place struct {
	file         string
	line, column int
}

type nodeKind uint8

const (
	nullNode nodeKind = iota
	scalarNode
	listNode
	mapNode
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "a single value", "a list", "a section of keys"}[k]
}

// node is a value of a scenario: the part of YAML that scenarios use.
type node struct {
	kind    nodeKind
	at      place
	text    string
	items   []*node
	entries []*entry
}

// entry is a key of a section with its value.
type entry struct {
	key   string
	at    place
	value *node
}

// get returns the first entry with the key, or nil.
func (n *node) get(key string) *entry {
	if n == nil {
		return nil
	}
	for _, e := range n.entries {
		if e.key == key {
			return e
		}
	}
	return nil
}

// parseYAML reads one document; it returns nil if it reported a problem. A document of comments
// alone is a null node.
func parseYAML(file string, data []byte, r *report) (root *node) {
	defer func() {
		if p := recover(); p != nil {
			root = nil
			r.add(place{file, 1, 1}, "", faultf("write it in plain block style", "the YAML parser cannot read this file (%v)", p))
		}
	}()
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !checkText(file, data, r) {
		return nil
	}
	tokens := lexer.Tokenize(string(data))
	if !checkTokens(file, tokens, r) {
		return nil
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.add(syntaxFault(file, err))
		return nil
	}
	if len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil {
		return &node{at: place{file, 1, 1}}
	}
	if len(parsed.Docs) > 1 {
		r.add(secondDocument(file, parsed.Docs[1]), "", faultf("keep one", "a scenario is one YAML document, and here a second one begins"))
		return nil
	}
	c := converter{file: file, report: r}
	return c.node(parsed.Docs[0].Body, "")
}

func secondDocument(file string, d *ast.DocumentNode) place {
	if d.Start != nil && d.Start.Position != nil {
		return place{file, d.Start.Position.Line, d.Start.Position.Column}
	}
	if d.Body != nil {
		return tokenPlace(file, d.Body.GetToken())
	}
	return place{file, 1, 1}
}

// checkText refuses what is not text.
func checkText(file string, data []byte, r *report) bool {
	line, start := 1, 0
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		// Counted on demand: the line may be as long as the file.
		at := func() place { return place{file, line, utf8.RuneCount(data[start:i]) + 1} }
		switch {
		case c == utf8.RuneError && size == 1:
			r.add(at(), "", faultf("save the file as UTF-8", "byte 0x%02x is not valid UTF-8", data[i]))
			return false
		case c == '\n':
			line, start = line+1, i+1
		case c < ' ' && c != '\t' && c != '\r', c == 0x7f:
			r.add(at(), "", faultf("is this a text file? remove the character", "control character 0x%02x", c))
			return false
		}
		i += size
	}
	return true
}

// checkTokens refuses what scenarios do not use and what would make the parser slow.
func checkTokens(file string, tokens token.Tokens, r *report) bool {
	if len(tokens) > maxTokens {
		r.add(place{file, 1, 1}, "", faultf("put large data into a CSV table", "the file has %d words and signs, and at most %d are read", len(tokens), maxTokens))
		return false
	}
	depth, line, dashes := 0, 0, 0
	for _, t := range tokens {
		if f := refuse(t.Type); f != nil {
			r.add(tokenPlace(file, t), "", f)
			return false
		}
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
			if t.Position.Column > maxIndent && depth == 0 && t.Type != token.CommentType {
				r.add(tokenPlace(file, t), "", faultf("indent by two spaces a level", "this line is indented by more than %d columns", maxIndent))
				return false
			}
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingValueType:
			dashes++
		case token.CollectEntryType:
			dashes = 0
		}
		if depth > maxNesting || dashes > maxNesting {
			r.add(tokenPlace(file, t), "", faultf("", "nested more than %d deep", maxNesting))
			return false
		}
	}
	return true
}

func refuse(t token.Type) *fault {
	switch t {
	case token.AnchorType, token.AliasType, token.MergeKeyType:
		return faultf("write the value out where it is needed", "anchors, aliases and merge keys are not used in scenarios")
	case token.TagType:
		return faultf("remove the tag; put text that begins with ! into quotes", "YAML tags are not used in scenarios")
	case token.MappingKeyType:
		return faultf("write \"key: value\"", "complex keys (?) are not used in scenarios")
	case token.DirectiveType:
		return faultf("remove it", "YAML directives (%%) are not used in scenarios")
	}
	return nil
}

func tokenPlace(file string, t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{file, 1, 1}
	}
	return place{file, max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

// syntaxFault turns an error of the parser into a problem.
func syntaxFault(file string, err error) (place, string, *fault) {
	var y yaml.Error
	if !errors.As(err, &y) {
		return place{file, 1, 1}, "", faultf("", "not valid YAML: %s", firstLine(err.Error()))
	}
	message, help := firstLine(y.GetMessage()), ""
	switch {
	case strings.Contains(message, `\t`) || strings.Contains(message, "\t"):
		message, help = "a tab where spaces are needed", "YAML is indented with spaces"
	case strings.Contains(message, "mapping value is not allowed"):
		help = "check the indentation, and put text that holds \": \" into quotes"
	case strings.Contains(message, "non-map value"):
		help = "write \"key: value\""
	}
	return tokenPlace(file, y.GetToken()), "", faultf(help, "not valid YAML: %s", message)
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}

// converter turns the parser's tree into ours.
type converter struct {
	file   string
	report *report
}

func (c *converter) node(a ast.Node, path string) *node {
	if a == nil {
		return &node{at: place{c.file, 1, 1}}
	}
	n := &node{at: tokenPlace(c.file, a.GetToken())}
	switch a := a.(type) {
	case *ast.NullNode:
	case *ast.MappingNode:
		n.kind = mapNode
		for _, v := range a.Values {
			c.entry(n, v, path)
		}
	case *ast.MappingValueNode:
		n.kind = mapNode
		c.entry(n, a, path)
	case *ast.SequenceNode:
		n.kind = listNode
		for i, v := range a.Values {
			n.items = append(n.items, c.node(v, fmt.Sprintf("%s[%d]", path, i)))
		}
	case *ast.StringNode:
		n.kind, n.text = scalarNode, a.Value
	case *ast.LiteralNode:
		n.kind = scalarNode
		if a.Value != nil {
			n.text = a.Value.Value
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = scalarNode, a.GetToken().Value
	default:
		c.report.add(n.at, path, faultf("", "this kind of YAML value (%s) is not used in scenarios", a.Type()))
	}
	if n.kind == mapNode && len(n.entries) > 0 {
		// The parser gives the place of the first colon; people look for the first key.
		n.at = n.entries[0].at
	}
	return n
}

func (c *converter) entry(n *node, v *ast.MappingValueNode, path string) {
	at := tokenPlace(c.file, v.Key.GetToken())
	var key string
	switch k := v.Key.(type) {
	case *ast.StringNode:
		key = k.Value
	case *ast.NullNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		key = k.GetToken().Value
	default:
		c.report.add(at, path, faultf("write \"key: value\"", "a key must be a plain word"))
		return
	}
	if first := n.get(key); first != nil {
		c.report.add(at, join(path, key), faultf("keep one", "the key is given twice; the first is in line %d", first.at.line))
		return
	}
	n.entries = append(n.entries, &entry{key, at, c.node(v.Value, join(path, key))})
}

// join makes the path of a value below another.
func join(path, key string) string {
	if len(key) > 60 {
		key = strings.ToValidUTF8(key[:60], "") + "..."
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		key = fmt.Sprintf("%q", key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
