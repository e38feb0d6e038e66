package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// A run removes what runs left whose process is dead, and nothing else.
func TestLeftoversOfDeadRuns(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".simnode-run-dead/owner", ".simnode-run-dead/tokens", ".simnode-run-dead/node-1/data",
		".simnode-run-lives/owner", ".simnode-run-lives/node-1/data", ".simnode-run-young/node-1/data", ".simnode-run-old/node-1/data",
		".simnode-run-file", "another/owner"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	lives := flock.New(filepath.Join(dir, ".simnode-run-lives", "owner"))
	if mine, err := lives.TryLock(); err != nil || !mine {
		t.Fatal(mine, err)
	}
	defer lives.Close()
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, ".simnode-run-old"), long, long); err != nil {
		t.Fatal(err)
	}
	path, owner, err := makeRunFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	want := []string{".simnode-run-file", ".simnode-run-lives", ".simnode-run-young", "another", filepath.Base(path)}
	slices.Sort(want)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
	if mine, err := flock.New(filepath.Join(path, ownerFile)).TryLock(); err != nil || mine {
		t.Errorf("the new folder is not locked: %v", err)
	}

	// The last node removes the folder only when nobody owns it and no other node uses it.
	for _, step := range []struct {
		name string
		do   func() error
		left bool
	}{
		{"owned", func() error { return nil }, true},
		{"in use", func() error { return os.MkdirAll(filepath.Join(path, "node-2"), 0o700) }, true},
		{"not owned, in use", owner.Close, true},
		{"not owned, not in use", func() error { return os.Remove(filepath.Join(path, "node-2")) }, false},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		removeLast(path)
		if _, err := os.Stat(path); (err == nil) != step.left {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}
