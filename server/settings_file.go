package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file of settings. The parser recurses, so the tokens are counted before it sees them.
const (
	maxFile   = 64 << 10
	maxTokens = 2000
)

// parseFile reads a file of settings: a YAML mapping of keys to single values or lists of such.
func parseFile(file string, data []byte) (values map[string]given, err error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: %d bytes: a file of settings has at most %d", file, len(data), maxFile)
	}
	defer func() {
		if v := recover(); v != nil {
			values, err = nil, fmt.Errorf("%s: the YAML parser cannot read this file (%v): write \"key: value\" on each line", file, v)
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if len(tokens) > maxTokens {
		return nil, fmt.Errorf("%s: %d YAML tokens: a file of settings has at most %d", file, len(tokens), maxTokens)
	}
	doc, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, fmt.Errorf("%s: this is no YAML: %s", file, strings.SplitN(err.Error(), "\n", 2)[0])
	}
	values = map[string]given{}
	var errs []error
	for _, d := range doc.Docs {
		errs = append(errs, parseBody(file, d.Body, values))
	}
	return values, errors.Join(errs...)
}

func parseBody(file string, body ast.Node, values map[string]given) error {
	switch b := body.(type) {
	case nil, *ast.CommentGroupNode, *ast.NullNode:
		return nil
	case *ast.MappingNode:
		var errs []error
		for _, v := range b.Values {
			errs = append(errs, parseEntry(file, v, values))
		}
		return errors.Join(errs...)
	case *ast.MappingValueNode:
		return parseEntry(file, b, values)
	}
	return fmt.Errorf("%s: write \"key: value\" on each line", place(file, body.GetToken()))
}

func place(file string, t *token.Token) string {
	if t == nil || t.Position == nil {
		return file
	}
	return fmt.Sprintf("%s:%d", file, t.Position.Line)
}

func parseEntry(file string, e *ast.MappingValueNode, values map[string]given) error {
	at := place(file, e.Key.GetToken())
	key, ok := e.Key.(*ast.StringNode)
	if !ok {
		return fmt.Errorf("%s: a key is a plain word", at)
	}
	if !isKey(key.Value) {
		return unknownKey(at, key.Value)
	}
	if before, twice := values[key.Value]; twice {
		return fmt.Errorf("%s: %s is given twice, first in %s", at, key.Value, before.from)
	}
	text, err := parseValue(e.Value)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", at, key.Value, err)
	}
	values[key.Value] = given{text, at}
	return nil
}

// parseValue reads a value; a list is put together with commas.
func parseValue(n ast.Node) (string, error) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return parseScalar(n)
	}
	var items []string
	for _, v := range list.Values {
		item, err := parseScalar(v)
		if err != nil {
			return "", err
		}
		if strings.Contains(item, ",") {
			return "", fmt.Errorf("%q: an item of a list has no comma", item)
		}
		items = append(items, item)
	}
	return strings.Join(items, ","), nil
}

func parseScalar(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.LiteralNode:
		return strings.TrimSpace(n.Value.Value), nil
	}
	return "", fmt.Errorf("expected a single value or a list of such")
}
