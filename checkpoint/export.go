package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// An exported checkpoint is one file: a stream of records (stream.go) in the order header, then for each part its
// increments, oldest first, each a list and the chunks of its regions in order, then the manifest.

// exportHeader begins an exported checkpoint.
type exportHeader struct {
	Format int    `json:"format"`
	Number uint64 `json:"number"`
	Job    string `json:"job"`
	// Bytes is about how much the chunks take.
	Bytes int64 `json:"bytes"`
}

// Export writes a committed checkpoint as one file that Import reads on any machine. All its parts must be here.
func (s *Store) Export(number uint64, w io.Writer) error {
	release, err := s.Hold(number)
	if err != nil {
		return err
	}
	defer release()
	m, err := s.Manifest(number)
	if err != nil {
		return err
	}
	var parts [][]*Part
	h := exportHeader{Format: Format, Number: number, Job: s.job}
	for _, ref := range m.Parts {
		var chain []*Part
		err := s.read(increment{number, ref.Part}, func(_, p *Part) error {
			h.Bytes += int64(p.bytes())
			chain = append([]*Part{p}, chain...)
			return nil
		})
		if err != nil {
			return err
		}
		parts = append(parts, chain)
	}
	out := newStreamWriter(w)
	if err := out.json(recordHeader, h); err != nil {
		return err
	}
	for _, chain := range parts {
		for _, p := range chain {
			if err := s.exportPart(out, p); err != nil {
				return err
			}
		}
	}
	if err := out.json(recordManifest, m); err != nil {
		return err
	}
	return out.close()
}

func (s *Store) exportPart(out *streamWriter, p *Part) error {
	if err := out.json(recordPart, p); err != nil {
		return err
	}
	return s.ReadIncrement(p.Number, p.Part, func(_ int, kind byte, data []byte) error {
		return out.chunk(kind, data)
	})
}

// Import reads an exported checkpoint into a folder that must not exist, or be empty. o says the folder and the node;
// an empty Job is that of the file, another than the file's is refused. A file that is cut short or altered is refused
// with a *DamageError that says where; then nothing is left behind.
func Import(r io.Reader, o Options) (m *Manifest, err error) {
	if err := mustBeEmpty(o.Dir); err != nil {
		return nil, err
	}
	final := filepath.Clean(o.Dir)
	if err := os.MkdirAll(filepath.Dir(final), 0o700); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(filepath.Dir(final), filepath.Base(final)+".import")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	im := importer{o: o}
	im.o.Dir, im.o.ReadOnly, im.o.AtLeast = work, false, 0
	err = readExport(r, streamName(r), &im)
	if im.store != nil {
		if e := im.store.Close(); err == nil {
			err = e
		}
	}
	if err != nil {
		return nil, err
	}
	if err := os.Remove(final); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.Rename(work, final); err != nil {
		return nil, err
	}
	return im.manifest, o.Disk.syncDir(filepath.Dir(final))
}

func mustBeEmpty(dir string) error {
	if dir == "" {
		return errors.New("checkpoints need a folder")
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("folder %s is not empty: a checkpoint is imported into a new one", dir)
	}
	return err
}

// streamName names what is read, in errors.
func streamName(r io.Reader) string {
	if f, ok := r.(interface{ Name() string }); ok {
		return f.Name()
	}
	return "the exported checkpoint"
}

// exportVisitor takes what an exported checkpoint holds, in order. What it gets was checked, each by itself.
type exportVisitor interface {
	header(h exportHeader) error
	part(p *Part) error
	chunk(region int, kind byte, data []byte) error
	partEnd(p *Part) error
	end(m *Manifest) error
}

// readExport reads an exported checkpoint. An error that is not of the visitor is a *DamageError.
func readExport(r io.Reader, name string, v exportVisitor) error {
	in, err := newStreamReader(r, name)
	if err != nil {
		return err
	}
	var h exportHeader
	if err := in.json(recordHeader, &h); err != nil {
		return err
	}
	if h.Format != Format {
		return fmt.Errorf("%s has format %d; this program reads format %d", name, h.Format, Format)
	}
	if err := v.header(h); err != nil {
		return err
	}
	for {
		kind, err := in.next()
		if err != nil {
			return err
		}
		switch kind {
		case recordPart:
			if err := in.readPart(v); err != nil {
				return err
			}
		case recordManifest:
			return in.readEnd(h, v)
		default:
			return in.damage("a record of kind %q is out of place", kind)
		}
	}
}

// readPart reads the list that is the current record, and the chunks behind it.
func (in *streamReader) readPart(v exportVisitor) error {
	p := new(Part)
	if err := in.decode(p); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return in.damage("%v", err)
	}
	if err := v.part(p); err != nil {
		return err
	}
	for _, g := range p.Regions {
		for range g.Chunks {
			kind, err := in.next()
			if err != nil {
				return err
			}
			if kind != recordChunk || len(in.data) == 0 {
				return in.damage("a chunk of checkpoint %d, region %d is missing", p.Number, g.Region)
			}
			if err := v.chunk(g.Region, in.data[0], in.data[1:]); err != nil {
				return err
			}
		}
	}
	return v.partEnd(p)
}

// readEnd takes the manifest, which is the current record, once the file is known to be whole.
func (in *streamReader) readEnd(h exportHeader, v exportVisitor) error {
	m := new(Manifest)
	if err := in.decode(m); err != nil {
		return err
	}
	if err := m.Check(); err != nil {
		return in.damage("%v", err)
	}
	if m.Number != h.Number {
		return in.damage("the manifest is of checkpoint %d, the file of %d", m.Number, h.Number)
	}
	if err := in.close(); err != nil {
		return err
	}
	return v.end(m)
}

// importer writes an exported checkpoint into a new store.
type importer struct {
	o        Options
	store    *Store
	writer   *Writer
	manifest *Manifest
}

func (im *importer) header(h exportHeader) error {
	if im.o.Job != "" && im.o.Job != h.Job {
		return &IdentityError{Dir: "the exported checkpoint", What: "job", Have: h.Job, Want: im.o.Job}
	}
	im.o.Job = h.Job
	s, err := Open(im.o)
	if err != nil {
		return err
	}
	im.store = s
	return s.room(s.reserve + max(0, h.Bytes))
}

func (im *importer) part(p *Part) error {
	w, err := im.store.write(p.increment(), p.Chain, 0)
	if err != nil {
		return err
	}
	im.writer = w
	for _, g := range p.Regions {
		if err := w.Describe(g); err != nil {
			return err
		}
	}
	return nil
}

func (im *importer) chunk(region int, kind byte, data []byte) error {
	return im.writer.Put(region, kind, data)
}

func (im *importer) partEnd(p *Part) error {
	got, err := im.writer.Close()
	if err != nil {
		return err
	}
	if got.Root != p.Root {
		return &DamageError{Dir: "the exported checkpoint", Offset: -1, Number: p.Number, Part: p.Part, Region: -1, Chunk: -1, Detail: "the chunks are not those that were written"}
	}
	return nil
}

func (im *importer) end(m *Manifest) error {
	for _, ref := range m.Parts {
		p, err := im.store.Part(m.Number, ref.Part)
		if err == nil {
			for _, l := range p.Chain {
				if _, e := im.store.Part(l.Number, ref.Part); e != nil {
					err = e
				}
			}
		}
		if err != nil {
			return damaged("the exported checkpoint", "", "it lacks a part that the manifest names: %v", err)
		}
	}
	im.manifest = m
	return im.store.Commit(m)
}
