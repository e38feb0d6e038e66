package checkpoint

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"
)

// diskUse returns what the files of a folder take on the disk, in bytes.
func diskUse(t testing.TB, dir string) int64 {
	t.Helper()
	var n int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		n += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
