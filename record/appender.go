package record

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"

	"github.com/cespare/xxhash/v2"
)

// file is what an appender needs of an *os.File.
type file interface {
	io.Writer
	io.ReaderAt
	Sync() error
	Close() error
}

var _ file = (*os.File)(nil)

const bufferSize = 1 << 16

// appender appends to a file through a buffer. What a full disk did not take stays in the buffer and
// is tried again; after any other failure nobody knows what the disk holds, and the appender is broken.
type appender struct {
	file file
	buf  []byte
	// length and hash are those of what the file has taken; hash is nil where none is wanted.
	length int64
	hash   *xxhash.Digest
	// synced is how much of the file is known to be on the disk.
	synced int64
	broken error
}

// Write never loses p: an error says that the buffer could not be emptied.
func (a *appender) Write(p []byte) (int, error) {
	a.buf = append(a.buf, p...)
	if len(a.buf) < bufferSize {
		return len(p), nil
	}
	return len(p), a.flush()
}

// flush hands the buffer to the file.
func (a *appender) flush() error {
	if a.broken != nil || len(a.buf) == 0 {
		return a.broken
	}
	n, err := a.file.Write(a.buf)
	if a.hash != nil {
		_, _ = a.hash.Write(a.buf[:n]) // never fails
	}
	a.length += int64(n)
	a.buf = a.buf[:copy(a.buf, a.buf[n:])]
	if err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		a.broken = err
	}
	return err
}

// sync brings everything to the disk. What a failed one lost is lost (the system forgets it), so that
// it is not tried again.
func (a *appender) sync() error {
	if err := a.flush(); err != nil || a.synced == a.length {
		return err
	}
	if a.broken = a.file.Sync(); a.broken != nil {
		return a.broken
	}
	a.synced = a.length
	return nil
}

// syncDir brings the names in a folder to the disk. Windows has no such call.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
