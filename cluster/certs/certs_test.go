package certs

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func create(t *testing.T, names, hosts []string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	if err := Create(dir, names, hosts); err != nil {
		t.Fatal(err)
	}
	return dir
}

func load(t *testing.T, dir, node string) *Files {
	t.Helper()
	f, err := Load(filepath.Join(dir, CAFile), filepath.Join(dir, CertFile(node)), filepath.Join(dir, KeyFile(node)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// talk lets a client and a server shake hands and returns the common name each sees of the other.
func talk(client, server *tls.Config, name string) (seen [2]string, err error) {
	a, b := net.Pipe()
	deadline := time.Now().Add(10 * time.Second)
	a.SetDeadline(deadline)
	b.SetDeadline(deadline)
	client = client.Clone()
	client.ServerName = name
	type end struct {
		name string
		err  error
	}
	done := make(chan end, 1)
	go func() {
		s := tls.Server(b, server)
		defer b.Close()
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x"))
			done <- end{s.ConnectionState().PeerCertificates[0].Subject.CommonName, err}
			return
		}
		done <- end{err: err}
	}()
	c := tls.Client(a, client)
	err = c.Handshake()
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 1)) // in TLS 1.3 the server's refusal comes after the handshake
		seen[0] = c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	a.Close()
	other := <-done
	seen[1] = other.name
	return seen, errors.Join(err, other.err)
}

func TestNodesVerifyEachOther(t *testing.T) {
	dir := create(t, []string{"a", "b"}, []string{"10.1.2.3", "b.example.org"})
	a, b := load(t, dir, "a").Config(), load(t, dir, "b").Config()
	for _, name := range []string{"b", "b.example.org", "10.1.2.3", "127.0.0.1", "::1", "localhost"} {
		if seen, err := talk(a, b, name); err != nil || seen != [2]string{"b", "a"} {
			t.Fatalf("%s: %v, %v", name, seen, err)
		}
	}
	for _, name := range []string{"a", "c", "10.1.2.4", ""} {
		if seen, err := talk(a, b, name); err == nil {
			t.Errorf("b was taken for %q: %v", name, seen)
		}
	}
	old := a.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, err := talk(old, b, "b"); err == nil {
		t.Error("TLS 1.2 was spoken")
	}
	none := &tls.Config{RootCAs: a.RootCAs}
	if _, err := talk(none, b, "b"); err == nil {
		t.Error("a client without a certificate was let in")
	}
}

func TestAnotherAuthorityIsRefused(t *testing.T) {
	ours, theirs := create(t, []string{"a", "b"}, nil), create(t, []string{"a", "b"}, nil)
	if _, err := talk(load(t, ours, "a").Config(), load(t, theirs, "b").Config(), "b"); err == nil {
		t.Error("a node of another authority was accepted")
	}
	trusting := load(t, theirs, "a").Config()
	trusting.RootCAs = load(t, ours, "a").Config().RootCAs
	if _, err := talk(trusting, load(t, ours, "b").Config(), "b"); err == nil {
		t.Error("a client of another authority was let in")
	}
	_, err := Load(filepath.Join(ours, CAFile), filepath.Join(theirs, CertFile("a")), filepath.Join(theirs, KeyFile("a")), nil)
	if err == nil || !strings.Contains(err.Error(), "is not signed by") {
		t.Errorf("loading a certificate of another authority: %v", err)
	}
}

func TestFilesAreReadAgain(t *testing.T) {
	dir := create(t, []string{"a", "b"}, nil)
	peer := load(t, dir, "b").Config()
	var changes []error
	f, err := Load(filepath.Join(dir, CAFile), filepath.Join(dir, CertFile("a")), filepath.Join(dir, KeyFile("a")), func(err error) { changes = append(changes, err) })
	if err != nil {
		t.Fatal(err)
	}
	config := f.Config()
	serial := func() string {
		cert, err := config.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return cert.Leaf.SerialNumber.String()
	}
	look := func() { f.mu.Lock(); f.checked = time.Time{}; f.mu.Unlock() }
	before := serial()

	// Half of a new pair: the old one stays in use.
	cert, key := filepath.Join(dir, CertFile("a")), filepath.Join(dir, KeyFile("a"))
	for _, path := range []string{cert, key} {
		if err := os.Rename(path, path+".old"); err != nil {
			t.Fatal(err)
		}
	}
	look()
	if serial() != before || len(changes) != 1 || changes[0] == nil {
		t.Fatalf("with files missing: %v", changes)
	}
	if err := Create(dir, []string{"a"}, nil); err != nil {
		t.Fatal(err)
	}
	if serial() != before {
		t.Fatal("files were looked at again at once")
	}
	look()
	if serial() == before || len(changes) != 2 || changes[1] != nil {
		t.Fatalf("with new files: %v", changes)
	}
	if _, err := talk(config, peer, "b"); err != nil {
		t.Fatal(err)
	}

	// A new authority beside the old one.
	other := create(t, []string{"c"}, nil)
	ca, err := os.ReadFile(filepath.Join(dir, CAFile))
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile(filepath.Join(other, CAFile))
	if err != nil {
		t.Fatal(err)
	}
	stranger := load(t, other, "c").Config()
	if err := os.WriteFile(filepath.Join(dir, CAFile), append(ca, more...), 0o600); err != nil {
		t.Fatal(err)
	}
	look()
	seen, err := talk(f.Config(), stranger, "c")
	if err == nil || seen[0] != "c" {
		t.Fatalf("c knows only its own authority, and a knows both: %v, %v", seen, err)
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	dir := create(t, []string{"a"}, nil)
	before := files(t, dir)
	if err := Create(dir, []string{"b", "a"}, nil); err == nil || !strings.Contains(err.Error(), "is not overwritten") {
		t.Fatalf("got %v", err)
	}
	if after := files(t, dir); len(after) != len(before) {
		t.Fatalf("a refused call made files: %v", after)
	}
	if err := Create(dir, []string{"b"}, nil); err != nil {
		t.Fatal(err)
	}
	after := files(t, dir)
	for name, data := range before {
		if after[name] != data {
			t.Errorf("%s was changed", name)
		}
	}
	if len(after) != 6 {
		t.Errorf("files: %d", len(after))
	}
	if _, err := talk(load(t, dir, "a").Config(), load(t, dir, "b").Config(), "b"); err != nil {
		t.Error(err)
	}
}

// files returns the content of a folder and checks the modes.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		want := os.FileMode(0o644)
		if strings.HasSuffix(e.Name(), "-key.pem") {
			want = 0o600
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

func TestWhatCannotBeMade(t *testing.T) {
	for name, c := range map[string]struct{ names, hosts []string }{
		"no name":       {},
		"path":          {names: []string{"../a"}},
		"empty":         {names: []string{""}},
		"twice":         {names: []string{"a", "a"}},
		"the authority": {names: []string{"ca"}},
		"long":          {names: []string{strings.Repeat("a", 65)}},
		"host and port": {names: []string{"a"}, hosts: []string{"h:1"}},
		"space":         {names: []string{"a"}, hosts: []string{"h h"}},
	} {
		dir := filepath.Join(t.TempDir(), "x")
		if err := Create(dir, c.names, c.hosts); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: a folder was made", name)
		}
	}
	dir := create(t, []string{"a"}, nil)
	if err := os.Remove(filepath.Join(dir, CAKeyFile)); err != nil {
		t.Fatal(err)
	}
	if err := Create(dir, []string{"b"}, nil); err == nil || !strings.Contains(err.Error(), CAKeyFile) {
		t.Errorf("without the authority's key: %v", err)
	}
}
