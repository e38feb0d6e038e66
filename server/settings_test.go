package server

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/simnode/simnode/control"
)

// environment is a set of variables.
func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// configOf reads settings.
func configOf(t testing.TB, flags map[string]string, env func(string) (string, bool), file string) (Config, error) {
	t.Helper()
	s, err := Gather(flags, env, "node.yaml", []byte(file))
	if err != nil {
		return Config{}, err
	}
	c, _, err := s.Config()
	return c, err
}

// A flag counts before the environment, and that before the file, whichever of them is given.
func TestFlagBeforeEnvironmentBeforeFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flags, file, pairs := map[string]string{}, "", []string(nil)
		want := defaultCluster
		if rapid.Bool().Draw(t, "file") {
			file, want = "cluster_name: from-file\n", "from-file"
		}
		if rapid.Bool().Draw(t, "env") {
			pairs, want = []string{"SIMNODE_CLUSTER_NAME", "from-env"}, "from-env"
		}
		if rapid.Bool().Draw(t, "flag") {
			flags["cluster-name"], want = "from-flag", "from-flag"
		}
		s, err := Gather(flags, environment(pairs...), "node.yaml", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := s.Config()
		if err != nil || c.Cluster != want {
			t.Fatalf("%q, not %q (%v)", c.Cluster, want, err)
		}
	})
}

func TestSettingsOfAllKinds(t *testing.T) {
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokens"), []byte("operate 0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := configOf(t, map[string]string{"tokens": filepath.Join(dir, "tokens")}, environment(EnvGossipKey, key), `
name: node-1
bind: 0.0.0.0:8000
advertise: 10.0.0.5:8000
api: "[::1]:9000"
join: [10.0.0.6:8000, seeds.example]
role: worker
workers: 3
expect: 5
job_nodes: 4
insecure: true
log_level: warn
`)
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "node-1" || c.Bind != "0.0.0.0:8000" || c.Advertise != "10.0.0.5:8000" || c.API != "[::1]:9000" || strings.Join(c.Join, " ") != "10.0.0.6:8000 seeds.example" ||
		c.Role != control.Works || c.Workers != 3 || c.Expected != 5 || c.JobNodes != 4 || c.Level.String() != "WARN" || len(c.GossipKey) != 32 || c.Tokens == nil {
		t.Errorf("%+v", c)
	}
}

func TestDefaults(t *testing.T) {
	c, err := configOf(t, map[string]string{"name": "a"}, environment(), "# nothing\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Bind != "127.0.0.1:7374" || c.API != "127.0.0.1:7373" || c.Cluster != "simnode" || c.Role != control.Both || c.Workers != runtime.GOMAXPROCS(0) || c.Expected != 1 || c.JobNodes != 1 {
		t.Errorf("%+v", c)
	}
	if c, err = configOf(t, map[string]string{"expect": "3"}, environment(), ""); err != nil || c.JobNodes != 3 {
		t.Errorf("%d nodes for a job of 3 expected (%v)", c.JobNodes, err)
	}
}

// Every fault is told at once, with where the value was given; secrets are not repeated.
func TestFaultsNameTheirSource(t *testing.T) {
	_, err := configOf(t, map[string]string{"workers": "many"}, environment("SIMNODE_ROLE", "chief", EnvGossipKey, "not-a-secret-key"), "# file\n\napi: nowhere\nbind: 192.0.2.1:99999\n")
	if err == nil {
		t.Fatal("it was taken")
	}
	for _, want := range []string{"--workers: ", "SIMNODE_ROLE: ", "node.yaml:3: ", "node.yaml:4: ", EnvGossipKey + ": "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "not-a-secret-key") {
		t.Error("the key is repeated")
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"rolle: both\n":                   `did you mean "role"`,
		"role: both\nrole: worker\n":      "node.yaml:2: role is given twice, first in node.yaml:1",
		"- a\n- b\n":                      "key: value",
		"join: {a: b}\n":                  "a single value or a list",
		"join: [[a]]\n":                   "a single value or a list",
		"join: [\"a,b\"]\n":               "has no comma",
		"role: &x both\n":                 "a single value or a list",
		"role: *x\n":                      "node.yaml",
		"1: b\n":                          "plain word",
		"role: [\n":                       "no YAML",
		strings.Repeat("a", maxFile+1):    "has at most",
		strings.Repeat("[", maxTokens+10): "tokens",
	} {
		if _, err := Gather(nil, environment(), "node.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func TestLoopbackOnlyWithoutTLS(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true,
		"0.0.0.0:1": false, "[::]:1": false, ":1": false, "10.0.0.1:1": false, "example.com:1": false,
	} {
		for _, name := range []string{"bind", "api"} {
			if _, err := configOf(t, map[string]string{name: address}, environment(), ""); (err == nil) != ok {
				t.Errorf("--%s %s: %v", name, address, err)
			}
			if _, err := configOf(t, map[string]string{name: address, "insecure": "true"}, environment(), ""); err != nil {
				t.Errorf("--%s %s --insecure: %v", name, address, err)
			}
		}
	}
}

func FuzzSettingsFile(f *testing.F) {
	for _, text := range []string{"role: both\n", "join: [a, b]\n", "name: |\n  x\n", "a: &x 1\nb: *x\n", "? x\n: y\n", "{[: ", "---\n---\nrole: x\n", "<<: {role: x}\n", "name: !!str 1\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Gather(nil, environment(), "node.yaml", data)
		if err != nil {
			if !strings.Contains(err.Error(), "node.yaml") {
				t.Errorf("%v names no file", err)
			}
			return
		}
		for name, g := range s.values {
			if name == "tokens" || strings.HasSuffix(name, "file") || name == "ca" || name == "cert" || name == "key" {
				return // These would be read.
			}
			if !strings.HasPrefix(g.from, "node.yaml:") {
				t.Errorf("%s is from %q", name, g.from)
			}
		}
		_, _, _ = s.Config()
	})
}
