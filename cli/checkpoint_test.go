package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func decode(t testing.TB, r result, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.stdout), to); err != nil || r.code != Done || r.stderr != "" {
		t.Fatalf("exit %d, %v: %s%s", r.code, err, r.stdout, r.stderr)
	}
}

// What the commands tell of a checkpoint is what a run that ends there has.
func TestCheckpointCommands(t *testing.T) {
	t.Parallel()
	dir := suspended(t, endless, 2)
	data := filepath.Join(dir, "d")
	list := listed(t, data)
	last, before := list[len(list)-1], list[len(list)-2]
	if last.Parent != before.Number || last.At <= before.At || last.Entities != 20 || last.Events == 0 || last.WrittenBytes == 0 || last.Nodes != 1 || last.Regions == 0 || before.GivenUp {
		t.Errorf("%+v after %+v", last, before)
	}
	if _, err := time.Parse(time.RFC3339, last.Written); err != nil {
		t.Error(err)
	}
	text := simnode(t.Context(), "checkpoint", "ls", data)
	if text.code != Done || !strings.Contains(text.stdout, last.Digest) || !strings.HasPrefix(text.stdout, "NUMBER  AT ") {
		t.Errorf("exit %d: %s%s", text.code, text.stdout, text.stderr)
	}

	var entity entityJSON
	decode(t, simnode(t.Context(), "checkpoint", "show", data, "7", "-o", "json"), &entity)
	if entity.Entity != 7 || entity.Kind != "counter" || entity.Checkpoint != last.Number || entity.At != last.At || !strings.Contains(entity.State, "N:") ||
		entity.Position == nil || entity.Position[0] != 60 || entity.Last > last.At || entity.Sequence == 0 {
		t.Errorf("%+v", entity)
	}
	pending := uint64(0)
	for id := range 20 {
		var x entityJSON
		decode(t, simnode(t.Context(), "checkpoint", "show", data, fmt.Sprint(id+1), "-o", "json", "--at", fmt.Sprint(last.Number)), &x)
		for _, p := range x.Pending {
			if pending++; p.Time < last.At || p.Event != "tick" || p.From == 0 {
				t.Errorf("%+v waits for entity %d at %g", p, id+1, last.At)
			}
		}
	}
	if pending != last.Events {
		t.Errorf("%d events are pending by entity, and %d in all", pending, last.Events)
	}
	if r := simnode(t.Context(), "checkpoint", "show", data, "7"); r.code != Done || !strings.Contains(r.stdout, "kind        counter\n") || !strings.Contains(r.stdout, "position    60, 0, 0\n") {
		t.Errorf("exit %d: %s%s", r.code, r.stdout, r.stderr)
	}

	var d diffJSON
	decode(t, simnode(t.Context(), "checkpoint", "diff", data, fmt.Sprint(before.Number), fmt.Sprint(last.Number), "--limit", "2", "-o", "json"), &d)
	if d.Changed.Count+d.Same != 20 || d.Changed.Count == 0 || len(d.Changed.First) > 2 || d.Added.Count+d.Removed.Count != 0 {
		t.Errorf("%+v", d)
	}
	decode(t, simnode(t.Context(), "checkpoint", "diff", data, "latest", "latest", "-o", "json"), &d)
	if d.Same != 20 {
		t.Errorf("with itself: %+v", d)
	}
	if r := simnode(t.Context(), "checkpoint", "diff", data, fmt.Sprint(before.Number), "latest"); r.code != Done || !strings.Contains(r.stdout, "changed") {
		t.Errorf("exit %d: %s%s", r.code, r.stdout, r.stderr)
	}

	var verified struct {
		Intact      bool
		Checkpoints []checkedJSON
	}
	decode(t, simnode(t.Context(), "checkpoint", "verify", data, "-o", "json"), &verified)
	if !verified.Intact || len(verified.Checkpoints) != len(list) {
		t.Errorf("%+v", verified)
	}
	var pruned struct {
		Removed []uint64
		Kept    int
	}
	decode(t, simnode(t.Context(), "checkpoint", "prune", data, "--keep", "1", "-o", "json"), &pruned)
	if pruned.Kept != 1 || len(pruned.Removed) != len(list)-1 || len(numbers(t, data)) != 1 {
		t.Errorf("%+v", pruned)
	}
}

// The digest of a checkpoint is that of a run that ends at its time.
func TestDigestOfACheckpointIsThatOfARunThatEndsThere(t *testing.T) {
	t.Parallel()
	dir := suspended(t, endless, 1)
	c := listed(t, filepath.Join(dir, "d"))[0]
	r := simnode(t.Context(), "run", filepath.Join(dir, "s.yaml"), "--end", fmt.Sprintf("%.9f s", c.At), "--record", "off", "-o", "json", "--no-progress")
	if r.code != Done || !strings.Contains(r.stdout, `"digest": "`+c.Digest+`"`) {
		t.Errorf("exit %d: no %s in %s%s", r.code, c.Digest, r.stdout, r.stderr)
	}
}

// Any change to any stored file is found by verify, and refused by resume, which leaves all as it is.
func TestFault26BitFlip(t *testing.T) {
	t.Parallel()
	dir := suspended(t, endless, 1)
	data := filepath.Join(dir, "d")
	saved := tree(t, dir)
	for name, text := range saved {
		if strings.HasSuffix(name, "ballast") || strings.HasSuffix(name, "s.yaml") || len(text) == 0 {
			continue // nothing is stored in it
		}
		alter(t, name, len(text)/2)
		before := tree(t, dir)
		v := simnode(t.Context(), "checkpoint", "verify", data)
		r := simnode(t.Context(), "resume", data, "--no-progress")
		if v.code == Done || r.code != BadUsage || r.stdout != "" {
			t.Errorf("%s: verify exit %d: %s%s; resume exit %d: %s", name, v.code, v.stdout, v.stderr, r.code, r.stderr)
		}
		sameTree(t, dir, before)
		putBack(t, dir, saved)
	}
	if v := simnode(t.Context(), "checkpoint", "verify", data); v.code != Done {
		t.Errorf("exit %d: %s%s", v.code, v.stdout, v.stderr)
	}
}

// Export, import and archive: a run goes on from each of them to the same end.
func TestRunsGoOnFromCopies(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"s.yaml": strings.Replace(endless, "formats", "level: raw, formats", 1)})
	at := func(name string) string { return filepath.Join(dir, name) }
	var data, archive string
	for try := 1; data == ""; try++ {
		data, archive = at(fmt.Sprint("d", try)), at(fmt.Sprint("a", try))
		r := within(t, time.Duration(try)*300*time.Millisecond, "run", at("s.yaml"), "--data", data, "--out", at(fmt.Sprint("o", try)), "--archive", archive, "--checkpoint-every", "100ms", "--no-progress")
		if r.code != Stopped || len(numbers(t, data)) == 0 {
			data = ""
		}
	}
	list := listed(t, data)
	end := fmt.Sprintf("%.9f s", list[len(list)-1].At+500)
	if r := simnode(t.Context(), "run", at("s.yaml"), "--end", end, "--out", at("ref"), "--no-progress"); r.code != Done {
		t.Fatal(r.stderr)
	}
	ref := ranIn(t, at("ref"))
	file := at("x.zip")
	if r := simnode(t.Context(), "checkpoint", "export", data, "latest", file); r.code != Done || !strings.Contains(r.stdout, file) {
		t.Fatalf("export: exit %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if r := simnode(t.Context(), "checkpoint", "export", data, "latest", file); r.code != BadUsage || !strings.Contains(r.stderr, "already") {
		t.Errorf("over a file: exit %d: %s", r.code, r.stderr)
	}
	if r := simnode(t.Context(), "checkpoint", "import", file, at("i")); r.code != Done || !strings.Contains(r.stdout, "simnode resume "+at("i")) {
		t.Fatalf("import: exit %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if r := simnode(t.Context(), "checkpoint", "import", file, at("i")); r.code != BadUsage || !strings.Contains(r.stderr, "not empty") {
		t.Errorf("into a run: exit %d: %s", r.code, r.stderr)
	}
	badImports(t, file, at("bad"))
	for _, c := range []string{at("i"), archive} {
		if v := simnode(t.Context(), "checkpoint", "verify", c); v.code != Done {
			t.Errorf("verify %s: exit %d: %s%s", c, v.code, v.stdout, v.stderr)
		}
		if r := simnode(t.Context(), "resume", c, "--end", end, "--regions", "3", "--no-progress"); r.code != Done {
			t.Fatalf("resume %s: exit %d: %s", c, r.code, r.stderr)
		}
		equalRuns(t, c, ranIn(t, filepath.Join(c, resultsName)), ref)
	}
	if r := simnode(t.Context(), "resume", data, "--no-progress"); r.code != BadUsage || !strings.Contains(r.stderr, "--archive") {
		t.Errorf("with an archive that went on: exit %d: %s", r.code, r.stderr)
	}
	if r := simnode(t.Context(), "resume", data, "--end", end, "--archive", at("other"), "--no-progress"); r.code != Done {
		t.Errorf("with another archive: exit %d: %s", r.code, r.stderr)
	}
}

// badImports imports files that are cut short or altered: nothing is left of it.
func badImports(t *testing.T, file, dir string) {
	t.Helper()
	whole := read2(t, file)
	bad := file + ".bad"
	try := func(what, text string) {
		t.Helper()
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := simnode(t.Context(), "checkpoint", "import", bad, dir)
		if _, err := os.Stat(dir); r.code == Done || !os.IsNotExist(err) {
			// A byte that no reader looks at, such as a time, may change; then all is as it was.
			if r.code == Done && what != "cut" && simnode(t.Context(), "checkpoint", "verify", dir).code == Done {
				_ = os.RemoveAll(dir)
				return
			}
			t.Errorf("%s: exit %d: %s, folder %v", what, r.code, r.stderr, err)
		}
		if r.code != BadUsage || !strings.Contains(r.stderr, bad) {
			t.Errorf("%s: exit %d: %s", what, r.code, r.stderr)
		}
	}
	step := 1
	if testing.Short() {
		step = 5
	}
	for i := 0; i < 12; i += step {
		try("cut", whole[:len(whole)*i/12])
		at := len(whole) * (2*i + 1) / 24
		try("altered", whole[:at]+string(whole[at]^4)+whole[at+1:])
	}
}

func TestCheckpointRefusals(t *testing.T) {
	t.Parallel()
	dir := suspended(t, endless, 1)
	data := filepath.Join(dir, "d")
	for _, c := range []struct {
		args string
		want string
	}{
		{"checkpoint list D", `unknown command "list"`},
		{"checkpoint ls", "1 are needed"},
		{"checkpoint ls none", "no run in it"},
		{"checkpoint show D", "2 are needed"},
		{"checkpoint show D seven", "number of an entity"},
		{"checkpoint show D 0", "number of an entity"},
		{"checkpoint show D 21", "no entity 21 in checkpoint"},
		{"checkpoint show D 1 --at 99", "no checkpoint 99"},
		{"checkpoint show D 1 -o yaml", "text, json"},
		{"checkpoint diff D 1", "3 are needed"},
		{"checkpoint diff D one latest", `"one"`},
		{"checkpoint export D 99 x.zip", "no checkpoint 99"},
		{"checkpoint import none.zip i", "none.zip"},
		{"checkpoint prune D", "--keep"},
		{"checkpoint prune D --keep 0", "from 1"},
	} {
		before := tree(t, dir)
		args := strings.Fields(c.args)
		for i := range args {
			if args[i] == "D" {
				args[i] = data
			}
		}
		r := simnode(t.Context(), args...)
		if r.code != BadUsage || r.stdout != "" || !strings.Contains(r.stderr, c.want) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: exit %d: %s%s", c.args, r.code, r.stdout, r.stderr)
		}
		sameTree(t, dir, before)
	}
}
