package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/simnode/simnode/summary"
)

// The documents name every command, flag, key and file, and their links lead somewhere.

func TestCommandsAndFlagsAreDocumented(t *testing.T) {
	text := read(t, "../docs/command-line.md")
	e := &env{program: "simnode"}
	for _, c := range e.root().Commands() {
		if !strings.Contains(text, "\n## simnode "+c.Name()) {
			t.Errorf("command %s is missing", c.Name())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "output" && !strings.Contains(text, "--"+f.Name) {
				t.Errorf("%s: flag --%s is missing", c.Name(), f.Name)
			}
		})
	}
}

func TestKeysOfTheSummaryAreDocumented(t *testing.T) {
	text := read(t, "../docs/command-line.md")
	data, err := json.Marshal(summary.Summary{Interrupted: true, Results: json.RawMessage("{}")})
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, m := range regexp.MustCompile(`"([a-z_]+)":`).FindAllStringSubmatch(string(data), -1) {
		at := strings.Index(text, "`"+m[1]+"`")
		if table := strings.Index(text, "| key |"); at >= 0 {
			at = table + strings.Index(text[table:], "`"+m[1]+"`")
		}
		if at < last {
			t.Errorf("key %s is missing, or not in its place", m[1])
		}
		last = max(at, last)
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../README.md", "../models/phold/README.md") {
		text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(read(t, file), "")
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

func TestExampleInTheDocumentsIsTheExample(t *testing.T) {
	code := read(t, "../examples/flock/main.go")
	if lines := strings.Count(code, "\n"); lines > 60 {
		t.Errorf("the example has %d lines; a newcomer should see it whole in 60", lines)
	}
	code = code[strings.Index(code, "type params"):]
	if !strings.Contains(read(t, "../docs/your-own-model.md"), "```go\n"+code+"```") {
		t.Error("docs/your-own-model.md shows other code than examples/flock/main.go")
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
