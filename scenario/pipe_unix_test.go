//go:build unix

package scenario

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe that nobody writes to would be waited for without end.
func TestPipesAreRefused(t *testing.T) {
	dir := folder(t, map[string]string{"s.yaml": "model: tower\nparams: {plain: 1, airports: pipe}\n"})
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for path, want := range map[string]string{
		pipe:                         "pipe\" is not a regular file; name a regular file",
		"/dev/zero":                  "\"/dev/zero\" is not a regular file; name a regular file",
		filepath.Join(dir, "s.yaml"): "pipe\" is not a regular file; name a regular file; files are named relative to the scenario",
	} {
		_, err := Load(path, Options{Models: testModels()})
		if err == nil || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), ";;") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
