package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/simnode/simnode/summary"
)

// children are the ids of the processes that a process has started.
func children(t *testing.T, pid int) (list []int) {
	t.Helper()
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)); err != nil {
		t.Skipf("this system does not tell the children of a process: %v", err)
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		data, err := os.ReadFile(task)
		if err != nil {
			continue // It has ended.
		}
		for _, field := range strings.Fields(string(data)) {
			var id int
			if _, err := fmt.Sscan(field, &id); err == nil {
				list = append(list, id)
			}
		}
	}
	return list
}

// waitGone waits until none of the processes is there any more.
func waitGone(t *testing.T, ids []int) {
	t.Helper()
	for range 3000 {
		ids = slices.DeleteFunc(ids, func(id int) bool {
			state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
			return err != nil || bytes.Contains(state, []byte(") Z "))
		})
		if len(ids) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("processes %v are left", ids)
}

// waitRunning waits until a run with --nodes in dir/o has recorded something.
func waitRunning(t *testing.T, dir string) {
	t.Helper()
	for range 3000 {
		found, err := filepath.Glob(filepath.Join(dir, "o", ".simnode-run-*", "node-*", "jobs", "job-1", "files", "rows.csv.partial"))
		if err == nil && len(found) == 1 {
			if info, err := os.Stat(found[0]); err == nil && info.Size() > 0 {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the run does not begin")
}

// checkClean checks that nothing of the nodes is left in the output folder.
func checkClean(t *testing.T, dir string) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(dir, ".simnode-run-*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left (%v)", left, err)
	}
}

// Every shipped model gives the same summary and files in one process and in several.
func TestRunNodesEqualsOneProcess(t *testing.T) {
	scenarios := map[string]string{
		"probe":    "model: probe\nend: 20 s\nrecord: {level: raw, formats: [csv, parquet]}\n",
		"phold":    "model: phold\nend: 5 s\nparams: {entities: 300, destinations: spatial}\nrecord: {level: raw}\n",
		"airspace": traffic + "record: {level: raw}\n",
		"life":     "model: life\nparams: {pattern: p.rle, generations: 40}\nrecord: {level: raw}\n",
	}
	variants := regexp.MustCompile(`"(regions|workers)": [0-9]+`)
	ways := [][]string{{"--regions", "3"}, {"--nodes", "3"}, {"--nodes", "1"}, {"--nodes", "2", "--regions", "7", "--workers", "3"}, {"--nodes", "4"}, {"--nodes", "8"}}
	if testing.Short() {
		delete(scenarios, "phold")
		delete(scenarios, "life")
		ways = ways[:2]
	}
	for name, text := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first map[string]string
			for _, how := range ways {
				dir := folder(t, map[string]string{"s.yaml": text, "airports.csv": airportsCSV, "flights.csv": flightsCSV, "p.rle": "x = 3, y = 3\nb2o$2ob$bo!\n"})
				cmd, out, errs := process(t, dir, nil, append([]string{"run", "s.yaml", "--out", "o", "-o", "json"}, how...)...)
				if err := cmd.Run(); err != nil {
					t.Fatalf("%v: %v: %s", how, err, errs)
				}
				checkClean(t, filepath.Join(dir, "o"))
				files := map[string]string{"standard output": variants.ReplaceAllString(mask(out.String()), `"$1": 0`)}
				for _, f := range names(t, filepath.Join(dir, "o")) {
					data, err := os.ReadFile(filepath.Join(dir, "o", f))
					if err != nil {
						t.Fatal(err)
					}
					files[f] = string(data)
					if f == summary.File && string(data) != out.String() {
						t.Errorf("%v: summary.json is not what was printed", how)
					}
					if f == summary.Page || f == summary.File || strings.HasSuffix(f, ".svg") {
						files[f] = "" // These tell wall time, or draw the borders of regions.
					}
				}
				if first == nil {
					first = files
				}
				compare(t, fmt.Sprint(how), files, first)
			}
			if len(first["events.csv"]) < 1000 {
				t.Errorf("little was recorded: %d bytes of events", len(first["events.csv"]))
			}
		})
	}
}

// Errors are those of a run in one process, word by word.
func TestRunNodesFailsAsOneProcess(t *testing.T) {
	modes := []string{"panic", "results-error", "breach", "nan", "results-panic", "picture-name"}
	if testing.Short() {
		modes = modes[:2]
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var first result
			var files []string
			for _, how := range [][]string{{"--regions", "4"}, {"--nodes", "2"}} {
				dir := folder(t, map[string]string{"s.yaml": "model: probe\nparams: {mode: " + mode + "}\n"})
				cmd, out, errs := process(t, dir, nil, append([]string{"run", "s.yaml", "--out", "o"}, how...)...)
				r := result{exitCode(cmd.Run()), out.String(), errs.String()}
				checkClean(t, filepath.Join(dir, "o"))
				if first.code == 0 {
					first, files = r, names(t, filepath.Join(dir, "o"))
					if first.code != Failed {
						t.Fatalf("exit %d: %s", first.code, first.stderr)
					}
					continue
				}
				if mode == "nan" { // The recording finds it, and so the node that records is named.
					if want := strings.TrimPrefix(first.stderr, "simnode: "); r.code != Failed || !strings.Contains(r.stderr, strings.TrimSpace(want)) {
						t.Errorf("exit %d: %s, not %s", r.code, r.stderr, want)
					}
					continue
				}
				if r != first {
					t.Errorf("%+v, not %+v", r, first)
				}
				if got := names(t, filepath.Join(dir, "o")); !slices.Equal(got, files) {
					t.Errorf("files %q, not %q", got, files)
				}
			}
		})
	}
}

func TestRunNodesInterrupted(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"s.yaml": "model: probe\nend: 10000 d\nrecord: {formats: [csv, parquet]}\n"})
	cmd, out, errs := process(t, dir, nil, "run", "s.yaml", "--out", "o", "-o", "json", "--nodes", "2")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	waitRunning(t, dir)
	ids := children(t, cmd.Process.Pid)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(cmd.Wait()); code != Interrupted {
		t.Fatalf("exit %d: %s", code, errs)
	}
	checkInterrupted(t, filepath.Join(dir, "o"), out.Bytes())
	checkClean(t, filepath.Join(dir, "o"))
	if len(ids) != 2 {
		t.Errorf("%d processes, not 2", len(ids))
	}
	waitGone(t, ids)
}

// A run whose process is killed leaves no node behind, and no data of one.
func TestRunNodesKilled(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"s.yaml": "model: probe\nend: 10000 d\n"})
	cmd, _, _ := process(t, dir, nil, "run", "s.yaml", "--out", "o", "--nodes", "3", "--no-progress")
	cmd.Stdout, cmd.Stderr = nil, nil
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	waitRunning(t, dir)
	ids := children(t, cmd.Process.Pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	waitGone(t, ids)
	checkClean(t, filepath.Join(dir, "o"))
}

// The loss of a node process ends the run with an error that names it.
func TestRunNodesLosesOne(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"s.yaml": "model: probe\nend: 10000 d\n"})
	cmd, _, errs := process(t, dir, nil, "run", "s.yaml", "--out", "o", "--nodes", "2", "--no-progress")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	waitRunning(t, dir)
	ids := children(t, cmd.Process.Pid)
	if len(ids) != 2 {
		t.Fatalf("%d processes, not 2", len(ids))
	}
	if err := syscall.Kill(max(ids[0], ids[1]), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(cmd.Wait()); code != Failed || !strings.Contains(errs.String(), "the process of node-2 is gone: signal: killed") {
		t.Errorf("exit %d: %s", code, errs)
	}
	waitGone(t, ids)
	checkClean(t, filepath.Join(dir, "o"))
}

func TestRunNodesRefuses(t *testing.T) {
	file, out := probeFile(t, "")
	for args, want := range map[string]string{
		"--nodes 0":                                       "from 1 to 64",
		"--nodes 65":                                      "from 1 to 64",
		"--nodes 2 --cpuprofile x":                        "cannot be used with --nodes",
		"--nodes 2 --record everything":                   "allowed: off",
		"--nodes 2 --set params.lookahed=1":               `did you mean "lookahead"`,
		"--nodes 2 --regions 4 --set params.lookahead=0s": "lookahead 0",
	} {
		r := simnode(t.Context(), append([]string{"run", file, "--out", out}, strings.Fields(args)...)...)
		if r.code != BadUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit %d: %s", args, r.code, r.stderr)
		}
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("a folder was made (%v)", err)
	}
}

// A node started by hand, with its cluster of one, serves the commands of a cluster.
func TestNodeServesCommands(t *testing.T) {
	dir := folder(t, map[string]string{"s.yaml": "model: probe\n", "node.yaml": "cluster_name: north\nlog_level: warn\n"})
	cmd, _, errs := process(t, dir, []string{"SIMNODE_NAME=first"}, "node", "--config", "node.yaml", "--bind", "127.0.0.1:0", "--api", "127.0.0.1:0", "-o", "json")
	cmd.Stdout = nil
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var at listening
	if err := json.NewDecoder(stdout).Decode(&at); err != nil || at.Name != "first" {
		t.Fatalf("%+v: %v: %s", at, err, errs)
	}
	ask := func(args ...string) result {
		t.Helper()
		r := simnode(t.Context(), append(args, "--cluster", at.API)...)
		if r.code != Done {
			t.Fatalf("%v: exit %d: %s", args, r.code, r.stderr)
		}
		return r
	}
	one := simnode(t.Context(), "run", filepath.Join(dir, "s.yaml"), "--out", filepath.Join(dir, "one"), "-o", "json")
	r := ask("submit", filepath.Join(dir, "s.yaml"), "--watch", "-o", "json", "--no-progress")
	var got, want summary.Summary
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(one.stdout), &want); err != nil || got.Digest != want.Digest || got.Digest == "" {
		t.Errorf("digest %s, not %s (%v)", got.Digest, want.Digest, err)
	}
	ask("results", "--out", filepath.Join(dir, "fetched"))
	if a, b := names(t, filepath.Join(dir, "one")), names(t, filepath.Join(dir, "fetched")); !slices.Equal(a, b) {
		t.Errorf("files %q, not %q", b, a)
	}
	if r := ask("nodes"); !strings.Contains(r.stdout, "first") {
		t.Errorf("%s", r.stdout)
	}
	if r := ask("status"); !strings.Contains(r.stdout, "cluster north, leader first") || !strings.Contains(r.stdout, "done") {
		t.Errorf("%s", r.stdout)
	}
	second, _, refused := process(t, dir, nil, "node", "--bind", "127.0.0.1:0", "--api", "127.0.0.1:0")
	if code := exitCode(second.Run()); code != Failed || !strings.Contains(refused.String(), "another node is using the data folder") {
		t.Errorf("a second node in one folder: exit %d: %s", code, refused)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(cmd.Wait()); code != Done {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestNodeRefuses(t *testing.T) {
	dir := folder(t, map[string]string{"node.yaml": "role: worker\nrole: both\n", "bad.yaml": "rôle: x\n",
		"all.yaml": "nmae: x\njoin: {a: b}\nrole: boss\nxyz: 1\n", "tokens": "word\n"})
	for args, want := range map[string]string{
		"--role boss":       `--role: "boss": use one of both, coordinator, worker`,
		"--bind 0.0.0.0:1":  "or say --insecure",
		"--api 10.0.0.1:80": "simnode certs makes them",
		"--config " + filepath.Join(dir, "node.yaml"): "node.yaml:2: role is given twice",
		"--config " + filepath.Join(dir, "bad.yaml"):  "bad.yaml:1: unknown key",
		"--config " + filepath.Join(dir, "none.yaml"): "does not exist",
		"--cert x":      "--ca, --cert and --key belong together",
		"--join a,,b":   "no list of nodes",
		"--bind x":      "expected HOST:PORT",
		"--workers 0":   "from 1 to 1024",
		"--name -x":     "is no name",
		"--tokens none": "--tokens: none does not exist",
		"--tokens " + filepath.Join(dir, "tokens"): "--tokens: " + filepath.Join(dir, "tokens") + ": line 1: 1 words",
		"--workers 0 --config " + filepath.Join(dir, "all.yaml"): "all.yaml:1: unknown key \"nmae\": did you mean \"name\"?\n" +
			"DIR/all.yaml:2: join: expected a single value or a list of such\nDIR/all.yaml:4: unknown key \"xyz\": there are name, ",
		"argument": "takes no arguments",
	} {
		r := simnode(t.Context(), append([]string{"node", "--data", filepath.Join(dir, "data")}, strings.Fields(args)...)...)
		want = strings.ReplaceAll(want, "DIR", dir)
		if r.code != BadUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit %d: %s", args, r.code, r.stderr)
		}
		if all := []string{"all.yaml:3: \"boss\"", "--workers: \"0\""}; strings.Contains(args, "all.yaml") && !(strings.Contains(r.stderr, all[0]) && strings.Contains(r.stderr, all[1])) {
			t.Errorf("%s: not all of %q in %s", args, all, r.stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
		t.Errorf("a data folder was made (%v)", err)
	}
}
