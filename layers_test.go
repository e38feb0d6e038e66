// Package simnode_test holds what concerns the module as a whole.
package simnode_test

import (
	"os/exec"
	"strings"
	"testing"
)

// layers are the packages from the ground up, as docs/ARCHITECTURE.md has them: each may import those of lines
// before its own, and of its own line none but those of its own folder.
const layers = `
sim
spatial
partition
lbts
checkpoint
control cluster/link cluster/logstore cluster/certs
cluster/transport
cluster
node
record scenario
record/report
summary
models
api
server
chaos
cli
cmd examples hosttest
`

func TestArrowsPointUpwards(t *testing.T) {
	level := map[string]int{}
	for i, line := range strings.Split(strings.TrimSpace(layers), "\n") {
		for _, name := range strings.Fields(line) {
			level[name] = i
		}
	}
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/simnode/simnode/"
	of := func(path string) (int, string) {
		name := strings.TrimPrefix(path, module)
		for name != "" {
			if l, ok := level[name]; ok {
				return l, name
			}
			name = name[:max(strings.LastIndex(name, "/"), 0)]
		}
		return -1, ""
	}
	n := 0
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		paths := strings.Fields(line)
		if paths[0]+"/" == module {
			continue
		}
		own, folder := of(paths[0])
		if own < 0 {
			t.Errorf("%s has no place among the layers", paths[0])
			continue
		}
		for _, p := range paths[1:] {
			if !strings.HasPrefix(p, module) {
				continue
			}
			n++
			if theirs, name := of(p); theirs >= own && name != folder {
				t.Errorf("%s imports %s, which is above it or beside it", paths[0], p)
			}
		}
	}
	if n < 50 {
		t.Errorf("%d imports were looked at", n)
	}
}
