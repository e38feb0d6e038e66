package cli

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/simnode/simnode/checkpoint"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
)

// resumeFlags are the flags of resume for a run in a folder.
type resumeFlags struct {
	at               string
	regions, workers count
	end, out         string
	set              []string
	quiet            bool
	saving           savingText
	format           string
}

// resumeCommand is two commands with one name: it goes on with the run in a folder, or with a paused job.
func (e *env) resumeCommand() *cobra.Command {
	f := &resumeFlags{regions: count{most: node.MaxRegions}, workers: count{most: node.MaxRegions}}
	cmd := e.moveCommand("resume", control.Running, "Go on with a run from a checkpoint, or with a paused job", "")
	cmd.Use = "resume DIR|JOB [flags]"
	cmd.Long = `Goes on with the run in the folder DIR, which was given to run with --data, from its newest checkpoint, and takes
more. The end is bit for bit that of a run that was never interrupted, its files included, on any number of regions.

With the id of a JOB of a cluster it lets that job go on, if it is paused. JOB may be left out if only one has not
ended. A folder is told from a job by its being there, or by a slash in its name.

Exit codes: 0 done, 1 the run failed, 2 bad usage, or a folder that cannot be used as asked, 3 no node can be reached,
75 stopped with a checkpoint, 130 interrupted.`
	job := cmd.RunE
	flags := cmd.Flags()
	flags.StringVar(&f.at, "at", "latest", "go on from checkpoint `N`, or from the latest; those after N are given up")
	flags.Var(&f.regions, "regions", "into how many regions space is cut (default: as the run began)")
	flags.Var(&f.workers, "workers", "how many regions are worked on at once (default: as the run began)")
	flags.StringVar(&f.end, "end", "", "another end `T` of the run, such as \"6 h\"")
	flags.StringArrayVar(&f.set, "set", nil, "change a value of the scenario that may change, which are end and record.report: `path=value`; may be repeated")
	flags.StringVar(&f.out, "out", "", "another folder `DIR` for the results; what was recorded so far is copied there")
	flags.BoolVar(&f.quiet, "no-progress", false, "show no progress")
	f.saving.add(flags)
	cmd.RunE = e.begin(func(cmd *cobra.Command, args []string) error {
		mine, err := runFolderMeant(flags, args)
		switch {
		case err != nil:
			return err
		case !mine:
			return job(cmd, args)
		}
		for _, name := range []string{"end", "out"} {
			if flags.Changed(name) && flags.Lookup(name).Value.String() == "" {
				return usagef("--%s is given without a value: give one or leave the flag out", name)
			}
		}
		f.format = flags.Lookup("output").Value.String()
		return e.resume(cmd.Context(), args[0], f, flags)
	})
	return cmd
}

// runFolderMeant tells whether the argument of resume is a folder; a flag of the other meaning is refused.
func runFolderMeant(flags *pflag.FlagSet, args []string) (bool, error) {
	var ofJob, ofRun string
	flags.Visit(func(f *pflag.Flag) {
		switch {
		case f.Name == "output":
		case slices.Contains([]string{"cluster", "token", "ca", "cert", "key"}, f.Name):
			ofJob = f.Name
		case ofRun == "":
			ofRun = f.Name
		}
	})
	isFolder := false
	if len(args) == 1 {
		info, err := os.Stat(args[0])
		isFolder = err == nil && info.IsDir() || strings.ContainsRune(filepath.ToSlash(args[0]), '/')
	}
	switch {
	case ofJob != "" && ofRun != "":
		return false, usagef("--%s is for a job of a cluster and --%s for a run in a folder: give one of them", ofJob, ofRun)
	case ofRun != "" && !isFolder && len(args) == 0:
		return false, usagef("--%s is for a run in a folder: name the folder", ofRun)
	}
	return ofRun != "" || isFolder && ofJob == "", nil
}

// resume goes on with the run in a folder.
func (e *env) resume(ctx context.Context, dir string, f *resumeFlags, flags *pflag.FlagSet) error {
	d, err := openRunDir(dir, true)
	if err != nil {
		return err
	}
	r := &savedRun{folder: d}
	if d.hasEnded() {
		err := e.resumeEnded(d, f)
		return joined(err, d.release())
	}
	if r.job, err = e.resumedJob(ctx, d, f, flags); err != nil {
		return joined(err, d.release())
	}
	return r.ended(r.resume(ctx, f))
}

func (d *runDir) hasEnded() bool {
	_, err := os.Stat(d.path(endFile))
	return err == nil
}

func (e *env) resumeEnded(d *runDir, f *resumeFlags) error {
	if f.end != "" || len(f.set) > 0 || f.at != "latest" {
		return folderf(d.dir, "the run has ended, and its files are complete in %s: it cannot be continued; begin a new one with run", d.out())
	}
	return e.tellEnd(d, f.format)
}

// resumedJob is the run that goes on, with what is to change; the folder's settings are changed in memory only.
func (e *env) resumedJob(ctx context.Context, d *runDir, f *resumeFlags, flags *pflag.FlagSet) (*job, error) {
	s := &d.settings
	if s.Arch != runtime.GOARCH {
		return nil, folderf(d.dir, "the run began on a machine of architecture %s, and this one is %s: numbers may be rounded otherwise here, so go on with it on %s", s.Arch, runtime.GOARCH, s.Arch)
	}
	saving, err := f.saving.over(flags, s.Saving)
	if err != nil {
		return nil, err
	}
	if saving.Archive, err = absolute(saving.Archive); err != nil {
		return nil, err
	}
	s.Saving = saving
	loaded, err := e.loadSaved(ctx, d, f)
	if err != nil {
		return nil, err
	}
	rf := &runFlags{
		file: s.Name, regions: count{n: s.Regions}, workers: count{n: s.Workers}, dir: d.out(), quiet: f.quiet,
		record: &word{text: s.Record}, format: &word{text: f.format},
	}
	if f.regions.n > 0 {
		rf.regions = f.regions
	}
	if f.workers.n > 0 {
		rf.workers = f.workers
	}
	if f.out != "" {
		rf.dir = f.out
	}
	return e.jobOf(rf, loaded)
}

// loadSaved loads the scenario of a run folder, with the changes that are allowed.
func (e *env) loadSaved(ctx context.Context, d *runDir, f *resumeFlags) (*scenario.Scenario, error) {
	s := &d.settings
	data, err := d.bundle()
	if err != nil {
		return nil, err
	}
	load := func(o scenario.Options) (*scenario.Scenario, error) {
		return inBackground(ctx, s.Name, func() (*scenario.Scenario, error) { return scenario.LoadBundle(data, o) })
	}
	o := scenario.Options{Models: e.models, Set: s.Set, Seed: s.Seed, End: s.End}
	was, err := load(o)
	if err != nil {
		return nil, err
	}
	if v := was.Program.Model.Version; v != s.ModelVersion {
		return nil, folderf(d.dir, "the run began with version %d of model %s, and this program has version %d: go on with the program that began it", s.ModelVersion, s.Model, v)
	}
	if hash := hex.EncodeToString(was.Hash[:]); hash != s.Hash {
		return nil, folderf(d.dir, "its scenario gives another run in this program than in the one that began it (hash %.12s, not %.12s): go on with the program that began it", hash, s.Hash)
	}
	if f.end == "" && len(f.set) == 0 {
		return was, nil
	}
	o.Set = slices.Clone(s.Set)
	for _, set := range f.set {
		if value, ok := strings.CutPrefix(set, "end="); ok {
			o.End = value
			continue
		}
		o.Set = append(o.Set, set)
	}
	if f.end != "" {
		o.End = f.end
	}
	now, err := load(o)
	if err != nil {
		return nil, err
	}
	if err := sameRun(was, now); err != nil {
		return nil, folderf(d.dir, "%v: only end, record.report and the number of regions and workers may change; to change more, begin a new run", err)
	}
	s.Set, s.End, s.Hash = o.Set, o.End, hex.EncodeToString(now.Hash[:])
	return now, nil
}

// sameRun says what of a scenario differs that must not.
func sameRun(was, now *scenario.Scenario) error {
	var list []string
	differs := func(what string, a, b any) {
		if a != b {
			list = append(list, fmt.Sprintf("%s was %v and is now %v", what, a, b))
		}
	}
	differs("model", was.Model.Name, now.Model.Name)
	differs("seed", was.Seed, now.Seed)
	differs("space", was.Space, now.Space)
	differs("record.level", was.Record.Level, now.Record.Level)
	differs("record.formats", strings.Join(was.Record.Formats, ", "), strings.Join(now.Record.Formats, ", "))
	for i, s := range was.Settings {
		if i < len(now.Settings) {
			differs("params."+s.Name, s.Text, now.Settings[i].Text)
		}
	}
	if len(list) > 0 {
		return errors.New(strings.Join(list, "; "))
	}
	if was.Program.End != now.Program.End && !sameSetup(was.Program, now.Program) {
		return fmt.Errorf("with end %v in place of %v model %s begins with other entities or events", now.Program.End, was.Program.End, was.Model.Name)
	}
	return nil
}

// sameSetup tells whether two programs begin with the same entities and events, those at or after the earlier end
// left out.
func sameSetup(a, b *sim.Program) bool {
	if a.Limits != b.Limits || a.StopEvery != b.StopEvery || !slices.Equal(a.EntityKind, b.EntityKind) || !slices.Equal(a.EntityPos, b.EntityPos) {
		return false
	}
	if !slices.Equal(a.Initial, b.Initial) {
		return false
	}
	var x, y []byte
	for i, kind := range a.EntityKind {
		x = a.Kinds[kind].InitialStore().Append(x[:0], a.EntityState[i])
		y = b.Kinds[kind].InitialStore().Append(y[:0], b.EntityState[i])
		if !bytes.Equal(x, y) {
			return false
		}
	}
	return true
}

// resume opens the checkpoints, chooses one and goes on from it.
func (r *savedRun) resume(ctx context.Context, f *resumeFlags) (err error) {
	if err := r.look(f.at); err != nil {
		return err
	}
	if r.level >= record.Summary {
		if err := r.lock(); err != nil {
			return err
		}
	}
	if r.store, err = r.folder.store(false); err != nil {
		return err
	}
	if f.out != "" {
		if err := r.moveOut(f.out); err != nil {
			return err
		}
	}
	r.change = func() error { return r.takeDown() }
	return r.refuseDamage(r.play(ctx))
}

// look chooses the checkpoint and sees that it is whole, without a change to the folder.
func (r *savedRun) look(at string) (err error) {
	if _, err := os.Stat(filepath.Join(r.folder.path(checkpointsName), "identity")); errors.Is(err, fs.ErrNotExist) && at == "latest" {
		return nil // the run ended before the folder was made
	}
	if r.store, err = r.folder.store(true); err != nil {
		return err
	}
	defer func() {
		err = joined(err, r.store.Close())
		r.store = nil
	}()
	if r.start, err = r.choose(at); err != nil || r.start == nil {
		return err
	}
	return r.refuseDamage(r.checkIntact(r.start))
}

// moveOut makes another folder that of the results.
func (r *savedRun) moveOut(out string) error {
	path, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if old, err := filepath.Abs(r.folder.out()); err == nil && old != path && r.level >= record.Summary {
		r.moved = old
	}
	r.folder.settings.Out = path
	return nil
}

// takeDown writes what the resume has changed of the settings.
func (r *savedRun) takeDown() error {
	s := &r.folder.settings
	if newest := r.store.Latest(); newest != nil && r.start != nil && r.start.Number < newest.Number {
		if gone := (dropped{r.start.Number + 1, newest.Number}); !slices.Contains(s.Dropped, gone) {
			s.Dropped = append(s.Dropped, gone)
		}
	}
	var was settings
	if err := r.folder.read(settingsFile, &was); err != nil {
		return err
	}
	before, err := json.Marshal(was)
	if err != nil {
		return err
	}
	after, err := json.Marshal(s)
	if err != nil || bytes.Equal(before, after) {
		return err
	}
	return r.folder.write(settingsFile, s)
}

// choose returns the checkpoint to go on from; nil is the beginning, where there is none.
func (r *savedRun) choose(at string) (*checkpoint.Manifest, error) {
	m, err := r.folder.pick(r.store, at)
	if err != nil || m == nil || m.At < r.program.End {
		return m, err
	}
	remedy := "choose a later end"
	for _, older := range slices.Backward(r.store.Manifests()) {
		if older.At < r.program.End && !r.folder.settings.isDropped(older.Number) {
			remedy += fmt.Sprintf(", or go on from checkpoint %d, which is at %v, with --at %d", older.Number, older.At, older.Number)
			break
		}
	}
	return nil, folderf(r.folder.dir, "checkpoint %d is at %v, and the run is to end at %v: %s", m.Number, m.At, r.program.End, remedy)
}

// pick returns the checkpoint that a user names, or the newest; nil if there is none at all.
func (d *runDir) pick(s *checkpoint.Store, at string) (*checkpoint.Manifest, error) {
	var list []*checkpoint.Manifest
	var numbers []string
	for _, m := range s.Manifests() {
		if !d.settings.isDropped(m.Number) {
			list = append(list, m)
			numbers = append(numbers, strconv.FormatUint(m.Number, 10))
		}
	}
	if at == "latest" {
		if len(list) == 0 {
			return nil, nil
		}
		return list[len(list)-1], nil
	}
	n, err := strconv.ParseUint(at, 10, 64)
	if err != nil {
		return nil, usagef("checkpoint %q: use the number of a checkpoint, or latest", at)
	}
	for _, m := range list {
		if m.Number == n {
			return m, nil
		}
	}
	kept := "there is none yet"
	if len(list) > 0 {
		kept = "kept are " + strings.Join(numbers, ", ")
	}
	if d.settings.isDropped(n) {
		return nil, folderf(d.dir, "checkpoint %d was given up when the run went on from an older one: %s", n, kept)
	}
	return nil, folderf(d.dir, "there is no checkpoint %d, or it is not kept any more: %s", n, kept)
}

// refuseDamage refuses a checkpoint that is damaged and names the newest one that is not.
func (r *savedRun) refuseDamage(err error) error {
	if !isDamage(err) || r.start == nil {
		return err // or nil
	}
	for _, m := range slices.Backward(r.store.Manifests()) {
		if m.Number >= r.start.Number || r.folder.settings.isDropped(m.Number) {
			continue
		}
		if r.checkIntact(m) == nil {
			return usagef("checkpoint %d cannot be used: %w; the newest one that is intact is %d at %v: go on with %s resume %s --at %d",
				r.start.Number, err, m.Number, m.At, r.env.program, shown(r.folder.dir), m.Number)
		}
	}
	return usagef("checkpoint %d cannot be used: %w; none of the older ones is intact: begin anew with run --fresh, or import a copy", r.start.Number, err)
}

// checkIntact says whether all of a checkpoint and of its recording is there.
func (r *savedRun) checkIntact(m *checkpoint.Manifest) error {
	if err := readWhole(r.store, m); err != nil {
		return err
	}
	state, err := readRecording(r.store, m.Number)
	if err != nil || r.level < record.Summary {
		return err
	}
	return checkRecording(r.folder.savedOut, state)
}
