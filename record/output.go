package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// rowWriter is a format of files.
type rowWriter interface {
	write(row []cell) error
	close() error
}

// output is one file being written, under its name with ".partial" until it is complete.
type output struct {
	dir, name string
	file      *os.File
	rows      rowWriter
}

const partial = ".partial"

func createOutput(dir, name string, columns []column) (*output, error) {
	f, err := os.Create(filepath.Join(dir, name+partial))
	if err != nil {
		return nil, &DirError{dir, err}
	}
	o := &output{dir: dir, name: name, file: f}
	if strings.HasSuffix(name, ".parquet") {
		o.rows = newParquet(f, columns)
		return o, nil
	}
	if o.rows, err = newCSV(f, columns); err != nil {
		return nil, errors.Join(o.fail(err), o.discard())
	}
	return o, nil
}

func (o *output) fail(err error) error {
	return fmt.Errorf("writing %s: %w: check the free space of %q", o.name, err, o.dir)
}

// finish completes the file and gives it its name.
func (o *output) finish() error {
	err := errors.Join(o.rows.close(), o.file.Close())
	if err != nil {
		return errors.Join(o.fail(err), os.Remove(o.file.Name()))
	}
	if err := os.Rename(o.file.Name(), filepath.Join(o.dir, o.name)); err != nil {
		return o.fail(err)
	}
	return nil
}

// discard removes a file that is not wanted.
func (o *output) discard() error {
	return errors.Join(o.file.Close(), os.Remove(o.file.Name()))
}

// table is one set of rows in every format asked for.
type table []*output

func (t table) write(row []cell) error {
	for _, o := range t {
		if err := o.rows.write(row); err != nil {
			return o.fail(err)
		}
	}
	return nil
}

// formats returns the endings of the files.
func (o Options) formats() (endings []string) {
	if o.CSV || !o.Parquet {
		endings = append(endings, ".csv")
	}
	if o.Parquet {
		endings = append(endings, ".parquet")
	}
	return endings
}

// fileNames turns the names of tables into names of files: what is not a letter, digit, dash or
// underscore becomes a dash, and names that are taken get a number.
func fileNames(tables []string) []string {
	taken := map[string]bool{"series": true, "timeline": true, "events": true, "summary": true, "report": true}
	names := make([]string, len(tables))
	for i, t := range tables {
		base := strings.Map(fileRune, t)
		if len(base) > 100 {
			base = base[:100]
		}
		if strings.Trim(base, "-") == "" {
			base = "table"
		}
		names[i] = base
		for n := 2; taken[strings.ToLower(names[i])]; n++ {
			names[i] = fmt.Sprintf("%s-%d", base, n)
		}
		taken[strings.ToLower(names[i])] = true
	}
	return names
}

func fileRune(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
		return r
	}
	return '-'
}

// makeDir makes the folder and tries whether files can be made in it.
func makeDir(dir string) error {
	if dir == "" {
		return &DirError{dir, errors.New("no folder is named")}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return &DirError{dir, err}
	}
	f, err := os.CreateTemp(dir, ".probe-*"+partial)
	if err != nil {
		return &DirError{dir, err}
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return &DirError{dir, err}
	}
	return nil
}
