package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/simnode/simnode/summary"
)

// longTests tells whether tests may take minutes.
func longTests() bool { return os.Getenv("SIMNODE_LONG_TESTS") == "1" }

// savedScenarios are one of each shipped model and of the probe; a run of one takes about half a second.
func savedScenarios() map[string]string {
	return map[string]string{
		"probe":    "model: probe\nend: 1 h\nrecord: {formats: [csv, parquet]}\n",
		"phold":    "model: phold\nend: 40 s\nparams: {entities: 4000, destinations: spatial}\nrecord: {formats: [csv, parquet]}\n",
		"airspace": strings.Replace(traffic, "{", "{traffic: 1000, ", 1) + "record: {formats: [csv, parquet]}\n",
		"life":     "model: life\nparams: {pattern: p.rle, generations: 60}\nrecord: {formats: [csv, parquet]}\n",
	}
}

// savedFolder makes a folder with one of them as s.yaml.
func savedFolder(t testing.TB, text string) string {
	return folder(t, map[string]string{"s.yaml": text, "airports.csv": airportsCSV, "flights.csv": flightsCSV,
		"p.rle": "x = 3, y = 3\nb2o$2ob$bo!\n"})
}

// ran is what must be the same however a run came to its end.
type ran struct {
	digest  string
	events  uint64
	results string
	files   map[string]string
}

// ranIn reads the end of a run from its output folder.
func ranIn(t testing.TB, out string) ran {
	t.Helper()
	r := ran{files: map[string]string{}}
	var s summary.Summary
	if err := json.Unmarshal([]byte(read2(t, filepath.Join(out, summary.File))), &s); err != nil {
		t.Fatal(err)
	}
	r.digest, r.events, r.results = s.Digest, s.Events, string(s.Results)
	for _, name := range names(t, out) {
		if strings.HasSuffix(name, ".svg") || name == summary.File || name == summary.Page {
			continue // these draw regions, or tell wall times
		}
		r.files[name] = read2(t, filepath.Join(out, name))
	}
	return r
}

func read2(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func equalRuns(t testing.TB, how string, got, want ran) {
	t.Helper()
	if got.digest != want.digest || got.events != want.events || got.results != want.results {
		t.Errorf("%s: digest %s after %d events, not %s after %d; results\n%s\nnot\n%s", how, got.digest, got.events, want.digest, want.events, got.results, want.results)
	}
	if len(got.files) != len(want.files) {
		t.Errorf("%s: files %q, not %q", how, slices.Sorted(maps.Keys(got.files)), slices.Sorted(maps.Keys(want.files)))
	}
	for name, text := range want.files {
		if got.files[name] != text {
			t.Errorf("%s: %s differs", how, name)
		}
	}
}

// reference runs a scenario without a disturbance.
func reference(t testing.TB, dir, level string) (ran, time.Duration) {
	t.Helper()
	began := time.Now()
	r := simnode(t.Context(), "run", filepath.Join(dir, "s.yaml"), "--out", filepath.Join(dir, "ref"), "--record", level, "--no-progress")
	if r.code != Done {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	return ranIn(t, filepath.Join(dir, "ref")), time.Since(began)
}

// often is an interval at which a run that takes so long takes about ten checkpoints.
func often(took time.Duration) string { return max(took/10, 20*time.Millisecond).String() }

// within runs a command in this process and interrupts it after a while.
func within(t testing.TB, after time.Duration, args ...string) result {
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	return simnode(ctx, args...)
}

// TestResumedRunsEqualUndisturbedOnes interrupts runs of every model at random moments, again and again, and
// resumes them on other numbers of regions.
func TestResumedRunsEqualUndisturbedOnes(t *testing.T) {
	t.Parallel()
	want := 2
	switch {
	case longTests():
		want = 16
	case testing.Short():
		want = 1
	}
	total := 0
	for model, text := range savedScenarios() {
		for _, level := range []string{"statistical", "raw"} {
			if testing.Short() && level == "raw" {
				continue
			}
			dir := savedFolder(t, text)
			ref, took := reference(t, dir, level)
			resumed := 0
			for try := 0; resumed < want && try < 20; try++ {
				data, out := filepath.Join(dir, fmt.Sprint("d", try)), filepath.Join(dir, fmt.Sprint("o", try))
				random := func() time.Duration { return took/10 + rand.N(took+time.Millisecond) }
				r := within(t, random(), "run", filepath.Join(dir, "s.yaml"), "--data", data, "--out", out, "--record", level, "--checkpoint-every", often(took), "--no-progress")
				for i := 0; r.code == Stopped; i++ {
					resumed++
					after := random() / 2
					if i == 3 {
						after = time.Hour
					}
					if r.stdout != "" || !strings.Contains(r.stderr, "go on with: simnode resume "+data) {
						t.Fatalf("%s: output %q, errors %q", model, r.stdout, r.stderr)
					}
					r = within(t, after, "resume", data, "--regions", fmt.Sprint([]int{1, 3, 8}[rand.IntN(3)]), "--no-progress")
				}
				if r.code == Interrupted && strings.Contains(r.stderr, "nothing was written") {
					continue
				}
				if r.code != Done {
					t.Fatalf("%s: exit %d: %s", model, r.code, r.stderr)
				}
				if resumed == 0 {
					took /= 2 // the reference ran on a busier machine
				}
				equalRuns(t, fmt.Sprintf("%s at level %s, interrupted %d times in all", model, level, resumed), ranIn(t, out), ref)
				_ = os.RemoveAll(data)
				_ = os.RemoveAll(out)
			}
			total += resumed
		}
	}
	t.Logf("resumed %d times", total)
	if total < 4*want*2/3 {
		t.Errorf("resumed only %d times", total)
	}
}

// TestKilledRunsEqualUndisturbedOnes kills runs of every model at random moments and resumes them.
func TestKilledRunsEqualUndisturbedOnes(t *testing.T) {
	t.Parallel()
	want := 1
	if longTests() {
		want = 12
	}
	total := 0
	for model, text := range savedScenarios() {
		for _, level := range []string{"statistical", "raw"} {
			if testing.Short() && level == "raw" {
				continue
			}
			dir := savedFolder(t, text)
			ref, took := reference(t, dir, level)
			killed := 0
			for try := 0; killed < want && try < 20; try++ {
				data, out := fmt.Sprint("d", try), fmt.Sprint("o", try)
				args := []string{"run", "s.yaml", "--data", data, "--out", out, "--record", level, "--checkpoint-every", often(took), "--no-progress"}
				for kills := 0; ; kills++ {
					cmd, _, errs := process(t, dir, nil, args...)
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
					after := 30*time.Millisecond + rand.N(took+time.Millisecond)
					if kills == 3 {
						after = time.Hour
					}
					kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
					code := exitCode(cmd.Wait())
					kill.Stop()
					if code == Done {
						break
					}
					if code != -1 {
						t.Fatalf("%s: exit %d: %s", model, code, errs)
					}
					killed++
					if _, err := os.Stat(filepath.Join(dir, data, settingsFile)); err == nil {
						args = []string{"resume", data, "--regions", fmt.Sprint([]int{1, 3, 8}[rand.IntN(3)]), "--no-progress"}
					}
				}
				if killed == 0 {
					took /= 2 // the reference ran on a busier machine
				}
				equalRuns(t, fmt.Sprintf("%s at level %s, killed %d times in all", model, level, killed), ranIn(t, filepath.Join(dir, out)), ref)
			}
			total += killed
		}
	}
	t.Logf("killed %d times", total)
	if total < 4*want {
		t.Errorf("killed only %d times", total)
	}
}
