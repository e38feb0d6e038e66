package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

const endless = "model: probe\nend: 10000 d\nrecord: {formats: [csv, parquet]}\n"

// suspended makes a run that was stopped several times, so that it has at least so many checkpoints.
func suspended(t testing.TB, text string, checkpoints int, args ...string) (dir string) {
	t.Helper()
	dir = folder(t, map[string]string{"s.yaml": text})
	data := filepath.Join(dir, "d")
	// Checkpoints by wall time never come: each stop makes one.
	first := append([]string{"run", filepath.Join(dir, "s.yaml"), "--data", data, "--out", filepath.Join(dir, "o"), "--checkpoint-every", "10 d", "--no-progress"}, args...)
	r := within(t, 150*time.Millisecond, first...)
	for try := 0; ; try++ {
		if _, err := os.Stat(filepath.Join(data, settingsFile)); err != nil {
			r = within(t, time.Duration(try+1)*150*time.Millisecond, first...)
			continue
		}
		if r.code != Stopped {
			t.Fatalf("exit %d: %s", r.code, r.stderr)
		}
		if len(numbers(t, data)) >= checkpoints {
			return dir
		}
		r = within(t, time.Duration(try+1)*100*time.Millisecond, "resume", data, "--no-progress")
	}
}

// numbers lists the checkpoints of a run.
func numbers(t testing.TB, data string) (list []uint64) {
	t.Helper()
	for _, c := range listed(t, data) {
		list = append(list, c.Number)
	}
	return list
}

func listed(t testing.TB, data string) []checkpointJSON {
	t.Helper()
	r := simnode(t.Context(), "checkpoint", "ls", data, "-o", "json")
	var list struct{ Checkpoints []checkpointJSON }
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || r.code != Done {
		t.Fatalf("exit %d: %v: %s", r.code, err, r.stderr)
	}
	return list.Checkpoints
}

// tree is all that is in a folder, but for locks.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if name := e.Name(); name == "lock" || name == lockFile {
			return nil
		}
		all[path] = read2(t, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func sameTree(t testing.TB, dir string, before map[string]string) {
	t.Helper()
	after := tree(t, dir)
	for name, text := range before {
		if got, ok := after[name]; !ok || got != text {
			t.Errorf("%s was changed or removed", name)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("%s was made", name)
		}
	}
}

// alter changes a byte of a file.
func alter(t testing.TB, path string, at int) {
	t.Helper()
	data := []byte(read2(t, path))
	data[(at+len(data))%len(data)] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// reseal changes the settings of a run.
func reseal(t testing.TB, data string, change func(*settings)) {
	t.Helper()
	d := &runDir{dir: data}
	if err := d.read(settingsFile, &d.settings); err != nil {
		t.Fatal(err)
	}
	change(&d.settings)
	if err := d.write(settingsFile, &d.settings); err != nil {
		t.Fatal(err)
	}
}

// Every refusal of a run folder is one line that says what is wrong and what to do, and changes nothing.
func TestRunFolderRefusals(t *testing.T) {
	t.Parallel()
	dir := suspended(t, endless, 2)
	data := filepath.Join(dir, "d")
	known := numbers(t, data)
	newest := fmt.Sprint(known[len(known)-1])
	for _, c := range []struct {
		name string
		args []string
		// spoil changes something, which is put right again afterwards.
		spoil func()
		want  []string
	}{
		{name: "occupied", args: []string{"run", "S", "--data", "D", "--out", "O"}, want: []string{"holds a run", "model probe", "simnode resume", "--fresh"}},
		{name: "foreign folder", args: []string{"run", "S", "--data", dir}, want: []string{"not part of a run", "empty folder"}},
		{name: "data is a file", args: []string{"run", "S", "--data", "S"}, want: []string{"--data", "not a directory"}},
		{name: "without data", args: []string{"run", "S", "--keep", "3"}, want: []string{"--keep needs --data"}},
		{name: "fresh without data", args: []string{"run", "S", "--fresh"}, want: []string{"--fresh needs --data"}},
		{name: "nodes", args: []string{"run", "S", "--data", "D", "--nodes", "2"}, want: []string{"--data", "--nodes"}},
		{name: "no unit", args: []string{"run", "S", "--data", "D", "--checkpoint-every", "30"}, want: []string{"--checkpoint-every", "unit", "auto"}},
		{name: "no time", args: []string{"run", "S", "--data", "D", "--checkpoint-every-sim", "0 s"}, want: []string{"--checkpoint-every-sim", "more than 0"}},
		{name: "mtbf alone", args: []string{"run", "S", "--data", "D", "--mtbf", "1h"}, want: []string{"--mtbf", "auto"}},
		{name: "grace", args: []string{"run", "S", "--data", "D", "--grace", "soon"}, want: []string{"--grace"}},
		{name: "keep 0", args: []string{"run", "S", "--data", "D", "--keep", "0"}, want: []string{"--keep", "from 1"}},
		{name: "no run there", args: []string{"resume", filepath.Join(dir, "none")}, want: []string{"no run in it", "--data"}},
		{name: "no such checkpoint", args: []string{"resume", "D", "--at", "99"}, want: []string{"no checkpoint 99", "kept are", newest}},
		{name: "checkpoint in words", args: []string{"resume", "D", "--at", "last"}, want: []string{`"last"`, "number", "latest"}},
		{name: "changed parameter", args: []string{"resume", "D", "--set", "params.entities=5"}, want: []string{"params.entities was 20 and is now 5", "only end"}},
		{name: "changed seed", args: []string{"resume", "D", "--set", "seed=5"}, want: []string{"seed was 1 and is now 5"}},
		{name: "changed level", args: []string{"resume", "D", "--set", "record.level=raw"}, want: []string{"record.level was statistical and is now raw"}},
		{name: "unknown key", args: []string{"resume", "D", "--set", "params.entites=5"}, want: []string{"params.entites", `did you mean "entities"?`}},
		{name: "end before the checkpoint", args: []string{"resume", "D", "--end", "1 ns"}, want: []string{"checkpoint " + newest, "is to end at 1ns", "later end"}},
		{name: "flags of both meanings", args: []string{"resume", "D", "--at", "1", "--cluster", "127.0.0.1:1"}, want: []string{"--cluster", "--at"}},
		{name: "no folder named", args: []string{"resume", "--at", "1"}, want: []string{"--at", "name the folder"}},
		{name: "in use", args: []string{"resume", "D"}, want: []string{"a run is going on in it"}},
		{name: "settings altered", args: []string{"resume", "D"}, spoil: func() { alter(t, filepath.Join(data, settingsFile), -30) }, want: []string{"settings", "damaged", "SHA-256", "copy"}},
		{name: "settings cut short", args: []string{"resume", "D"}, spoil: func() { truncateTo(t, filepath.Join(data, settingsFile), 40) }, want: []string{"settings", "damaged"}},
		{name: "scenario altered", args: []string{"resume", "D"}, spoil: func() { alter(t, filepath.Join(data, scenarioFile), 50) }, want: []string{"scenario", "not the one", "copy"}},
		{name: "scenario missing", args: []string{"resume", "D"}, spoil: func() { remove(t, filepath.Join(data, scenarioFile)) }, want: []string{"scenario", "cannot be read"}},
		{name: "other model version", args: []string{"resume", "D"}, spoil: func() { reseal(t, data, func(s *settings) { s.ModelVersion = 7 }) }, want: []string{"version 7 of model probe", "version 1"}},
		{name: "other scenario", args: []string{"resume", "D"}, spoil: func() { reseal(t, data, func(s *settings) { s.Hash = strings.Repeat("0", 64) }) }, want: []string{"another run in this program", "000000000000"}},
		{name: "other machine", args: []string{"resume", "D"}, spoil: func() { reseal(t, data, func(s *settings) { s.Arch = "pdp11" }) }, want: []string{"architecture pdp11", runtime.GOARCH}},
		{name: "other format", args: []string{"resume", "D"}, spoil: func() { reseal(t, data, func(s *settings) { s.Format = 2 }) }, want: []string{"format 2", "format 1"}},
		{name: "other checkpoints", args: []string{"resume", "D"}, spoil: func() { reseal(t, data, func(s *settings) { s.ID = "x" }) }, want: []string{"checkpoint folder", `not "x"`}},
		{name: "database altered", args: []string{"resume", "D"}, spoil: func() { alter(t, anyTable(t, data), 100) }, want: []string{"damaged", ".sst", "SHA-256"}},
		{name: "database file missing", args: []string{"resume", "D"}, spoil: func() { remove(t, anyTable(t, data)) }, want: []string{"damaged", ".sst", "missing"}},
		{name: "other output folder in use", args: []string{"resume", "D"}, want: []string{"another run is writing to"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			saved := tree(t, dir)
			if c.spoil != nil {
				c.spoil()
			}
			switch c.name {
			case "in use":
				d := &runDir{dir: data}
				if err := d.take(); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = d.release() }()
			case "other output folder in use":
				held, err := lockFolder(filepath.Join(dir, "o"))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = held.Close() }()
			}
			before := tree(t, dir)
			args := slices.Clone(c.args)
			for i, arg := range args {
				if path, ok := map[string]string{"S": filepath.Join(dir, "s.yaml"), "D": data, "O": filepath.Join(dir, "o")}[arg]; ok {
					args[i] = path
				}
			}
			r := simnode(t.Context(), append(args, "--no-progress", "-o", "json")...)
			if r.code != BadUsage || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("exit %d, output %q, errors:\n%s", r.code, r.stdout, r.stderr)
			}
			for _, w := range c.want {
				if !strings.Contains(r.stderr, w) {
					t.Errorf("no %q in: %s", w, r.stderr)
				}
			}
			sameTree(t, dir, before)
			putBack(t, dir, saved)
		})
	}
	if r := within(t, 200*time.Millisecond, "resume", data, "--no-progress"); r.code != Stopped {
		t.Errorf("after all that: exit %d: %s", r.code, r.stderr)
	}
}

// putBack makes a folder what it was.
func putBack(t testing.TB, dir string, saved map[string]string) {
	t.Helper()
	for name := range tree(t, dir) {
		if _, ok := saved[name]; !ok {
			remove(t, name)
		}
	}
	for name, text := range saved {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func truncateTo(t testing.TB, path string, n int64) {
	t.Helper()
	if err := os.Truncate(path, n); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// anyTable is a file of the database.
func anyTable(t testing.TB, data string) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(data, checkpointsName, "db", "*.sst"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no table: %v", err)
	}
	return list[0]
}

// A recorded file that was altered is refused with the newest checkpoint that does not need what is damaged.
func TestDamagedRecordingNamesTheNewestIntactCheckpoint(t *testing.T) {
	t.Parallel()
	dir := suspended(t, endless, 2)
	data := filepath.Join(dir, "d")
	known := numbers(t, data)
	rows := filepath.Join(dir, "o", "rows.csv.partial")
	alter(t, rows, -1)
	before := tree(t, dir)
	r := simnode(t.Context(), "resume", data, "--no-progress")
	want := fmt.Sprintf("go on with simnode resume %s --at %d", data, known[len(known)-2])
	if r.code != BadUsage || !strings.Contains(r.stderr, "rows.csv.partial") || !strings.Contains(r.stderr, want) {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	sameTree(t, dir, before)
	v := simnode(t.Context(), "checkpoint", "verify", data)
	if v.code != Failed || !strings.Contains(v.stdout, fmt.Sprintf("checkpoint %d at", known[len(known)-1])) || !strings.Contains(v.stdout, "rows.csv.partial") || !strings.Contains(v.stdout, ": intact") {
		t.Errorf("verify: exit %d: %s%s", v.code, v.stdout, v.stderr)
	}
	r = within(t, 200*time.Millisecond, "resume", data, "--at", fmt.Sprint(known[len(known)-2]), "--no-progress")
	if r.code != Stopped {
		t.Fatalf("from the intact one: exit %d: %s", r.code, r.stderr)
	}
	list := listed(t, data)
	for _, c := range list {
		if given := c.Number == known[len(known)-1]; c.GivenUp != given {
			t.Errorf("checkpoint %d: given up %v", c.Number, c.GivenUp)
		}
	}
	r = simnode(t.Context(), "resume", data, "--at", fmt.Sprint(known[len(known)-1]), "--no-progress")
	if r.code != BadUsage || !strings.Contains(r.stderr, "was given up") {
		t.Errorf("the one given up: exit %d: %s", r.code, r.stderr)
	}
	if v := simnode(t.Context(), "checkpoint", "verify", data); v.code != Done {
		t.Errorf("verify at last: exit %d: %s%s", v.code, v.stdout, v.stderr)
	}
}

// A run that has ended is told and not run again; what only a resume needs is gone from its results.
func TestResumeOfARunThatHasEnded(t *testing.T) {
	t.Parallel()
	file, out := probeFile(t, "")
	data := filepath.Join(filepath.Dir(file), "d")
	first := simnode(t.Context(), "run", file, "--out", out, "--data", data, "-o", "json")
	if first.code != Done || first.stderr != "" {
		t.Fatalf("exit %d: %s", first.code, first.stderr)
	}
	if slices.ContainsFunc(names(t, out), func(n string) bool { return strings.HasSuffix(n, partialEnd) }) {
		t.Errorf("unfinished files are left: %q", names(t, out))
	}
	before := tree(t, filepath.Dir(file))
	r := simnode(t.Context(), "resume", data, "-o", "json")
	if r.code != Done || r.stdout != first.stdout || !strings.Contains(r.stderr, "has ended at 10s") || !strings.Contains(r.stderr, out) {
		t.Errorf("exit %d: %s%s", r.code, r.stdout, r.stderr)
	}
	r = simnode(t.Context(), "resume", data, "--end", "20 s")
	if r.code != BadUsage || !strings.Contains(r.stderr, "has ended") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	sameTree(t, filepath.Dir(file), before)
	// A fresh run takes the folder.
	if r := simnode(t.Context(), "run", file, "--out", out, "--data", data, "--end", "5 s"); r.code != BadUsage || !strings.Contains(r.stderr, "that has ended") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	if r := simnode(t.Context(), "run", file, "--out", out, "--data", data, "--end", "5 s", "--fresh", "-o", "json"); r.code != Done || !strings.Contains(r.stdout, `"end_time_s": 5`) {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

// A resume with another end gives what a run to that end gives.
func TestResumeWithAnotherEnd(t *testing.T) {
	t.Parallel()
	dir := suspended(t, endless, 1)
	data := filepath.Join(dir, "d")
	at := listed(t, data)[0].At
	end := fmt.Sprintf("%g s", at+1000)
	for _, args := range [][]string{
		{"run", filepath.Join(dir, "s.yaml"), "--end", end, "--out", filepath.Join(dir, "ref")},
		{"resume", data, "--set", "end=" + end, "--out", filepath.Join(dir, "elsewhere")},
	} {
		if r := simnode(t.Context(), append(args, "--no-progress")...); r.code != Done {
			t.Fatalf("%v: exit %d: %s", args, r.code, r.stderr)
		}
	}
	equalRuns(t, "resumed with another end", ranIn(t, filepath.Join(dir, "elsewhere")), ranIn(t, filepath.Join(dir, "ref")))
}

// TestFault35Sigterm: a last checkpoint, exit code 75, and a line that says how to go on.
func TestFault35Sigterm(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		dir := folder(t, map[string]string{"s.yaml": endless})
		cmd, out, errs := process(t, dir, nil, "run", "s.yaml", "--out", "o", "--data", "d", "-o", "json", "--no-progress")
		start(t, cmd, filepath.Join(dir, "o", "rows.csv.partial"))
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		code := exitCode(cmd.Wait())
		if code != Stopped || out.Len() > 0 || !strings.Contains(errs.String(), ", checkpoint 1; go on with: simnode resume d\n") {
			t.Errorf("%v: exit %d: %s%s", s, code, out, errs)
		}
		if len(numbers(t, filepath.Join(dir, "d"))) != 1 {
			t.Error("there is no checkpoint")
		}
	}
}

// A run whose handlers do not return ends after its grace; a second signal ends it at once.
func TestGraceAndSecondSignal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		grace string
		code  int
		want  string
	}{
		{"100ms", Stopped, "stopping; once more to end at once\nstopped; the last checkpoint was not written within 100ms; there is no checkpoint yet, and the run begins anew; go on with: simnode resume d\n"},
		{"1 h", Interrupted, "stopping; once more to end at once\n"},
	} {
		dir := folder(t, map[string]string{"s.yaml": "model: probe\nparams: {mode: hang}\n"})
		cmd, _, _ := process(t, dir, nil, "run", "s.yaml", "--out", "o", "--data", "d", "--grace", c.grace, "--regions", "1", "--no-progress")
		cmd.Stderr = nil
		said, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		ready := filepath.Join(dir, "hangs")
		for range 3000 {
			if _, err := os.Stat(ready); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		var text bytes.Buffer
		if c.code == Interrupted {
			line := make([]byte, len(c.want))
			if _, err := io.ReadFull(said, line); err != nil {
				t.Fatal(err)
			}
			text.Write(line)
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
		_, _ = io.Copy(&text, said)
		if code := exitCode(cmd.Wait()); code != c.code || text.String() != c.want {
			t.Errorf("grace %s: exit %d: %q, not %q", c.grace, code, text.String(), c.want)
		}
	}
}

// What cannot be written is told, and the run goes on to its end.
func TestCheckpointsThatFailAreToldAndTheRunGoesOn(t *testing.T) {
	t.Parallel()
	file, out := probeFile(t, "end: 1000 s\n")
	data := filepath.Join(filepath.Dir(file), "d")
	if r := simnode(t.Context(), "run", file, "--out", out); r.code != Done {
		t.Fatal(r.stderr)
	}
	ref := ranIn(t, out)
	var stdout, stderr bytes.Buffer
	e := &env{program: "simnode", models: testModels(), stdout: &stdout, stderr: &stderr}
	f := &runFlags{file: file, dir: out, data: data, record: &word{}, format: newWord("FORMAT", "text", "json"), quiet: true}
	j, bundle, err := e.validatePacked(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := newRunDir(data, false)
	if err != nil {
		t.Fatal(err)
	}
	r := &savedRun{job: j, folder: folder}
	// A store that was closed refuses all that is written, as one on a full disk does.
	saving := defaultSaving()
	saving.Every, saving.EverySim = 0, 100_000_000_000
	s := settings{Name: file, Model: "probe", Hash: "x", Out: out, Saving: saving}
	if err := folder.begin(s, bundle); err != nil {
		t.Fatal(err)
	}
	if r.store, err = folder.store(false); err != nil {
		t.Fatal(err)
	}
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	if code := e.exit(r.ended(r.play(t.Context()))); code != Done {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	if !strings.Contains(stderr.String(), "no checkpoint was written: ") || !strings.Contains(stderr.String(), "the run goes on") {
		t.Errorf("what was told: %q", stderr.String())
	}
	equalRuns(t, "without any checkpoint", ranIn(t, out), ref)
}

func TestYoungsInterval(t *testing.T) {
	for _, c := range []struct{ cost, mtbf, want time.Duration }{
		{2 * time.Second, 100 * time.Hour, 20 * time.Minute}, // the root of 2 x 2 s x 360,000 s is 1200 s
		{500 * time.Millisecond, 10 * time.Second, 3162277660},
		{0, 24 * time.Hour, leastAuto},
		{time.Hour, 1000 * time.Hour, mostAuto},
	} {
		if got := youngInterval(c.cost, c.mtbf); got != c.want {
			t.Errorf("cost %v, mtbf %v: %v, not %v", c.cost, c.mtbf, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		cost := time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "cost"))
		mtbf := time.Duration(rapid.Int64Range(1, int64(100000*time.Hour)).Draw(t, "mtbf"))
		got := youngInterval(cost, mtbf)
		if got < leastAuto || got > mostAuto || youngInterval(2*cost, mtbf) < got {
			t.Fatalf("%v", got)
		}
	})
}

func TestScheduleOfCheckpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := defaultSaving()
		s := newSchedule(f, time.Now)
		due := 0
		for range 1000 { // 100 s
			time.Sleep(100 * time.Millisecond)
			if s.due() {
				due++
				s.wrote(50 * time.Millisecond)
			}
		}
		if due != 3 {
			t.Errorf("every 30 s: %d in 100 s", due)
		}
		f.Auto, f.MTBF = true, 1000*time.Second
		s = newSchedule(f, time.Now)
		due = 0
		for range 1000 {
			time.Sleep(100 * time.Millisecond)
			if s.due() {
				due++
				s.wrote(50 * time.Millisecond) // from now on every 10 s
			}
		}
		if due != 8 {
			t.Errorf("auto: %d in 100 s", due)
		}
		f.Every, f.Auto = 0, false
		s = newSchedule(f, time.Now)
		time.Sleep(time.Hour)
		if s.due() {
			t.Error("by simulated time only, and one is due by wall time")
		}
	})
}

// All settings that can be written are read again; what was altered is not.
func TestSealedFiles(t *testing.T) {
	data, err := sealFile(settingsFile, settings{Format: 1, Name: "x", Set: []string{"a=b"}})
	if err != nil {
		t.Fatal(err)
	}
	var s settings
	if err := unsealFile(settingsFile, data, &s); err != nil || s.Name != "x" || s.Set[0] != "a=b" {
		t.Fatalf("%+v, %v", s, err)
	}
	for i := range data {
		for bit := range 8 {
			bad := slices.Clone(data)
			bad[i] ^= 1 << bit
			if unsealFile(settingsFile, bad, &s) == nil {
				t.Fatalf("bit %d of byte %d was flipped, and nobody noticed", bit, i)
			}
		}
		if unsealFile(settingsFile, data[:i], &s) == nil {
			t.Fatalf("%d bytes are taken for the whole", i)
		}
	}
	if unsealFile(endFile, data, &s) == nil {
		t.Error("one file is taken for another")
	}
}

func FuzzSettings(f *testing.F) {
	data, err := sealFile(settingsFile, settings{Format: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var s settings
		if err := unsealFile(settingsFile, data, &s); err != nil && err.Error() == "" {
			t.Error("an error without a word")
		}
	})
}
