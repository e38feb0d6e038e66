package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/simnode/simnode/checkpoint"
)

// A run folder (--data) holds what a run needs to go on: the scenario with all that it reads, its settings, its
// checkpoints and, when it has ended, its end. Settings are written last when it is made and removed first when it
// is emptied: a folder without them holds no run.
const (
	settingsFile    = "settings"
	scenarioFile    = "scenario"
	endFile         = "end"
	checkpointsName = "checkpoints"
	resultsName     = "results"
	runLockFile     = "lock"
	unfinishedEnd   = ".tmp"
)

// settingsFormat is the version of the settings.
const settingsFormat = 1

// settings are how a run is done. Those that can change a result are never changed but for its end.
type settings struct {
	Format int `json:"format"`
	// ID tells this run from others: its checkpoints bear it.
	ID string `json:"id"`
	// Name of the scenario as the user gave it.
	Name         string `json:"name"`
	Model        string `json:"model"`
	ModelVersion int    `json:"model_version"`
	// Hash of the scenario with Seed, End and Set, and of the file that holds it.
	Hash   string   `json:"hash"`
	Bundle string   `json:"bundle"`
	Arch   string   `json:"arch"`
	Seed   string   `json:"seed,omitempty"`
	End    string   `json:"end,omitempty"`
	Set    []string `json:"set,omitempty"`
	Record string   `json:"record,omitempty"`
	// Out is the folder of the results: absolute, or relative to the run folder.
	Out     string `json:"out"`
	Regions int    `json:"regions,omitempty"`
	Workers int    `json:"workers,omitempty"`
	// Saving are the flags of checkpoints.
	Saving savingFlags `json:"saving"`
	// Dropped are the numbers of checkpoints that a resume from an older one gave up.
	Dropped []dropped `json:"dropped,omitempty"`
}

// dropped is a range of checkpoints, both ends included.
type dropped struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// isDropped tells whether a checkpoint was given up.
func (s *settings) isDropped(n uint64) bool {
	return slices.ContainsFunc(s.Dropped, func(d dropped) bool { return d.First <= n && n <= d.Last })
}

// runFolderError says that a run folder cannot be used as asked.
type runFolderError struct {
	dir  string
	text string
}

func (e *runFolderError) Error() string { return fmt.Sprintf("run folder %s: %s", e.dir, e.text) }

func folderf(dir, format string, args ...any) error {
	return usageError{&runFolderError{dir, fmt.Sprintf(format, args...)}}
}

// runDir is a run folder.
type runDir struct {
	// dir is the folder as the user gave it.
	dir      string
	settings settings
	// savedOut is where the results of a run that is there are.
	savedOut string
	lock     *flock.Flock
}

func (d *runDir) path(name string) string { return filepath.Join(d.dir, name) }

// out is the folder of the results.
func (d *runDir) out() string {
	if filepath.IsAbs(d.settings.Out) {
		return d.settings.Out
	}
	return d.path(d.settings.Out)
}

// newRunDir makes a run folder for a new run, or takes one that is empty. With fresh a run that is in it is removed.
func newRunDir(dir string, fresh bool) (*runDir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, usagef("--data: %w: choose a folder in which files can be made", err)
	}
	d := &runDir{dir: dir}
	if err := d.take(); err != nil {
		return nil, err
	}
	if err := d.empty(fresh); err != nil {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

// openRunDir opens the folder of a run that exists; with lock it keeps others out.
func openRunDir(dir string, lock bool) (*runDir, error) {
	d := &runDir{dir: dir}
	if _, err := os.Stat(d.path(settingsFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, folderf(dir, "there is no run in it: name the folder that was given to run with --data")
	}
	if lock {
		if err := d.take(); err != nil {
			return nil, err
		}
	}
	if err := d.read(settingsFile, &d.settings); err != nil {
		return nil, errors.Join(err, d.release())
	}
	if f := d.settings.Format; f != settingsFormat {
		return nil, errors.Join(folderf(dir, "it has format %d, and this version of simnode reads format %d: use the version that made it", f, settingsFormat), d.release())
	}
	d.savedOut = d.out()
	return d, nil
}

// take locks the folder. The system lets go of the lock however the process ends.
func (d *runDir) take() error {
	lock := flock.New(d.path(runLockFile))
	switch mine, err := lock.TryLock(); {
	case err != nil:
		return usagef("run folder %s cannot be locked: %w", d.dir, err)
	case !mine:
		return folderf(d.dir, "a run is going on in it: wait for its end, or stop it with Ctrl-C or SIGTERM")
	}
	d.lock = lock
	return nil
}

func (d *runDir) release() error {
	if d.lock == nil {
		return nil
	}
	return d.lock.Close()
}

// runDirFiles are the names in a run folder, the one that makes it one first.
func runDirFiles() []string {
	return []string{settingsFile, endFile, scenarioFile, checkpointsName}
}

// empty makes sure that the folder holds no run and nothing else.
func (d *runDir) empty(fresh bool) error {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return usagef("--data: %w", err)
	}
	known := append(runDirFiles(), runLockFile, resultsName)
	for _, e := range entries {
		if !slices.Contains(known, strings.TrimSuffix(e.Name(), unfinishedEnd)) {
			return folderf(d.dir, "it holds %s, which is not part of a run: choose an empty folder or a new one", e.Name())
		}
	}
	if _, err := os.Stat(d.path(settingsFile)); err == nil && !fresh {
		return d.occupied()
	}
	for _, name := range runDirFiles() {
		for _, end := range []string{"", unfinishedEnd} {
			if err := os.RemoveAll(d.path(name + end)); err != nil {
				return usagef("--data: %w", err)
			}
		}
	}
	return nil
}

// occupied says which run is in the folder, and how to go on.
func (d *runDir) occupied() error {
	what := "a run that cannot be read"
	if err := d.read(settingsFile, &d.settings); err == nil {
		what = fmt.Sprintf("a run of %s (model %s)", d.settings.Name, d.settings.Model)
		if _, err := os.Stat(d.path(endFile)); err == nil {
			what += " that has ended"
		}
	}
	return folderf(d.dir, "it holds %s: go on with it by \"simnode resume %s\", begin anew with --fresh, or choose another folder", what, shown(d.dir))
}

// begin writes what a new run needs.
func (d *runDir) begin(s settings, bundle []byte) error {
	s.Format = settingsFormat
	s.Bundle = hashOf(bundle)
	s.ID = hashOf([]byte(s.Hash + " " + s.Bundle))
	d.settings = s
	if err := writeDurably(d.dir, scenarioFile, bundle); err != nil {
		return err
	}
	return d.write(settingsFile, &d.settings)
}

// bundle reads the scenario.
func (d *runDir) bundle() ([]byte, error) {
	data, err := os.ReadFile(d.path(scenarioFile))
	if err != nil {
		return nil, folderf(d.dir, "the scenario cannot be read: %v", err)
	}
	if hashOf(data) != d.settings.Bundle {
		return nil, folderf(d.dir, "file %s is not the one that was written: put back a copy", scenarioFile)
	}
	return data, nil
}

// store opens the checkpoints.
func (d *runDir) store(readOnly bool) (*checkpoint.Store, error) {
	o := checkpoint.Options{
		Dir: d.path(checkpointsName), Job: d.settings.ID, ReadOnly: readOnly,
		KeepLast: d.settings.Saving.Keep, KeepEvery: d.settings.Saving.KeepEvery,
	}
	s, err := checkpoint.Open(o)
	for try := 0; errors.Is(err, checkpoint.ErrInUse) && d.lock != nil && try < storeTries; try++ {
		// No run is in the folder. A process that a killed one has left may be about to end.
		time.Sleep(storePause)
		s, err = checkpoint.Open(o)
	}
	if err != nil {
		return nil, usageError{err} // nothing has run
	}
	return s, nil
}

const (
	storeTries = 50
	storePause = 100 * time.Millisecond
)

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// sealedLine begins a file of JSON: its kind and the SHA-256 of the rest.
func sealedLine(name string) string { return "simnode run, " + name + ", sha256 " }

// write writes v as a sealed file.
func (d *runDir) write(name string, v any) error {
	data, err := sealFile(name, v)
	if err != nil {
		return err
	}
	return writeDurably(d.dir, name, data)
}

func sealFile(name string, v any) ([]byte, error) {
	body, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return nil, err
	}
	body = append(body, '\n')
	return append([]byte(sealedLine(name)+hashOf(body)+"\n"), body...), nil
}

// read reads a sealed file.
func (d *runDir) read(name string, v any) error {
	data, err := os.ReadFile(d.path(name))
	if err != nil {
		return usagef("run folder %s: %w", d.dir, err)
	}
	if err := unsealFile(name, data, v); err != nil {
		return folderf(d.dir, "file %s is damaged: %v: put back a copy", name, err)
	}
	return nil
}

func unsealFile(name string, data []byte, v any) error {
	line, body, _ := bytes.Cut(data, []byte{'\n'})
	sum, ok := strings.CutPrefix(string(line), sealedLine(name))
	switch {
	case !ok:
		return errors.New("its first line is not that of such a file")
	case sum != hashOf(body):
		return errors.New("its content does not have the SHA-256 of its first line")
	}
	return json.Unmarshal(body, v)
}

// writeDurably replaces a file so that a crash leaves the old one or the new one.
func writeDurably(dir, name string, data []byte) error {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path+unfinishedEnd, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(path+unfinishedEnd, path)
	}
	if err != nil {
		_ = os.Remove(path + unfinishedEnd)
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return syncFolder(dir)
}

// syncFolder makes the names in a folder durable where the system can.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// shown is a path as it can be typed.
func shown(path string) string {
	if strings.ContainsAny(path, " \t\n'\"$&;()*?[]<>|\\`") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
