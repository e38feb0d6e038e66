package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/summary"
)

// store is the folder of results: DIR/jobs/JOB/files holds what a run in one process would leave in its
// folder, DIR/jobs/JOB/result.json says so.
type store struct{ dir string }

// result is what is kept of a job that has ended, and what the log holds of it.
type result struct {
	// Recorder is the node that has the files; empty for a job that has left none, of which only is known how far
	// it was.
	Recorder string `json:"recorder"`
	// Summary is the document of package summary; left out of the log where it is large, and empty for a
	// run that failed.
	Summary string     `json:"summary,omitempty"`
	Files   []api.File `json:"files"`
	// Failure is why the model's results could not be made; the run itself went well.
	Failure string `json:"failure,omitempty"`
	// Reached is the simulated time that was reached, End that of the scenario.
	Reached sim.Time `json:"reached"`
	End     sim.Time `json:"end"`
	Events  uint64   `json:"events"`
	// Interrupted says that a user ended the run early.
	Interrupted bool `json:"interrupted,omitempty"`
	// Wall is how long the events took.
	Wall time.Duration `json:"wall"`
}

const (
	resultFile  = "result.json"
	filesFolder = "files"
	// largestInLog is how large a result may be in the log.
	largestInLog = control.MaxResult / 4
)

// validJob reports whether an id is one that the replicated state gives, and so may name a folder.
func validJob(id string) bool {
	number, ok := strings.CutPrefix(id, "job-")
	n, err := strconv.ParseUint(number, 10, 64)
	return ok && err == nil && strconv.FormatUint(n, 10) == number
}

func (s store) job(id string) (string, error) {
	if !validJob(id) {
		return "", fmt.Errorf("%q is no id of a job: expected such as job-1", id)
	}
	return filepath.Join(s.dir, "jobs", id), nil
}

// filesOf is the folder of files in that of a job.
func filesOf(dir string) string { return filepath.Join(dir, filesFolder) }

// create makes an empty folder for the files of a job. One that is there is of an earlier life of the
// cluster, or of an earlier try.
func (s store) create(id string) (files string, err error) {
	dir, err := s.job(id)
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	files = filesOf(dir)
	return files, os.MkdirAll(files, 0o700)
}

// remove removes what is kept of a job.
func (s store) remove(id string) error {
	dir, err := s.job(id)
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// finish keeps the result of a job whose files are complete.
func (s store) finish(id string, r *result) error {
	dir, err := s.job(id)
	if err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, resultFile)
	if err := os.WriteFile(path+".partial", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".partial", path)
}

// files lists what is in the folder of files, in the order of the summary if there is one.
func (s store) files(id string, sum *summary.Summary) (list []api.File, err error) {
	dir, err := s.job(id)
	if err != nil {
		return nil, err
	}
	var names []string
	if sum != nil {
		names = sum.Outputs
	} else if names, err = complete(filesOf(dir)); err != nil {
		return nil, err
	}
	for _, name := range names {
		info, err := os.Stat(filepath.Join(filesOf(dir), filepath.Base(name)))
		if err != nil {
			return nil, err
		}
		list = append(list, api.File{Name: filepath.Base(name), Size: info.Size()})
	}
	return list, nil
}

// complete lists the complete files of a folder in order of name.
func complete(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasSuffix(e.Name(), ".partial") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// load returns the result of a job, or nil where none is kept.
func (s store) load(id string) (*result, error) {
	dir, err := s.job(id)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, resultFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &result{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s of %s is damaged: %w", resultFile, id, err)
	}
	return r, nil
}

// open opens a file that the result of a job lists.
func (s store) open(id, name string) (*os.File, error) {
	r, err := s.load(id)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, api.Errorf(api.NotFound, "the files of %s are no longer here", id)
	}
	for _, f := range r.Files {
		if f.Name != name {
			continue
		}
		dir, err := s.job(id)
		if err != nil {
			return nil, err
		}
		root, err := os.OpenRoot(filesOf(dir))
		if err != nil {
			return nil, err
		}
		defer root.Close()
		return root.Open(name)
	}
	return nil, api.Errorf(api.NotFound, "%s has no file %q", id, name)
}

// piece is the largest part of a file that goes into one answer to another node.
const piece = 256 << 10

// read returns a part of a file.
func (s store) read(id, name string, offset int64) ([]byte, error) {
	f, err := s.open(id, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, piece)
	n, err := f.ReadAt(data, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}

// prune removes what is kept of jobs that the cluster has forgotten.
func (s store) prune(state *control.State) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, "jobs"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, err := strconv.ParseUint(strings.TrimPrefix(e.Name(), "job-"), 10, 64)
		if err != nil || !validJob(e.Name()) || number > state.NextJob || state.Job(e.Name()) != nil {
			continue
		}
		if err := s.remove(e.Name()); err != nil {
			return err
		}
	}
	return nil
}
