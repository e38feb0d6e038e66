package cli

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// ticker is a clock that a test moves.
type ticker struct{ now time.Time }

func (c *ticker) read() time.Time { return c.now }

func TestProgressLines(t *testing.T) {
	var b bytes.Buffer
	clock := &ticker{time.Unix(1000, 0)}
	p := &progress{w: &b, clock: clock.read, start: clock.now, next: clock.now.Add(lineEvery)}
	end := sim.Time(sim.Day)
	for range 110 {
		clock.now = clock.now.Add(100 * time.Millisecond)
		elapsed := clock.now.Sub(p.start)
		p.show(node.Progress{Now: sim.Time(float64(end) * elapsed.Seconds() / 20), End: end, Events: uint64(elapsed.Seconds() * 1_310_000)})
	}
	p.close()
	const want = "25 %  6h of 1d  1.31 M events/s  15s left\n50 %  12h of 1d  1.31 M events/s  10s left\n"
	if b.String() != want {
		t.Errorf("got\n%q, not\n%q", b.String(), want)
	}
}

func TestProgressBarFitsTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		clock := &ticker{time.Unix(1000, 0)}
		width := rapid.IntRange(1, 120).Draw(t, "width")
		p := &progress{w: &b, bar: true, clock: clock.read, start: clock.now, width: func() int { return width }}
		end := rapid.Int64Range(1, int64(sim.Never)).Draw(t, "end")
		clock.now = clock.now.Add(time.Duration(rapid.Int64Range(1, int64(100*time.Hour)).Draw(t, "elapsed")))
		p.show(node.Progress{Now: sim.Time(rapid.Int64Range(0, end).Draw(t, "now")), End: sim.Time(end), Events: rapid.Uint64().Draw(t, "events")})
		line, ok := strings.CutPrefix(b.String(), "\r\x1b[K")
		if !ok || len(line) >= width && width > 0 && len(line) > 0 {
			t.Fatalf("%d columns: %q", width, b.String())
		}
		b.Reset()
		p.close()
		if b.String() != "\r\x1b[K" {
			t.Fatalf("the bar stays: %q", b.String())
		}
	})
}

func TestProgressAtStart(t *testing.T) {
	if got := progressText(node.Progress{End: sim.Time(sim.Minute)}, 0, time.Second); got != "0 %  0s of 1m  0 events/s  ? left" {
		t.Error(got)
	}
}

func TestWrapKeepsWordsAndWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[a-zé]{1,12}`)).Draw(t, "words")
		width := rapid.IntRange(30, 100).Draw(t, "width")
		got := wrap(strings.Join(words, " "), "  ", width)
		if strings.Join(strings.Fields(got), " ") != strings.Join(words, " ") {
			t.Fatalf("words changed: %q", got)
		}
		for _, line := range strings.Split(got, "\n") {
			if len(line) > width || line != "" && !strings.HasPrefix(line, "  ") {
				t.Fatalf("line %q", line)
			}
		}
	})
}

func TestVersionText(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}}
	if got := versionText("simnode", info); !strings.HasPrefix(got, "simnode v1.2.3, commit 0123456789ab with changes, go1.") {
		t.Error(got)
	}
	if got := versionText("birds", &debug.BuildInfo{}); !strings.HasPrefix(got, "birds (development), go1.") {
		t.Error(got)
	}
}

func TestModelsAreDescribed(t *testing.T) {
	r := simnode(t.Context(), "models")
	for _, m := range testModels() {
		if !strings.Contains(r.stdout, m.Name+" ") || !strings.Contains(r.stdout, m.Summary) {
			t.Errorf("%s is missing:\n%s", m.Name, r.stdout)
		}
		one := simnode(t.Context(), "models", m.Name)
		if one.code != Done || !strings.Contains(one.stdout, "Source: ") || !strings.Contains(one.stdout, "default ") {
			t.Errorf("%s: exit %d\n%s%s", m.Name, one.code, one.stdout, one.stderr)
		}
	}
	r = simnode(t.Context(), "models", "airspace")
	for _, want := range []string{"  radar_range\n", "units m", "default 250 km", "columns:", "latitude", "no duplicates"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
}

func TestSchemaIsJSON(t *testing.T) {
	r := simnode(t.Context(), "schema")
	var schema map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &schema); err != nil || r.code != Done {
		t.Fatalf("exit %d, %v", r.code, err)
	}
	if !strings.Contains(r.stdout, "probe") {
		t.Error("the schema does not know the models")
	}
}

func TestValidateOK(t *testing.T) {
	file, _ := probeFile(t, "")
	if r := simnode(t.Context(), "validate", file); r.code != Done || r.stdout != "ok: "+file+": model probe, 20 entities, end 10s, any number of regions (lookahead 100ms)\n" {
		t.Errorf("exit %d: %q %s", r.code, r.stdout, r.stderr)
	}
	file, _ = probeFile(t, "params: {lookahead: 0 s}\n")
	if r := simnode(t.Context(), "validate", file); r.code != Done || !strings.Contains(r.stdout, "1 region only") {
		t.Errorf("exit %d: %q", r.code, r.stdout)
	}
	r := simnode(t.Context(), "validate", file, "-o", "json")
	if want := `"lookahead_s": 0`; r.code != Done || !strings.Contains(r.stdout, `"ok": true`) || !strings.Contains(r.stdout, want) {
		t.Errorf("exit %d: %s", r.code, r.stdout)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		r := simnode(t.Context(), "completion", shell)
		if r.code != Done || !strings.Contains(r.stdout, "simnode") {
			t.Errorf("%s: exit %d", shell, r.code)
		}
		if _, err := exec.LookPath(shell); err == nil {
			cmd := exec.Command(shell, "-n")
			cmd.Stdin = strings.NewReader(r.stdout)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s does not read it: %v: %s", shell, err, out)
			}
		}
	}
	for line, want := range map[string]string{
		"run|":               "yaml",
		"validate|":          "yaml",
		"models|pho":         "phold",
		"completion|":        "fish",
		"run|--record|":      "statistical",
		"run|--output|":      "json",
		"val":                "validate",
		"run|--no":           "--no-progress",
		"run|file.yaml|--wo": "--workers",
	} {
		r := simnode(t.Context(), append([]string{"__complete"}, strings.Split(line, "|")...)...)
		if r.code != Done || !strings.Contains(r.stdout, want) {
			t.Errorf("%s: no %q in %q", line, want, r.stdout)
		}
	}
}

func TestHelpNamesExitCodes(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"help", "run"}, {"run", "--help"}} {
		r := simnode(t.Context(), args...)
		if r.code != Done || !strings.Contains(r.stdout, "130 interrupted") {
			t.Errorf("%v: exit %d\n%s", args, r.code, r.stdout)
		}
	}
}

func TestVersionFlagIsTheCommand(t *testing.T) {
	flag, command := simnode(t.Context(), "--version"), simnode(t.Context(), "version")
	if flag != command || flag.code != Done || !strings.HasPrefix(flag.stdout, "simnode ") {
		t.Errorf("%+v, not %+v", flag, command)
	}
}

func TestModelsAsJSON(t *testing.T) {
	type list struct {
		Models []struct {
			Name   string
			Params []struct {
				Name, Default string
				Units         []string
				Columns       []struct{ Name string }
			}
		}
	}
	var all, one list
	for args, to := range map[string]*list{"models -o json": &all, "models airspace -o json": &one} {
		r := simnode(t.Context(), strings.Fields(args)...)
		if err := json.Unmarshal([]byte(r.stdout), to); err != nil || r.code != Done || r.stderr != "" {
			t.Fatalf("%s: exit %d, %v, %s", args, r.code, err, r.stderr)
		}
	}
	if len(all.Models) != len(testModels()) || len(one.Models) != 1 || one.Models[0].Name != "airspace" {
		t.Fatalf("%+v", one)
	}
	found := 0
	for _, p := range one.Models[0].Params {
		if p.Name == "radar_range" && p.Default == "250 km" && p.Units[0] == "m" || p.Name == "airports" && len(p.Columns) == 3 {
			found++
		}
	}
	if found != 2 {
		t.Errorf("%+v", one.Models[0].Params)
	}
}
