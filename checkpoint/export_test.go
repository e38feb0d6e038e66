package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exported returns a checkpoint of two parts and a chain, as a file.
func exported(t testing.TB) []byte {
	t.Helper()
	s := mustOpen(t, small(filepath.Join(t.TempDir(), "s")))
	for n := uint64(1); n <= 3; n++ {
		chain, _ := chainOf(n)
		var parts []*Part
		for part := range 2 {
			p, err := put(s, n, part, 3, chain, 1+n/2)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, p)
		}
		if err := s.Commit(manifest(n, n-1, chain, parts...)); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := s.Export(3, &b); err != nil {
		t.Fatal(err)
	}
	if err := s.Export(9, &b); err == nil {
		t.Fatal("a checkpoint that is not there is exported")
	}
	mustClose(t, s)
	return b.Bytes()
}

func TestExportAndImport(t *testing.T) {
	file := exported(t)
	dir := filepath.Join(t.TempDir(), "x", "y")
	m, err := Import(bytes.NewReader(file), Options{Dir: dir, Node: "other", Reserve: 1 << 20})
	if err != nil || m.Number != 3 {
		t.Fatal(m, err)
	}
	if _, err := Import(bytes.NewReader(file), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Fatalf("into the same folder: %v", err)
	}
	s := mustOpen(t, Options{Dir: dir, Job: "job", Node: "other", Reserve: 1 << 20})
	for part := range 2 {
		for region := range 3 {
			got := 0
			if err := s.Read(3, part, region, func(n uint64, kind byte, data []byte) error {
				all := append(content(3, part, region), content(2, part, region)...)
				if c := all[got]; c.number != n || c.kind != kind || !bytes.Equal(c.data, data) {
					t.Fatalf("part %d, region %d, chunk %d differs", part, region, got)
				}
				got++
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if want := len(content(3, part, region)) + len(content(2, part, region)); got != want {
				t.Fatalf("part %d, region %d: %d chunks, not %d", part, region, got, want)
			}
		}
	}
	if s.Next() != 4 {
		t.Fatalf("next is %d", s.Next())
	}
	var again bytes.Buffer
	if err := s.Export(3, &again); err != nil || !bytes.Equal(again.Bytes(), file) {
		t.Fatalf("exported again it differs: %v", err)
	}
	if _, err := Import(bytes.NewReader(file), Options{Dir: filepath.Join(t.TempDir(), "z"), Job: "another"}); as[*IdentityError](err) == nil {
		t.Fatalf("as another job: %v", err)
	}
}

func TestImportRefusesWhatIsNotWhole(t *testing.T) {
	file := exported(t)
	try := func(name string, data []byte) {
		t.Helper()
		parent := t.TempDir()
		_, err := Import(bytes.NewReader(data), Options{Dir: filepath.Join(parent, "d"), Reserve: 1 << 20})
		d := as[*DamageError](err)
		if d == nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d.Offset < 0 || d.Dir == "" {
			t.Fatalf("%s: the error says no place: %v", name, err)
		}
		if left, _ := os.ReadDir(parent); len(left) != 0 {
			t.Fatalf("%s: %v is left", name, left)
		}
	}
	for i := range 12 {
		try("cut short", file[:i*len(file)/12])
		b := bytes.Clone(file)
		b[(i*len(b)+i)/12] ^= 1 << (i % 8)
		try("altered", b)
	}
	try("one byte short", file[:len(file)-1])
	try("one byte more", append(bytes.Clone(file), 0))
	// All of it without a store, more densely.
	for at := 0; at < len(file); at += 1 + len(file)/800 {
		b := bytes.Clone(file)
		b[at] ^= 1 << (at % 8)
		if as[*DamageError](readExport(bytes.NewReader(b), "x", ignore{})) == nil {
			t.Fatalf("a bit flipped at %d is not noticed", at)
		}
		if as[*DamageError](readExport(bytes.NewReader(file[:at]), "x", ignore{})) == nil {
			t.Fatalf("an end at %d is not noticed", at)
		}
	}
	if err := readExport(bytes.NewReader(file), "x", ignore{}); err != nil {
		t.Fatal(err)
	}
}

// ignore takes an exported checkpoint and does nothing with it.
type ignore struct{}

func (ignore) header(exportHeader) error     { return nil }
func (ignore) part(*Part) error              { return nil }
func (ignore) chunk(int, byte, []byte) error { return nil }
func (ignore) partEnd(*Part) error           { return nil }
func (ignore) end(*Manifest) error           { return nil }

func FuzzExport(f *testing.F) {
	p := &Part{Number: 1, Regions: []RegionPart{{Region: 2, Chunks: 2, Bytes: 3, Base: 1}}}
	p.Root = p.root()
	for _, m := range []*Manifest{manifest(1, 0, nil), manifest(1, 0, nil, p)} {
		var b bytes.Buffer
		out := newStreamWriter(&b)
		errs := []error{out.json(recordHeader, exportHeader{Format: Format, Number: 1})}
		if len(m.Parts) > 0 {
			errs = append(errs, out.json(recordPart, p), out.chunk(1, []byte("ab")), out.chunk(2, []byte("c")))
		}
		errs = append(errs, out.json(recordManifest, m), out.close())
		if err := errors.Join(errs...); err != nil {
			f.Fatal(err)
		}
		if err := readExport(bytes.NewReader(b.Bytes()), "x", ignore{}); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = readExport(bytes.NewReader(data), "x", ignore{})
	})
}

func FuzzRecords(f *testing.F) {
	p := &Part{Number: 3, Regions: []RegionPart{{Region: 1, Base: 3}}}
	p.Root = p.root()
	for _, v := range []any{p, stored{Manifest: manifest(3, 1, nil, p)}} {
		b, err := encodeRecord(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[32:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		// The checksum would keep the rest from being reached.
		b, err := encodeRecord(rawJSON(body))
		if err != nil {
			return
		}
		if p, err := decodePart(b); err == nil {
			p.Ref()
			p.Region(0)
		}
		if s, err := decodeManifest(b); err == nil {
			s.Manifest.Part(0)
		}
		_, _ = decodePart(body)
		var h head
		_ = unseal(headName, body, &h)
	})
}

type rawJSON []byte

func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }
