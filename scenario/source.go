package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// source is where the files are that a scenario names: the disk, or a bundle.
type source interface {
	// shown is the name by which problems speak of a file.
	shown(name string) string
	// open opens a file by the name that the scenario uses.
	open(name string) (io.ReadCloser, *fault)
}

// disk is the source of a scenario in a file: names are relative to its folder.
type disk struct{ scenario string }

func (d disk) shown(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(d.scenario), name)
}

func (d disk) open(name string) (io.ReadCloser, *fault) {
	file, f := openFile(d.shown(name))
	if f != nil {
		return nil, f
	}
	return file, nil
}

// keeper is a disk that keeps what is read from it, up to left bytes more.
type keeper struct {
	disk
	left int64
	kept map[string][]byte
}

func (k *keeper) open(name string) (io.ReadCloser, *fault) {
	data, is := k.kept[name]
	if !is {
		var f *fault
		if data, f = k.keep(name); f != nil {
			return nil, f
		}
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// keep reads a file for the first time.
func (k *keeper) keep(name string) ([]byte, *fault) {
	file, f := openFile(k.shown(name))
	if f != nil {
		return nil, f
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, k.left+1))
	if err != nil {
		return nil, faultf("", "cannot be read: %s", reason(err))
	}
	if int64(len(data)) > k.left {
		return nil, faultf("leave out columns and files that are not used", "the scenario and its files are larger than %s", size(maxUnpacked))
	}
	k.left -= int64(len(data))
	k.kept[name] = data
	return data, nil
}

// readFile reads a whole file of at most most bytes.
func readFile(s source, name string, most int64) ([]byte, *fault) {
	file, f := s.open(name)
	if f != nil {
		return nil, f
	}
	defer file.Close()
	return readWhole(file, most)
}

func readWhole(file io.Reader, most int64) ([]byte, *fault) {
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, faultf("", "cannot be read: %s", reason(err))
	}
	if int64(len(data)) > most {
		return nil, faultf("put large data into a CSV table", "the file is larger than %s", size(most))
	}
	return data, nil
}

// readScenario reads the scenario file itself.
func readScenario(path string) ([]byte, error) {
	file, f := openFile(path)
	var data []byte
	if f == nil {
		defer file.Close()
		data, f = readWhole(file, maxScenario)
	}
	if f != nil {
		return nil, Problems{{File: path, Text: f.text, Help: f.help}}
	}
	return data, nil
}

// openFile opens a file; what is no regular file, such as a pipe, could block for ever.
func openFile(path string) (*os.File, *fault) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, faultf(missingHelp(path), "there is no file %s", quote(path))
	case err != nil:
		return nil, faultf("", "cannot be read: %s", reason(err))
	case info.IsDir():
		return nil, faultf("name a file in it", "%s is a folder", quote(path))
	case !info.Mode().IsRegular():
		return nil, faultf("name a regular file", "%s is not a regular file", quote(path))
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, faultf("", "cannot be read: %s", reason(err))
	}
	return file, nil
}

// missingHelp names the file in the folder whose name is nearest.
func missingHelp(path string) string {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Sprintf("there is no folder %s either", quote(filepath.Dir(path)))
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(1000)
	if near := nearest(filepath.Base(path), sorted(names)); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "check the path"
}

// reason strips the path from an error of package os.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return shorten(err.Error())
}

func size(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
