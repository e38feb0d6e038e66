package scenario

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Bounds of a bundle.
const (
	// MaxPacked is the largest bundle in bytes, as it travels.
	MaxPacked = 64 << 20
	// maxUnpacked is how much its files may be in all.
	maxUnpacked = 512 << 20
	// maxContents bounds the list of its files, and maxNames their number.
	maxContents = 4 << 20
	maxNames    = 4096
	// maxWindow bounds what the decoder keeps.
	maxWindow = 8 << 20
)

// bundleFormat is the version of the layout; see Bundle.
const bundleFormat = 1

// Bundle is a scenario with all the files that it reads, as one value that another machine can load
// without any file.
//
// Data is a tar archive compressed with zstd (RFC 8878). It holds contents.json, scenario.yaml and
// files/0, files/1 ...: the names that the scenario uses stand in contents.json and are never paths, so
// that unpacking it by hand is as safe as loading it. Equal scenarios and files give equal bytes.
type Bundle struct {
	Data []byte
	// Hash is the SHA-256 of Data, in hexadecimal.
	Hash string
	// Scenario as it was loaded to find what it reads.
	Scenario *Scenario
}

// contents is contents.json.
type contents struct {
	Format int `json:"format"`
	// Scenario is the path of the scenario as it was given, for messages.
	Scenario string `json:"scenario"`
	// Files in order of name; number i is files/i.
	Files []packedFile `json:"files"`
}

type packedFile struct {
	// Name that the scenario uses, and the one for messages.
	Name  string `json:"name"`
	Shown string `json:"shown"`
}

// Pack loads the scenario at path as Load does and packs it with all the files that it reads, those that
// o.Set names included. LoadBundle wants the same Set. The error is that of Load, or Problems about the
// size.
func Pack(path string, o Options) (*Bundle, error) {
	data, err := readScenario(path)
	if err != nil {
		return nil, err
	}
	files := &keeper{disk: disk{path}, left: maxUnpacked - int64(len(data)), kept: map[string][]byte{}}
	s, err := loadFrom(files, path, data, o)
	if err != nil {
		return nil, err
	}
	packed, err := pack(path, data, files)
	if err != nil {
		return nil, Problems{{File: path, Text: err.Error(), Help: "leave out columns and files that are not used"}}
	}
	sum := sha256.Sum256(packed)
	return &Bundle{Data: packed, Hash: hex.EncodeToString(sum[:]), Scenario: s}, nil
}

// pack writes an archive.
func pack(path string, scenario []byte, files *keeper) ([]byte, error) {
	names := make([]string, 0, len(files.kept))
	for name := range files.kept {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > maxNames {
		return nil, fmt.Errorf("the scenario names %d files, and a bundle holds at most %d", len(names), maxNames)
	}
	c := contents{Format: bundleFormat, Scenario: strings.ToValidUTF8(path, "?"), Files: []packedFile{}}
	for _, name := range names {
		c.Files = append(c.Files, packedFile{name, strings.ToValidUTF8(files.shown(name), "?")})
	}
	list, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(maxWindow/2))
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	errs := []error{put(t, contentsEntry, list), put(t, scenarioEntry, scenario)}
	for i, name := range names {
		errs = append(errs, put(t, fileEntry(i), files.kept[name]))
	}
	if err := errors.Join(append(errs, t.Close(), z.Close())...); err != nil {
		return nil, err
	}
	if out.Len() > MaxPacked {
		return nil, fmt.Errorf("the scenario and its files are %d bytes when packed, more than %s", out.Len(), size(MaxPacked))
	}
	return out.Bytes(), nil
}

const (
	contentsEntry = "contents.json"
	scenarioEntry = "scenario.yaml"
)

func fileEntry(i int) string { return fmt.Sprintf("files/%d", i) }

// put adds an entry to an archive, with nothing that differs between two times or machines.
func put(t *tar.Writer, name string, data []byte) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644, Format: tar.FormatUSTAR}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := t.Write(data)
	return err
}

// LoadBundle loads what Pack has packed: the same scenario with the same hash or, where the models or the
// options differ, the same problems. It opens no file. The error is of type Problems.
func LoadBundle(data []byte, o Options) (*Scenario, error) {
	b, err := unpack(data, true)
	if err != nil {
		return nil, bundleProblem(err)
	}
	return loadFrom(b, b.path, b.scenario, o)
}

// CheckBundle says whether data is a whole bundle, without loading the scenario, and returns the path of
// the scenario as it was given to Pack, for messages. The error is of type Problems.
func CheckBundle(data []byte) (path string, err error) {
	b, err := unpack(data, false)
	if err != nil {
		return "", bundleProblem(err)
	}
	return b.path, nil
}

func bundleProblem(err error) Problems {
	return Problems{{File: "bundle", Text: oneLine(err.Error()), Help: "pack the scenario anew with this version of the program"}}
}

// unpacked is the source of a scenario in a bundle.
type unpacked struct {
	path     string
	scenario []byte
	files    map[string][]byte
	show     map[string]string
}

func (u *unpacked) shown(name string) string {
	if s, is := u.show[name]; is {
		return s
	}
	return name
}

func (u *unpacked) open(name string) (io.ReadCloser, *fault) {
	data, is := u.files[name]
	if !is {
		return nil, faultf("pack the scenario anew, with the same --set", "there is no file %s in the bundle", quote(name))
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// unpack reads an archive whole; the files' data is left out unless keep.
func unpack(data []byte, keep bool) (*unpacked, error) {
	if len(data) > MaxPacked {
		return nil, fmt.Errorf("it has %d bytes, more than %s", len(data), size(MaxPacked))
	}
	z, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxUnpacked))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	r := &archive{tar: tar.NewReader(z), left: maxUnpacked}
	u, err := r.read(keep)
	if err != nil {
		return nil, err
	}
	if n, err := z.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("there is more after its end")
	}
	return u, nil
}

// archive reads the entries of a bundle in their order.
type archive struct {
	tar *tar.Reader
	// left is how many bytes more may come.
	left int64
}

func (a *archive) read(keep bool) (*unpacked, error) {
	c, err := a.contents()
	if err != nil {
		return nil, err
	}
	u := &unpacked{path: c.Scenario, files: map[string][]byte{}, show: map[string]string{}}
	if u.scenario, err = a.entry(scenarioEntry, maxScenario); err != nil {
		return nil, err
	}
	for i, f := range c.Files {
		if !keep {
			if err := a.skip(fileEntry(i)); err != nil {
				return nil, err
			}
			continue
		}
		if u.files[f.Name], err = a.entry(fileEntry(i), a.left); err != nil {
			return nil, err
		}
		u.show[f.Name] = f.Shown
	}
	if h, err := a.tar.Next(); err == nil {
		return nil, fmt.Errorf("it holds %s, which its contents do not list", quote(h.Name))
	} else if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("it is damaged: %s", shorten(err.Error()))
	}
	return u, nil
}

// contents reads and checks the list of files.
func (a *archive) contents() (*contents, error) {
	data, err := a.entry(contentsEntry, maxContents)
	if err != nil {
		return nil, err
	}
	c := &contents{}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("its %s cannot be read: %s", contentsEntry, shorten(err.Error()))
	}
	if c.Format != bundleFormat {
		return nil, fmt.Errorf("it is of format %d, and this program reads format %d", c.Format, bundleFormat)
	}
	if c.Scenario == "" || len(c.Scenario) > maxShown {
		return nil, fmt.Errorf("it names the scenario with %d bytes; expected 1 to %d", len(c.Scenario), maxShown)
	}
	if len(c.Files) > maxNames {
		return nil, fmt.Errorf("it lists %d files; at most %d are read", len(c.Files), maxNames)
	}
	for i, f := range c.Files {
		if f.Name == "" || len(f.Shown) > maxShown {
			return nil, fmt.Errorf("file %d has no name, or a longer one than %d bytes", i, maxShown)
		}
		if i > 0 && c.Files[i-1].Name >= f.Name {
			return nil, fmt.Errorf("file %s is out of order", quote(f.Name))
		}
	}
	return c, nil
}

// maxShown bounds the names in messages.
const maxShown = 8192

// next goes to the next entry, which must be a plain file of that name and at most most bytes.
func (a *archive) next(name string, most int64) (*tar.Header, error) {
	h, err := a.tar.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("it ends before %s", name)
	case err != nil:
		return nil, fmt.Errorf("it is damaged before %s: %s", name, shorten(err.Error()))
	case h.Name != name, h.Typeflag != tar.TypeReg, len(h.PAXRecords) > 0:
		return nil, fmt.Errorf("it holds %s where the plain file %s belongs", quote(h.Name), name)
	case h.Size > most || h.Size > a.left:
		return nil, fmt.Errorf("its %s has %d bytes; at most %d are read", name, h.Size, min(most, a.left))
	}
	a.left -= h.Size
	return h, nil
}

// entry reads the next entry. Memory grows with what is really there, not with the size that is claimed.
func (a *archive) entry(name string, most int64) ([]byte, error) {
	if _, err := a.next(name, most); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(a.tar)
	if err != nil {
		return nil, fmt.Errorf("its %s is damaged: %s", name, shorten(err.Error()))
	}
	return data, nil
}

// skip passes the next entry over.
func (a *archive) skip(name string) error {
	if _, err := a.next(name, a.left); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, a.tar); err != nil {
		return fmt.Errorf("its %s is damaged: %s", name, shorten(err.Error()))
	}
	return nil
}
