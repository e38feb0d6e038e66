package scenario

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

const bundled = "model: tower\nparams:\n  plain: 1\n  airports: data/../a.csv\n  pattern: deep/p.rle\n"

func bundledFiles(t testing.TB) string {
	return folder(t, map[string]string{"s.yaml": bundled, "a.csv": "iata,latitude,longitude\nA,1,2\nB,3,4\n",
		"deep/p.rle": "bob$", "data/b.csv": "iata,latitude,longitude\nC,1,2\n", "unused.csv": "secret"})
}

func mustPack(t testing.TB, path string, o Options) *Bundle {
	t.Helper()
	b, err := Pack(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A bundle gives the scenario of the files, when they and their folder are gone.
func TestBundleLoadsWithoutFiles(t *testing.T) {
	for _, set := range [][]string{nil, {"params.radars=5", "params.airports=data/b.csv", "seed=9"}} {
		dir := bundledFiles(t)
		path, o := filepath.Join(dir, "s.yaml"), Options{Models: testModels(), Set: set, End: "90 s"}
		want, err := Load(path, o)
		if err != nil {
			t.Fatal(err)
		}
		b := mustPack(t, path, o)
		if b.Scenario.Hash != want.Hash {
			t.Error("packing changed the scenario")
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		got, err := LoadBundle(b.Data, o)
		if err != nil {
			t.Fatal(err)
		}
		if got.Hash != want.Hash || got.Path != want.Path || !reflect.DeepEqual(got.Settings, want.Settings) || !reflect.DeepEqual(got.Record, want.Record) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		if shown, err := CheckBundle(b.Data); err != nil || shown != path {
			t.Errorf("check: %q, %v", shown, err)
		}
	}
}

func TestBundleOfEqualFilesIsEqualByteForByte(t *testing.T) {
	dir := bundledFiles(t)
	t.Chdir(dir)
	a := mustPack(t, "s.yaml", Options{Models: testModels()})
	t.Chdir(bundledFiles(t))
	b := mustPack(t, "s.yaml", Options{Models: testModels()})
	if !bytes.Equal(a.Data, b.Data) || a.Hash != b.Hash || len(a.Hash) != 64 {
		t.Errorf("%d bytes, %s and %d bytes, %s", len(a.Data), a.Hash, len(b.Data), b.Hash)
	}
	if err := os.WriteFile("a.csv", []byte("iata,latitude,longitude\nA,1,2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if c := mustPack(t, "s.yaml", Options{Models: testModels()}); c.Hash == a.Hash {
		t.Error("another table, and the same hash")
	}
}

func TestBundleHoldsWhatIsReadAndNothingElse(t *testing.T) {
	b := mustPack(t, filepath.Join(bundledFiles(t), "s.yaml"), Options{Models: testModels()})
	u, err := unpack(b.Data, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(u.files) != 2 || string(u.files["deep/p.rle"]) != "bob$" || u.files["data/../a.csv"] == nil || string(u.scenario) != bundled {
		t.Errorf("holds %q", u.files)
	}
}

// Problems are those of the files, places included.
func TestBundleProblemsAreThoseOfTheFiles(t *testing.T) {
	path := filepath.Join(bundledFiles(t), "s.yaml")
	b := mustPack(t, path, Options{Models: testModels()})
	for _, set := range [][]string{{"params.radars=many"}, {"params.fault=rows"}, {"params.fault=panic", "params.range=5"}, {"x=1"}, {"model=nope"}} {
		o := Options{Models: testModels(), Set: set, Seed: "-1"}
		_, want := Load(path, o)
		_, got := LoadBundle(b.Data, o)
		if want == nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v:\n got %v\nwant %v", set, got, want)
		}
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "a.csv"), []byte("iata,latitude,longitude\nA,x,2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, want := Load(path, Options{Models: testModels()})
	_, got := Pack(path, Options{Models: testModels()})
	if want == nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	data := mustArchive(t, contents{1, path, []packedFile{{"data/../a.csv", filepath.Join(filepath.Dir(path), "a.csv")}, {"deep/p.rle", "p"}}},
		bundled, "iata,latitude,longitude\nA,x,2\n", "bob$")
	if _, got := LoadBundle(data, Options{Models: testModels()}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// No name in a bundle or in its options is looked up on the disk.
func TestBundleOpensNoFile(t *testing.T) {
	dir := bundledFiles(t)
	b := mustPack(t, filepath.Join(dir, "s.yaml"), Options{Models: testModels()})
	for _, name := range []string{filepath.Join(dir, "data/b.csv"), "data/b.csv", "../../../../etc/passwd", "files/0", "contents.json"} {
		_, err := LoadBundle(b.Data, Options{Models: testModels(), Set: []string{"params.airports=" + name}})
		if err == nil || !strings.Contains(err.Error(), "--set params.airports: there is no file ") || !strings.Contains(err.Error(), " in the bundle; pack the scenario anew") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// mustArchive makes a bundle by hand.
func mustArchive(t testing.TB, c contents, entries ...string) []byte {
	t.Helper()
	list, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return compress(t, func(w *tar.Writer) {
		for i, text := range append([]string{string(list)}, entries...) {
			name := contentsEntry
			if i == 1 {
				name = scenarioEntry
			} else if i > 1 {
				name = fileEntry(i - 2)
			}
			if err := put(w, name, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func compress(t testing.TB, fill func(*tar.Writer)) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	fill(w)
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestDamagedBundles(t *testing.T) {
	whole := mustPack(t, filepath.Join(bundledFiles(t), "s.yaml"), Options{Models: testModels()}).Data
	list := func(files ...packedFile) contents { return contents{1, "s.yaml", files} }
	link := compress(t, func(w *tar.Writer) {
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: contentsEntry, Linkname: "/etc/passwd"})
	})
	huge := compress(t, func(w *tar.Writer) {
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: contentsEntry, Size: 0})
	})
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":           {nil, "it ends before contents.json"},
		"text":            {[]byte("model: tower\n"), "it is damaged before contents.json"},
		"cut":             {whole[:len(whole)/2], "damaged"},
		"too large":       {make([]byte, MaxPacked+1), "it has 67108865 bytes, more than 64 MB"},
		"a link":          {link, `it holds "contents.json" where the plain file contents.json belongs`},
		"no list":         {huge, "its contents.json cannot be read: unexpected end of JSON input"},
		"other format":    {mustArchive(t, contents{Format: 2, Scenario: "s"}, "x"), "it is of format 2, and this program reads format 1"},
		"no path":         {mustArchive(t, contents{Format: 1}, "x"), "it names the scenario with 0 bytes"},
		"long path":       {mustArchive(t, contents{1, strings.Repeat("x", maxShown+1), nil}, "x"), "it names the scenario with 8193 bytes"},
		"no scenario":     {mustArchive(t, list()), "it ends before scenario.yaml"},
		"large scenario":  {mustArchive(t, list(), strings.Repeat("#", maxScenario+1)), "its scenario.yaml has 1048577 bytes; at most 1048576 are read"},
		"missing file":    {mustArchive(t, list(packedFile{"a", "a"}), "x"), "it ends before files/0"},
		"unlisted file":   {mustArchive(t, list(), "x", "y"), `it holds "files/0", which its contents do not list`},
		"twice":           {mustArchive(t, list(packedFile{"a", "a"}, packedFile{"a", "b"}), "x", "y", "z"), `file "a" is out of order`},
		"nameless":        {mustArchive(t, list(packedFile{"", "a"}), "x", "y"), "file 0 has no name"},
		"too many files":  {mustArchive(t, list(make([]packedFile, maxNames+1)...), "x"), "it lists 4097 files; at most 4096 are read"},
		"more at the end": {append(bytes.Clone(whole), whole...), "there is more after its end"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadBundle(c.data, Options{Models: testModels()})
			if err == nil || !strings.HasPrefix(err.Error(), "bundle: ") || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), "; pack the scenario anew with this version of the program") {
				t.Errorf("got %v, want %s", err, c.want)
			}
			_, check := CheckBundle(c.data)
			if !reflect.DeepEqual(check, err) {
				t.Errorf("checked: %v\nloaded: %v", check, err)
			}
		})
	}
}

// A few kilobytes that unpack to more than is allowed are refused while they are unpacked.
func TestBundleThatUnpacksWithoutEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("unpacks 512 MiB")
	}
	data := compress(t, func(w *tar.Writer) {
		list, err := json.Marshal(contents{1, "s.yaml", []packedFile{{"a", "a"}, {"b", "b"}}})
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range []int64{0, 0, maxUnpacked / 2, maxUnpacked / 2} {
			name := []string{contentsEntry, scenarioEntry, fileEntry(0), fileEntry(1)}[i]
			if i == 0 {
				n = int64(len(list))
			}
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: n, Format: tar.FormatUSTAR}); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				_, err = w.Write(list)
			} else {
				_, err = io.CopyN(w, zeros{}, n)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	_, err := CheckBundle(data)
	if want := fmt.Sprintf("its files/1 has %d bytes; at most", maxUnpacked/2); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%d bytes: %v", len(data), err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestPackRefusesWhatIsTooLarge(t *testing.T) {
	path := filepath.Join(bundledFiles(t), "s.yaml")
	files := &keeper{disk: disk{path}, left: 39, kept: map[string][]byte{}}
	_, err := loadFrom(files, path, []byte(bundled), Options{Models: testModels()})
	if err == nil || !strings.Contains(err.Error(), "s.yaml:5:12: params.pattern: the scenario and its files are larger than 512 MB") {
		t.Errorf("got %v", err)
	}
	if testing.Short() {
		return
	}
	noise := make([]byte, MaxPacked+1<<20)
	for i, x := 0, uint64(1); i < len(noise); i++ {
		x = x*6364136223846793005 + 1442695040888963407
		noise[i] = byte(x >> 56)
	}
	if _, err := pack(path, nil, &keeper{disk: disk{path}, kept: map[string][]byte{"a": noise}}); err == nil || !strings.Contains(err.Error(), "more than 64 MB") {
		t.Errorf("got %v", err)
	}
}

// Any files come back as they were.
func TestBundleRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kept := rapid.MapOf(rapid.StringN(1, 40, 200), rapid.SliceOf(rapid.Byte())).Draw(t, "files")
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "scenario")
		data, err := pack("dir/s.yaml", text, &keeper{disk: disk{"dir/s.yaml"}, kept: kept})
		if err != nil {
			t.Fatal(err)
		}
		u, err := unpack(data, true)
		if err != nil {
			t.Fatal(err)
		}
		if u.path != "dir/s.yaml" || !bytes.Equal(u.scenario, text) || len(u.files) != len(kept) {
			t.Fatalf("got %+v", u)
		}
		for name, want := range kept {
			if !bytes.Equal(u.files[name], want) || u.shown(name) != (disk{"dir/s.yaml"}).shown(name) {
				t.Fatalf("%q: %q shown as %q", name, u.files[name], u.shown(name))
			}
		}
	})
}

// FuzzBundle: any bytes end in a scenario or in problems, and checking agrees with loading.
func FuzzBundle(f *testing.F) {
	whole := mustPack(f, filepath.Join(bundledFiles(f), "s.yaml"), Options{Models: testModels()}).Data
	f.Add(whole)
	f.Add(whole[:len(whole)-5])
	f.Add(mustArchive(f, contents{1, "s", nil}, plainParam))
	f.Add(mustArchive(f, contents{1, "s", []packedFile{{"a.csv", "a.csv"}}}, withTable, "iata\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := LoadBundle(data, Options{Models: testModels()})
		checkError(t, err)
		if _, bad := CheckBundle(data); bad != nil && !reflect.DeepEqual(bad, err) {
			t.Errorf("checked: %v\nloaded: %v", bad, err)
		}
	})
}

// FuzzContents: like FuzzBundle, with damage that compression and checksums do not hide.
func FuzzContents(f *testing.F) {
	f.Add(`{"format":1,"scenario":"s.yaml","files":[{"name":"a.csv","shown":"a.csv"}]}`, withTable, "iata,latitude,longitude\nA,1,2\n")
	f.Add(`{"format":1,"scenario":"s.yaml","files":[]}`, plainParam, "")
	f.Fuzz(func(t *testing.T, list, text, file string) {
		if len(text) > 1<<16 {
			return
		}
		data := compress(t, func(w *tar.Writer) {
			_ = put(w, contentsEntry, []byte(list))
			_ = put(w, scenarioEntry, []byte(text))
			if file != "" {
				_ = put(w, fileEntry(0), []byte(file))
			}
		})
		_, err := LoadBundle(data, Options{Models: testModels()})
		checkError(t, err)
	})
}
