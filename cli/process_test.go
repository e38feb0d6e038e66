package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/simnode/simnode/summary"
)

// process starts this test binary as a program.
func process(t testing.TB, dir string, env []string, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), asProgram+"=1"), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	return cmd, &out, &errs
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// Twenty fresh processes in different regions, workers and processors print and write the same bytes,
// but for what names these.
func TestFreshProcessesAgree(t *testing.T) {
	scenarios := map[string]string{
		"probe":    "model: probe\nend: 20 s\nrecord: {level: raw, formats: [csv, parquet]}\n",
		"phold":    "model: phold\nend: 5 s\nparams: {entities: 300, destinations: spatial}\nrecord: {level: raw}\n",
		"airspace": traffic + "record: {level: raw}\n",
		"life":     "model: life\nparams: {pattern: p.rle, generations: 40}\nrecord: {level: raw}\n",
	}
	variants := regexp.MustCompile(`"(regions|workers)": [0-9]+`)
	processes := 20
	if testing.Short() {
		processes = 4
	}
	for name, text := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first map[string]string
			for i := range processes {
				dir := folder(t, map[string]string{"s.yaml": text, "airports.csv": airportsCSV, "flights.csv": flightsCSV,
					"p.rle": "x = 3, y = 3\nb2o$2ob$bo!\n"})
				regions, workers, procs := []int{1, 2, 3, 4, 8, 16}[i%6], i%2+1, []int{1, 2, 8}[i%3]
				cmd, out, errs := process(t, dir, []string{fmt.Sprintf("GOMAXPROCS=%d", procs)}, "run", "s.yaml", "--out", "o",
					"-o", "json", "--regions", fmt.Sprint(regions), "--workers", fmt.Sprint(workers))
				if err := cmd.Run(); err != nil {
					t.Fatalf("%v: %s", err, errs)
				}
				files := map[string]string{"standard output": variants.ReplaceAllString(mask(out.String()), `"$1": 0`)}
				for _, f := range names(t, filepath.Join(dir, "o")) {
					// These tell wall time, or draw the borders of regions.
					if f == summary.Page || f == summary.File || strings.HasSuffix(f, ".svg") {
						continue
					}
					data, err := os.ReadFile(filepath.Join(dir, "o", f))
					if err != nil {
						t.Fatal(err)
					}
					files[f] = string(data)
				}
				if first == nil {
					first = files
				}
				compare(t, fmt.Sprintf("%d regions, %d workers, %d processors", regions, workers, procs), files, first)
			}
			if len(first["events.csv"]) < 1000 {
				t.Errorf("little was recorded: %d bytes of events", len(first["events.csv"]))
			}
		})
	}
}

func compare(t *testing.T, how string, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d files, not %d", how, len(got), len(want))
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: %s differs", how, name)
		}
	}
}

func TestSignalEndsTheRunCleanly(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			dir := folder(t, map[string]string{"s.yaml": "model: probe\nend: 10000 d\nrecord: {formats: [csv, parquet]}\n"})
			cmd, out, errs := process(t, dir, nil, "run", "s.yaml", "--out", "o", "-o", "json")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			waitForData(t, filepath.Join(dir, "o", "rows.csv.partial"))
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			if code := exitCode(cmd.Wait()); code != Interrupted {
				t.Fatalf("exit %d: %s", code, errs)
			}
			checkInterrupted(t, filepath.Join(dir, "o"), out.Bytes())
		})
	}
}

// waitForData waits until a file holds something.
func waitForData(t *testing.T, path string) {
	t.Helper()
	for range 3000 {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s stays empty", path)
}

// checkInterrupted checks the summary and the files of an interrupted run.
func checkInterrupted(t *testing.T, dir string, stdout []byte) {
	t.Helper()
	var s summary.Summary
	if err := json.Unmarshal(stdout, &s); err != nil {
		t.Fatal(err)
	}
	if !s.Interrupted || s.EndTime <= 0 || s.Events == 0 {
		t.Errorf("summary %+v", s)
	}
	for _, name := range []string{"rows.csv", "rows.parquet", "series.csv", "timeline.csv", "report.html", "summary.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if slices.ContainsFunc(names(t, dir), func(n string) bool { return strings.HasSuffix(n, ".partial") }) {
		t.Errorf("partial files are left: %q", names(t, dir))
	}
	data, err := os.ReadFile(filepath.Join(dir, "rows.csv"))
	if err != nil || !bytes.HasSuffix(data, []byte("\n")) {
		t.Errorf("rows.csv ends in the middle of a row (%v)", err)
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	dir := folder(t, map[string]string{"s.yaml": "model: probe\nparams: {mode: hang}\n"})
	cmd, _, _ := process(t, dir, nil, "run", "s.yaml", "--out", "o", "--regions", "1", "--no-progress")
	cmd.Stderr = nil
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		text, _ := io.ReadAll(said)
		if string(text) != "stopping; once more to end at once\n" {
			t.Errorf("the first signal says %q", text)
		}
		ended <- cmd.Wait()
	}()
	for range 3000 {
		// The handler never returns: nothing but the second signal can end the run.
		if _, err := os.Stat(filepath.Join(dir, "hangs")); err == nil {
			_ = cmd.Process.Signal(syscall.SIGINT)
		}
		select {
		case err := <-ended:
			if code := exitCode(err); code != Interrupted {
				t.Fatalf("exit %d", code)
			}
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
	_ = cmd.Process.Kill()
	t.Fatal("the run goes on")
}

func TestContextEndsTheRunCleanly(t *testing.T) {
	file, out := probeFile(t, "end: 10000 d\nrecord: {formats: [csv, parquet]}\n")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		waitForData(t, filepath.Join(out, "rows.csv.partial"))
	}()
	r := simnode(ctx, "run", file, "--out", out, "-o", "json")
	if r.code != Interrupted {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	checkInterrupted(t, out, []byte(r.stdout))
	page, err := os.ReadFile(filepath.Join(out, summary.Page))
	if err != nil || !bytes.Contains(page, []byte("interrupted")) {
		t.Errorf("the page does not say that the run was interrupted (%v)", err)
	}
}

func TestProgramExitCodes(t *testing.T) {
	dir := folder(t, map[string]string{"ok.yaml": "model: probe\n", "bad.yaml": "model: nothing\n", "fails.yaml": "model: probe\nparams: {mode: panic}\n"})
	for file, want := range map[string]int{"ok.yaml": Done, "bad.yaml": BadUsage, "fails.yaml": Failed} {
		cmd, _, errs := process(t, dir, nil, "run", file)
		if code := exitCode(cmd.Run()); code != want {
			t.Errorf("%s: exit %d, not %d: %s", file, code, want, errs)
		}
	}
}

// start starts a program that ends with the test, and waits until path holds something.
func start(t *testing.T, cmd *exec.Cmd, path string) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	waitForData(t, path)
}

func TestSecondRunInOneFolderIsRefused(t *testing.T) {
	dir := folder(t, map[string]string{"s.yaml": "model: probe\nend: 10000 d\n"})
	rows := filepath.Join(dir, "o", "rows.csv.partial")
	first, _, _ := process(t, dir, nil, "run", "s.yaml", "--out", "o", "--no-progress")
	start(t, first, rows)
	second, out, errs := process(t, dir, nil, "run", "s.yaml", "--out", "o", "--end", "1 s")
	if code := exitCode(second.Run()); code != BadUsage || out.Len() > 0 ||
		errs.String() != "simnode: another run is writing to o: choose another folder with --out\n" {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if info, err := os.Stat(rows); err != nil || info.Size() == 0 {
		t.Errorf("the second run has touched the files of the first (%v)", err)
	}
	// A killed run leaves no lock behind.
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	third, _, errs := process(t, dir, nil, "run", "s.yaml", "--out", "o", "--end", "1 s")
	if code := exitCode(third.Run()); code != Done {
		t.Errorf("after a kill: exit %d: %s", code, errs)
	}
}

func TestSignalDuringSetupEndsAtOnce(t *testing.T) {
	for _, command := range []string{"run", "validate"} {
		dir := folder(t, map[string]string{"s.yaml": "model: probe\nparams: {mode: setup-hang}\n"})
		cmd, out, errs := process(t, dir, nil, command, "s.yaml")
		start(t, cmd, filepath.Join(dir, "setup-began"))
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := exitCode(cmd.Wait()); code != Interrupted || out.Len() > 0 ||
			errs.String() != "simnode: interrupted before the run began; nothing was written\n" {
			t.Errorf("%s: exit %d: %s%s", command, code, out, errs)
		}
		if _, err := os.Stat(filepath.Join(dir, "out")); !os.IsNotExist(err) {
			t.Errorf("%s: a folder was made (%v)", command, err)
		}
	}
}

// The context ends when the files are open and before the first event: while entities are placed.
func TestContextEndsBeforeTheFirstEvent(t *testing.T) {
	file, out := probeFile(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	e := &env{program: "simnode", models: testModels(), stdout: io.Discard, stderr: io.Discard}
	f := &runFlags{file: file, dir: out, record: &word{}, format: newWord("FORMAT", "text", "json"), quiet: true}
	j, err := e.validate(ctx, f)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	err = errors.Join(j.whole(ctx), j.unlock())
	if code := e.exit(err); code != Interrupted || !errors.Is(err, errEarly) {
		t.Errorf("exit %d: %v", code, err)
	}
	if got := names(t, out); len(got) > 0 {
		t.Errorf("files are left: %q", got)
	}
}
