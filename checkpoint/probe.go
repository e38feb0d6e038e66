package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// probeVariable tells a process that it is to put a folder in order and nothing else.
const probeVariable = "SIMNODE_CHECKPOINT_PROBE"

// probeSound is what such a process says when all is well. A program that does not call Probing never says it.
const probeSound = "checkpoint folder is sound"

// probeRequest is the value of the variable, probeAnswer what the process writes.
type probeRequest struct {
	Dir    string `json:"dir"`
	Memory int64  `json:"memory"`
}

type probeAnswer struct {
	Sound  string       `json:"sound,omitempty"`
	Damage *DamageError `json:"damage,omitempty"`
	Full   *FullError   `json:"full,omitempty"`
	InUse  bool         `json:"in_use,omitempty"`
	Error  string       `json:"error,omitempty"`
}

// Probing must be called by main before all else, and by TestMain. In a process that Probe started it does the work
// and ends the process; in every other it does nothing.
func Probing() {
	request := os.Getenv(probeVariable)
	if request == "" {
		return
	}
	var a probeAnswer
	var r probeRequest
	err := json.Unmarshal([]byte(request), &r)
	if err == nil {
		err = repair(r)
	}
	switch {
	case err == nil:
		a.Sound = probeSound
	case errors.As(err, &a.Damage):
	case errors.As(err, &a.Full):
	case errors.Is(err, ErrInUse):
		a.InUse = true
	default:
		a.Error = err.Error()
	}
	if json.NewEncoder(os.Stdout).Encode(a) != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// repair opens a folder that was not closed, reads all that is in it, and closes it.
func repair(r probeRequest) error {
	// Whoever started this process may have been killed, and with it went the folder's lock.
	lock := flock.New(filepath.Join(r.Dir, probingName), flock.SetPermissions(0o600))
	if ok, err := lock.TryLock(); err != nil {
		return damaged(r.Dir, "", "%v", err)
	} else if !ok {
		return ErrInUse
	}
	s, err := newStore(Options{Dir: r.Dir, Memory: r.Memory, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := s.readHead(); err != nil {
		return err
	}
	if err := removeEmpty(r.Dir); err != nil {
		return err
	}
	db, err := openDatabase(r.Dir, max(orDefault(r.Memory, defaultMemory), s.sums.Memory), false, s.log)
	if err != nil {
		return damaged(r.Dir, dbName, "%v", err)
	}
	s.db = db
	if err = s.load(); err == nil {
		err = s.Verify(nil)
	}
	if err == nil {
		err = s.writeHead() // with a checkpoint whose commit a crash cut short
	}
	if err != nil {
		return err // the process ends: the database is left as it is
	}
	return s.shut(nil)
}

// removeEmpty removes logs of no length, which the database does not open: a crash came between making one and its
// first byte.
func removeEmpty(dir string) error {
	names, err := dbFiles(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if ext := filepath.Ext(name); ext != ".mem" && ext != ".vlog" {
			continue
		}
		path := filepath.Join(dir, dbName, name)
		if info, err := os.Stat(path); err != nil {
			return err
		} else if info.Size() > 0 {
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// Probe puts a folder that was not closed in order, in a process of its own: the program is started again, and its
// Probing does the work. The caller holds the folder's lock. The database may end that process; then, as for anything
// else that is wrong with the data, there is a *DamageError. memory is as in Options.
func Probe(dir string, memory int64) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("checkpoint folder %s was not closed and is to be looked at: %w", dir, err)
	}
	request, err := json.Marshal(probeRequest{dir, memory})
	if err != nil {
		return err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), probeVariable+"="+string(request))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("checkpoint folder %s was not closed and is to be looked at: start %s: %w", dir, program, err)
	}
	if err != nil && stopped(cmd.ProcessState) {
		return fmt.Errorf("checkpoint folder %s was not closed, and the process that puts it in order was ended: %w", dir, err)
	}
	if err != nil {
		return damaged(dir, dbName, "the database dies of it: %v: %s", err, firstLine(stderr.String()))
	}
	var a probeAnswer
	if err := json.Unmarshal(stdout.Bytes(), &a); err != nil {
		return fmt.Errorf("checkpoint folder %s was not closed and is to be looked at, but %s does not call checkpoint.Probing when it starts", dir, program)
	}
	switch {
	case a.Sound == probeSound:
		return nil
	case a.Damage != nil:
		return a.Damage
	case a.Full != nil:
		return a.Full
	case a.InUse:
		return fmt.Errorf("checkpoint folder %s was not closed, and is %w", dir, ErrInUse)
	}
	return fmt.Errorf("checkpoint folder %s was not closed and cannot be put in order: %s", dir, a.Error)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// putInOrder does so with a folder that was not closed.
func (s *Store) putInOrder(memory int64) error {
	if s.readOnly {
		return s.putInOrderAlone(memory)
	}
	if err := s.roomToOpen(); err != nil {
		return err
	}
	if err := Probe(s.dir, memory); err != nil {
		return err
	}
	if err := s.readHead(); err != nil {
		return err
	}
	if !s.sums.Clean {
		return damaged(s.dir, sumsName, "it was not brought up to date")
	}
	return nil
}

// putInOrderAlone takes the lock of a reader for itself meanwhile.
func (s *Store) putInOrderAlone(memory int64) error {
	busy := fmt.Errorf("checkpoint folder %s was not closed, and is %w", s.dir, ErrInUse)
	if err := s.lock.Unlock(); err != nil {
		return err
	}
	if ok, err := s.lock.TryLock(); err != nil || !ok {
		return errors.Join(busy, err)
	}
	s.readOnly = false
	err := s.putInOrder(memory)
	s.readOnly = true
	if err != nil {
		return err
	}
	if err := s.lock.Unlock(); err != nil {
		return err
	}
	if ok, err := s.lock.TryRLock(); err != nil || !ok {
		return errors.Join(busy, err)
	}
	// Another may have come between.
	if err := s.readHead(); err != nil {
		return err
	}
	if !s.sums.Clean {
		return busy
	}
	return nil
}
