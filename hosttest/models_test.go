//go:build linux

package hosttest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestShippedScenariosAgree runs every scenario that ships on one to eight nodes and compares digests, results
// and files with a run in one process.
func TestShippedScenariosAgree(t *testing.T) {
	t.Parallel()
	short := map[string][]string{
		"airspace-us":      {"--end", "15 min"},
		"life-r-pentomino": {"--set", "params.generations=15", "--set", "params.report=[0,15]"},
		"phold":            {"--end", "1 s"},
	}
	counts := []int{1, 2, 3, 4, 8}
	if testing.Short() {
		counts = []int{3}
	}
	if os.Getenv(longTests) != "" {
		short = map[string][]string{"airspace-us": {"--end", "4 h"}, "life-r-pentomino": nil, "phold": nil}
	}
	files, err := filepath.Glob("../scenarios/*.yaml")
	if err != nil || len(files) != len(short) {
		t.Fatalf("scenarios %q (%v), not those of this test", files, err)
	}
	for _, file := range files {
		name := filepath.Base(file[:len(file)-len(".yaml")])
		args, ok := short[name]
		if !ok {
			t.Fatalf("%s: how long is it to run?", name)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			agree(t, file, out, "alone", append([]string{"--regions", "5"}, args...)...)
			want := agree(t, file, out, "alone-2", append([]string{"--regions", "2"}, args...)...)
			for _, n := range counts {
				to := fmt.Sprint("nodes-", n)
				got := agree(t, file, out, to, append([]string{"--nodes", fmt.Sprint(n)}, args...)...)
				if got.Digest != want.Digest || string(got.Results) != string(want.Results) {
					t.Errorf("%d nodes: digest %s, in one process %s", n, got.Digest, want.Digest)
				}
				sameFiles(t, filepath.Join(out, to), filepath.Join(out, "alone"))
			}
		})
	}
}

func agree(t *testing.T, file, dir, to string, args ...string) summary {
	t.Helper()
	out, err := run(t.Context(), ".", append([]string{program(), "run", file, "--out", filepath.Join(dir, to), "-o", "json", "--no-progress"}, args...)...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return parse(t, out)
}
