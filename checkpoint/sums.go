package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sums are the sizes and hashes of the files of the database that will not change any more.
type sums struct {
	// Clean says that the store was closed: these are all its files.
	Clean bool      `json:"clean"`
	Files []fileSum `json:"files"`
	// Memory is the bound with which the database was opened: what its logs hold fits into that.
	Memory int64 `json:"memory,omitempty"`
}

type fileSum struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	Sum  string `json:"sum"`
}

const (
	sumsName = "sums"
	dbName   = "db"
)

func (u *sums) find(name string) (int, bool) {
	return slices.BinarySearchFunc(u.Files, name, func(f fileSum, n string) int { return strings.Compare(f.Name, n) })
}

// sumFile hashes a file of the database.
func sumFile(dir, name string) (fileSum, error) {
	f, err := os.Open(filepath.Join(dir, dbName, name))
	if err != nil {
		return fileSum{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return fileSum{Name: name, Size: n, Sum: hex.EncodeToString(h.Sum(nil))}, err
}

// dbFiles lists the files of the database; a folder that is not there has none.
func dbFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, dbName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// sumAll returns the sums of a database that is closed. Files that were sealed before must be as they were.
func sumAll(dir string, sealed *sums) (*sums, error) {
	names, err := dbFiles(dir)
	if err != nil {
		return nil, err
	}
	u := &sums{Clean: true}
	for _, name := range names {
		f, err := sumFile(dir, name)
		if err != nil {
			return nil, err
		}
		if i, ok := sealed.find(name); ok && sealed.Files[i] != f {
			return nil, damaged(dir, filepath.Join(dbName, name), "the file does not have the size and SHA-256 it had when it was written")
		}
		u.Files = append(u.Files, f)
	}
	return u, nil
}

// verify compares the files with the sums. After a crash the database may have removed some and made others: only
// those of the sums that are there are compared.
func (u *sums) verify(dir string) error {
	names, err := dbFiles(dir)
	if err != nil {
		return err
	}
	here := make(map[string]bool, len(names))
	for _, name := range names {
		here[name] = true
		if _, ok := u.find(name); u.Clean && !ok {
			return damaged(dir, filepath.Join(dbName, name), "the file was not there when the folder was closed")
		}
	}
	for _, want := range u.Files {
		if !here[want.Name] {
			if u.Clean {
				return damaged(dir, filepath.Join(dbName, want.Name), "the file is missing")
			}
			continue
		}
		if !u.Clean && isEmpty(dir, want.Name) {
			continue // the database empties a file before it removes it; if it misses it, it will not open
		}
		if err := want.compare(dir); err != nil {
			return err
		}
	}
	return nil
}

func isEmpty(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, dbName, name))
	return err == nil && info.Size() == 0
}

func (want fileSum) compare(dir string) error {
	path := filepath.Join(dbName, want.Name)
	info, err := os.Stat(filepath.Join(dir, path))
	if err != nil {
		return damaged(dir, path, "cannot be read: %v", err)
	}
	if info.Size() != want.Size {
		return damaged(dir, path, "the file has %d bytes, not %d", info.Size(), want.Size)
	}
	got, err := sumFile(dir, want.Name)
	if err != nil {
		return damaged(dir, path, "cannot be read: %v", err)
	}
	if got != want {
		return damaged(dir, path, "the file does not have the SHA-256 it had when it was written")
	}
	return nil
}
