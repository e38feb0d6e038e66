package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/simnode/simnode/checkpoint"
	"github.com/simnode/simnode/record"
)

// archive keeps a copy of a run folder and of its recording in another folder, which is a run folder too: what
// was committed last can be resumed there when the first one is lost.
type archive struct {
	folder *runDir
	store  *checkpoint.Store
	// from is where the files of the recording are, if there are any.
	from string
	// begun says that this process has copied the files of the recording whole, so that they only grow.
	begun bool
	// broken says that a copy was given up, so that the next one begins anew.
	broken bool
}

// openArchive makes the folder, or goes on with that of the same run.
func openArchive(dir string, run *runDir, next uint64, from string) (*archive, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, usagef("--archive: %w: choose a folder in which files can be made", err)
	}
	a := &archive{folder: &runDir{dir: dir}, from: from}
	if err := a.folder.take(); err != nil {
		return nil, err
	}
	if err := a.begin(run, next); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *archive) begin(run *runDir, next uint64) (err error) {
	d := a.folder
	if _, missing := os.Stat(d.path(settingsFile)); missing == nil {
		if err := d.read(settingsFile, &d.settings); err != nil {
			return err
		}
		if d.settings.ID != run.settings.ID {
			return folderf(d.dir, "it is the archive of another run (%s): choose an empty folder", d.settings.Name)
		}
		if a.store, err = d.store(false); err != nil {
			return err
		}
		if a.store.Next() > next || d.hasEnded() {
			return folderf(d.dir, "a run has gone on in this archive itself: name another folder with --archive")
		}
	} else if err := d.empty(false); err != nil {
		return err
	}
	bundle, err := run.bundle()
	if err != nil {
		return err
	}
	s := run.settings
	s.Out, s.Saving.Archive = resultsName, ""
	d.settings = s
	if err := writeDurably(d.dir, scenarioFile, bundle); err != nil {
		return err
	}
	if err := d.write(settingsFile, &s); err != nil {
		return err
	}
	if err := os.MkdirAll(d.path(resultsName), 0o777); err != nil {
		return usagef("--archive: %w", err)
	}
	if a.store == nil {
		a.store, err = d.store(false)
	}
	return err
}

func (a *archive) close() (err error) {
	if a.store != nil {
		err = a.store.Close()
	}
	return errors.Join(err, a.folder.release())
}

// copy copies a checkpoint that was committed. What goes wrong is told, and tried again at the next.
func (a *archive) copy(from *checkpoint.Store, m *checkpoint.Manifest, say func(string)) {
	err := a.copyFiles(from, m)
	if err == nil {
		err = a.copyParts(from, m)
	}
	if err != nil {
		say(fmt.Sprintf("checkpoint %d is not in the archive %s: %v; the next one is tried", m.Number, a.folder.dir, err))
	}
}

// copyParts copies what a checkpoint wrote, or all of it after one that was given up.
func (a *archive) copyParts(from *checkpoint.Store, m *checkpoint.Manifest) (err error) {
	if a.broken {
		err = a.anew(from, m)
	} else {
		err = copyCheckpoint(from, a.store, m)
	}
	a.broken = err != nil
	return err
}

func copyCheckpoint(from, to *checkpoint.Store, m *checkpoint.Manifest) error {
	for _, ref := range m.Parts {
		if err := copyPart(from, to, m.Number, ref.Part); err != nil {
			return err
		}
	}
	return to.Commit(m)
}

// copyPart copies one part of a checkpoint.
func copyPart(from, to *checkpoint.Store, number uint64, part int) error {
	p, err := from.Part(number, part)
	if err != nil {
		return err
	}
	var chain []uint64
	for _, l := range p.Chain {
		chain = append(chain, l.Number)
	}
	w, err := to.Write(number, part, chain, int64(p.Ref().Bytes))
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := from.ReadIncrement(number, part, w.Put); err != nil {
		return err
	}
	for _, g := range p.Regions {
		if err := w.Describe(g); err != nil {
			return err
		}
	}
	copied, err := w.Close()
	if err == nil && copied.Root != p.Root {
		err = fmt.Errorf("checkpoint %d: the copy of part %d has another root than the part", number, part)
	}
	return err
}

// anew puts a whole copy of a checkpoint in the place of all that the archive has, once it is complete.
func (a *archive) anew(from *checkpoint.Store, m *checkpoint.Manifest) error {
	work := a.folder.path(checkpointsName + unfinishedEnd)
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(from.Export(m.Number, w)) }()
	_, err := checkpoint.Import(r, checkpoint.Options{Dir: work, Job: a.folder.settings.ID})
	r.CloseWithError(err)
	if err != nil {
		return err
	}
	if a.store != nil {
		_ = a.store.Close() // it is removed
		a.store = nil
	}
	if err := os.RemoveAll(a.folder.path(checkpointsName)); err != nil {
		return err
	}
	if err := os.Rename(work, a.folder.path(checkpointsName)); err != nil {
		return err
	}
	a.store, err = a.folder.store(false)
	return err
}

// copyFiles brings the copies of the recorded files to what the checkpoint has of them.
func (a *archive) copyFiles(from *checkpoint.Store, m *checkpoint.Manifest) error {
	state, err := readRecording(from, m.Number)
	if err != nil {
		return err
	}
	to := a.folder.path(resultsName)
	if !a.begun {
		if err := copyRecording(a.from, to, state); err != nil {
			return err
		}
		a.begun = true
		return nil
	}
	files, err := record.Files(state)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := growCopy(a.from, to, f); err != nil {
			a.begun = false
			return err
		}
	}
	return nil
}

// growCopy appends to the copy of a file what the file has more, up to what was saved.
func growCopy(from, to string, was record.FileState) error {
	in, err := openRecorded(from, was.Name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(filepath.Join(to, was.Name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	have, err := out.Seek(0, io.SeekEnd)
	if err == nil && have < was.Length {
		if _, err = in.Seek(have, io.SeekStart); err == nil {
			_, err = io.CopyN(out, in, was.Length-have)
		}
		if err == nil {
			err = out.Sync()
		}
	}
	return errors.Join(err, out.Close())
}
