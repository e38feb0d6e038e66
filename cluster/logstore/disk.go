package logstore

import (
	"io"
	"os"
)

// Disk is a folder: the seam at which tests let writes fail, hang, tear or get lost. Names have no
// separators.
type Disk interface {
	// Open opens a file for reading and writing and makes it if it is not there.
	Open(name string) (File, error)
	Remove(name string) error
	// List returns the names of all files.
	List() ([]string, error)
	// Sync makes creations and removals durable.
	Sync() error
	// Path says where a file is, for people.
	Path(name string) string
}

// File is a file of a Disk.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Size() (int64, error)
}

// Folder returns the folder at path as a Disk. It makes the folder if needed; only its owner may read it.
func Folder(path string) (Disk, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	return folder(path), nil
}

type folder string

func (d folder) Path(name string) string { return string(d) + string(os.PathSeparator) + name }

func (d folder) Open(name string) (File, error) {
	f, err := os.OpenFile(d.Path(name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d folder) Remove(name string) error { return os.Remove(d.Path(name)) }

func (d folder) List() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (d folder) Sync() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
