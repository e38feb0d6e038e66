package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// rowWriter is a format of files.
type rowWriter interface {
	write(row []cell) error
	close() error
}

// output is one file being written, under its name with ".partial" until it is complete.
type output struct {
	dir, name string
	columns   []column
	// out is nil while the file is not yet begun.
	out  *appender
	rows rowWriter
	// durable files are brought to the disk before they get their name.
	durable bool
	// saved files are part of what Save saves: one that could not be completed stays.
	saved bool
}

const partial = ".partial"

func (o *output) path() string    { return filepath.Join(o.dir, o.name) }
func (o *output) partial() string { return o.path() + partial }

// create makes the file.
func (o *output) create() error {
	f, err := os.Create(o.partial())
	if err != nil {
		return &DirError{o.dir, err}
	}
	o.out = &appender{file: f}
	if o.saved {
		o.out.hash = xxhash.New()
	}
	return nil
}

// begin makes the file ready for the first row.
func (o *output) begin() (err error) {
	if err := o.create(); err != nil {
		return err
	}
	switch {
	case o.name == spoolName:
		_, err := o.out.Write([]byte(spoolMagic))
		return err
	case strings.HasSuffix(o.name, parquetEnding):
		o.rows = newParquet(o.out.file, o.columns)
		return nil
	}
	if o.rows, err = newCSV(o.out, o.columns); err != nil {
		return errors.Join(o.fail(err), o.discard())
	}
	return nil
}

func (o *output) fail(err error) error {
	return fmt.Errorf("writing %s: %w: check the free space of %q", o.name, err, o.dir)
}

// finish completes the file and gives it its name.
func (o *output) finish() error {
	err := o.rows.close()
	if err == nil {
		err = o.out.flush()
	}
	if err == nil && o.durable {
		err = o.out.sync()
	}
	if err = errors.Join(err, o.out.file.Close()); err != nil {
		if o.saved {
			return o.fail(err)
		}
		return errors.Join(o.fail(err), os.Remove(o.partial()))
	}
	if err := os.Rename(o.partial(), o.path()); err != nil {
		return o.fail(err)
	}
	return nil
}

// discard removes a file that is not wanted.
func (o *output) discard() error {
	if o.out == nil {
		return nil
	}
	return errors.Join(o.out.file.Close(), os.Remove(o.partial()))
}

// close leaves the file as it is.
func (o *output) close() error {
	if o.out == nil {
		return nil
	}
	return o.out.file.Close()
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

const (
	csvEnding     = ".csv"
	parquetEnding = ".parquet"
)

// formats returns the endings of the files.
func (o Options) formats() (endings []string) {
	if o.CSV || !o.Parquet {
		endings = append(endings, csvEnding)
	}
	if o.Parquet {
		endings = append(endings, parquetEnding)
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
