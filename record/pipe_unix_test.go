//go:build unix

package record

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestResumePipe: a pipe in place of a file is refused; to open it would take for ever.
func TestResumePipe(t *testing.T) {
	o := both(t.TempDir())
	r, state := resumable(t, o)
	mustClose(t, r)
	path := filepath.Join(o.Dir, "events.csv"+partial)
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := Resume(r.prog, o, state)
	var typed *DamageError
	if !errors.As(err, &typed) || typed.File != "events.csv"+partial || !strings.Contains(err.Error(), "it is not a file but p") {
		t.Errorf("error %v", err)
	}
}
