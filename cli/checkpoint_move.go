package cli

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/checkpoint"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
)

// An exported checkpoint is a ZIP file with these entries and one below recordingEntry for each recorded file.
const (
	checkpointEntry = "checkpoint"
	recordingEntry  = "recording/"
	// mostSettings bounds what is read of settings, in bytes.
	mostSettings = 16 << 20
)

func (e *env) checkpointExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export DIR N FILE [flags]",
		Short: "Write a checkpoint as one file",
		Long: `Writes checkpoint N of the run in DIR, or the latest, as one file, with the scenario, the settings and what was
recorded up to it: all that a resume needs on another machine. The format is ZIP.`,
		Args: exactly(3),
	}
	format := e.formatFlag(cmd)
	cmd.RunE = e.begin(func(cmd *cobra.Command, args []string) error {
		r, err := e.openReading(args[0])
		if err != nil {
			return err
		}
		m, err := r.export(args[1], args[2])
		if err = errors.Join(err, r.store.Close()); err != nil {
			return err
		}
		info, err := os.Stat(args[2])
		if err != nil {
			return err
		}
		if format.text == "json" {
			return e.printJSON(map[string]any{"number": m.Number, "at_s": m.At.Seconds(), "file": args[2], "bytes": info.Size()})
		}
		_, err = fmt.Fprintf(e.stdout, "checkpoint %d at %v is in %s (%s)\n", m.Number, m.At, args[2], size(uint64(info.Size())))
		return err
	})
	return cmd
}

// export writes a checkpoint to a file, which gets its name when it is complete. A file that is there is not replaced.
func (r *reading) export(at, file string) (*checkpoint.Manifest, error) {
	m, err := r.one(at)
	if err != nil {
		return nil, err
	}
	if r.hasEnded() {
		return nil, folderf(r.dir, "the run has ended, and what a resume needs of its recording was removed: there is nothing to go on with")
	}
	if r.settings.isDropped(m.Number) {
		return nil, folderf(r.dir, "checkpoint %d was given up when the run went on from an older one: its recording is not there any more", m.Number)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("%s is there already: choose another name", file)
	}
	out, err := os.OpenFile(file+unfinishedEnd, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, usageError{err}
	}
	err = r.writeExport(m, out)
	if err == nil {
		err = out.Sync()
	}
	err = errors.Join(err, out.Close())
	if err == nil {
		err = os.Rename(file+unfinishedEnd, file)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(file+unfinishedEnd))
	}
	return m, syncFolder(filepath.Dir(file))
}

func (r *reading) writeExport(m *checkpoint.Manifest, w io.Writer) error {
	s := r.settings
	s.Out, s.Saving.Archive, s.Dropped = resultsName, "", nil
	sealed, err := sealFile(settingsFile, &s)
	if err != nil {
		return err
	}
	bundle, err := r.bundle()
	if err != nil {
		return err
	}
	z := zip.NewWriter(w)
	for _, x := range []struct {
		name string
		data []byte
	}{{settingsFile, sealed}, {scenarioFile, bundle}} {
		to, err := z.CreateHeader(&zip.FileHeader{Name: x.name, Method: zip.Store})
		if err != nil {
			return err
		}
		if _, err := to.Write(x.data); err != nil {
			return err
		}
	}
	to, err := z.CreateHeader(&zip.FileHeader{Name: checkpointEntry, Method: zip.Store})
	if err != nil {
		return err
	}
	if err := r.store.Export(m.Number, to); err != nil {
		return err
	}
	if err := r.exportRecording(m, z); err != nil {
		return err
	}
	return z.Close()
}

func (r *reading) exportRecording(m *checkpoint.Manifest, z *zip.Writer) error {
	state, err := readRecording(r.store, m.Number)
	if err != nil {
		return err
	}
	files, err := record.Files(state)
	if err != nil {
		return err
	}
	for _, f := range files {
		to, err := z.CreateHeader(&zip.FileHeader{Name: recordingEntry + f.Name, Method: zip.Deflate})
		if err != nil {
			return err
		}
		if err := readRecorded(r.out(), f, to); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) checkpointImport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE DIR [flags]",
		Short: "Make a run's folder of an exported checkpoint",
		Long: `Makes the folder DIR, which must not exist or be empty, of the exported checkpoint in FILE. resume DIR goes on from
it; the results are in DIR/results then, unless --out names another folder.`,
		Args: exactly(2),
	}
	format := e.formatFlag(cmd)
	cmd.RunE = e.begin(func(cmd *cobra.Command, args []string) error {
		m, err := importRun(args[0], args[1])
		if err != nil {
			return err
		}
		if format.text == "json" {
			return e.printJSON(map[string]any{"number": m.Number, "at_s": m.At.Seconds(), "dir": args[1]})
		}
		_, err = fmt.Fprintf(e.stdout, "checkpoint %d at %v is in %s; go on with: %s resume %s\n", m.Number, m.At, args[1], e.program, shown(args[1]))
		return err
	})
	return cmd
}

// importRun makes a run folder of an exported checkpoint. When something is wrong with the file, nothing is left.
func importRun(file, dir string) (*checkpoint.Manifest, error) {
	z, err := zip.OpenReader(file)
	if err != nil {
		if _, e := os.Stat(file); e != nil {
			return nil, usageError{e}
		}
		return nil, usagef("%s is no exported checkpoint, or was cut short: %w", file, err)
	}
	defer z.Close()
	entries, err := os.ReadDir(dir)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !missing:
		return nil, usageError{err}
	case len(entries) > 0:
		return nil, usagef("folder %s is not empty: a checkpoint is imported into a new one", dir)
	}
	im := &importedRun{file: file, zip: &z.Reader, dir: &runDir{dir: dir}}
	m, err := im.whole()
	if err != nil {
		err = errors.Join(usagef("%s cannot be imported: %w", file, err), im.remove(missing))
	}
	return m, err
}

type importedRun struct {
	file string
	zip  *zip.Reader
	dir  *runDir
}

// whole takes the file in; the settings, which make the folder that of a run, come last.
func (im *importedRun) whole() (*checkpoint.Manifest, error) {
	d := im.dir
	sealed, err := im.read(settingsFile, mostSettings)
	if err != nil {
		return nil, err
	}
	if err := unsealFile(settingsFile, sealed, &d.settings); err != nil {
		return nil, fmt.Errorf("its %s are damaged: %w", settingsFile, err)
	}
	if f := d.settings.Format; f != settingsFormat {
		return nil, fmt.Errorf("it has format %d, and this version of simnode reads format %d", f, settingsFormat)
	}
	bundle, err := im.read(scenarioFile, scenario.MaxPacked)
	if err != nil {
		return nil, err
	}
	if hashOf(bundle) != d.settings.Bundle {
		return nil, errors.New("its scenario is not the one of its settings")
	}
	if err := os.MkdirAll(d.path(resultsName), 0o700); err != nil {
		return nil, err
	}
	m, err := im.checkpoint()
	if err != nil {
		return nil, err
	}
	d.settings.Out = resultsName
	if err := writeDurably(d.dir, scenarioFile, bundle); err != nil {
		return nil, err
	}
	return m, d.write(settingsFile, &d.settings)
}

// checkpoint takes in the checkpoint and the recorded files that it names.
func (im *importedRun) checkpoint() (m *checkpoint.Manifest, err error) {
	in, err := im.zip.Open(checkpointEntry)
	if err != nil {
		return nil, fmt.Errorf("it has no %s", checkpointEntry)
	}
	defer in.Close()
	d := im.dir
	if m, err = checkpoint.Import(in, checkpoint.Options{Dir: d.path(checkpointsName), Job: d.settings.ID}); err != nil {
		return nil, err
	}
	s, err := d.store(true)
	if err != nil {
		return nil, err
	}
	state, err := readRecording(s, m.Number)
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	files, err := record.Files(state)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := im.recorded(f); err != nil {
			return nil, err
		}
	}
	return m, checkRecording(d.path(resultsName), state)
}

// recorded takes in a recorded file.
func (im *importedRun) recorded(was record.FileState) error {
	in, err := im.zip.Open(recordingEntry + was.Name)
	if err != nil {
		return fmt.Errorf("it lacks the recorded file %s", was.Name)
	}
	defer in.Close()
	out, err := os.OpenFile(filepath.Join(im.dir.path(resultsName), was.Name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, was.Length))
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// read returns an entry of at most so many bytes.
func (im *importedRun) read(name string, most int64) ([]byte, error) {
	in, err := im.zip.Open(name)
	if err != nil {
		return nil, fmt.Errorf("it has no %s", name)
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("its %s has more than %d bytes", name, most)
	}
	return data, err
}

// remove removes what was made.
func (im *importedRun) remove(all bool) error {
	if all {
		return os.RemoveAll(im.dir.dir)
	}
	for _, name := range append(runDirFiles(), resultsName) {
		if err := os.RemoveAll(im.dir.path(name)); err != nil {
			return err
		}
	}
	return nil
}
