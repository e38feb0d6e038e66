package summary

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// shownEntries is how many entries of a list or map the text shows; the JSON has all.
const shownEntries = 12

// printTree prints decoded JSON, the keys of a map in order.
func printTree(b *bytes.Buffer, indent string, m map[string]any) {
	keys := sortedKeys(m)
	width := 0
	for _, k := range keys[:min(len(keys), shownEntries)] {
		if _, section := m[k].(map[string]any); !section {
			width = max(width, len(k))
		}
	}
	for i, k := range keys {
		if i == shownEntries {
			fmt.Fprintf(b, "%s... %d more\n", indent, len(keys)-i)
			return
		}
		if sub, ok := m[k].(map[string]any); ok && len(sub) > 0 {
			fmt.Fprintf(b, "%s%s\n", indent, k)
			printTree(b, indent+"  ", sub)
			continue
		}
		fmt.Fprintf(b, "%s%-*s  %s\n", indent, width, k, inline(m[k]))
	}
}

// sortedKeys returns the keys of a map in order: numbers by value, before words by spelling.
func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool {
		a, errA := strconv.ParseInt(keys[i], 10, 64)
		b, errB := strconv.ParseInt(keys[j], 10, 64)
		switch {
		case errA == nil && errB == nil && a != b:
			return a < b
		case (errA == nil) != (errB == nil):
			return errA == nil
		}
		return keys[i] < keys[j]
	})
	return keys
}

// inline prints a value in a line.
func inline(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case json.Number:
		return number(v)
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case []any:
		var parts []string
		for i, x := range v {
			if i == shownEntries {
				parts = append(parts, fmt.Sprintf("... %d more", len(v)-i))
				break
			}
			parts = append(parts, inline(x))
		}
		return strings.Join(parts, ", ")
	case map[string]any:
		var parts []string
		for _, k := range sortedKeys(v) {
			parts = append(parts, k+" "+inline(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v)
}

// number prints whole numbers in full and others with six digits.
func number(n json.Number) string {
	if _, err := n.Int64(); err == nil {
		return n.String()
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	return strconv.FormatFloat(f, 'g', 6, 64)
}
