package server

import (
	"fmt"
	"slices"
	"strings"

	"github.com/simnode/simnode/scenario"
)

// Setting is one thing that can be set about a node, by a flag, an environment variable or a line of a
// file; the first of them that is given counts.
type Setting struct {
	// Name of the flag, without dashes; in a file with _ instead of -.
	Name string
	// Value is what the value is, for help.
	Value string
	// Doc says what it does and what the default is.
	Doc string
	// Switch is a setting that is true or false; a flag needs no value.
	Switch bool
}

// Env is the name of the environment variable.
func (s Setting) Env() string {
	return "SIMNODE_" + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// Key is the name in a file.
func (s Setting) Key() string { return strings.ReplaceAll(s.Name, "-", "_") }

// SettingsOfNode lists all settings of a node in the order of help.
func SettingsOfNode() []Setting {
	return []Setting{
		{Name: "name", Value: "NAME", Doc: "name of this node, one of its own in the cluster (default the host's name)"},
		{Name: "cluster-name", Value: "NAME", Doc: "name of the cluster; nodes of another one are refused (default simnode)"},
		{Name: "bind", Value: "HOST:PORT", Doc: "where other nodes reach this one, over TCP and UDP; port 0 takes any that is free (default 127.0.0.1:7374)"},
		{Name: "advertise", Value: "HOST:PORT", Doc: "address that other nodes are told instead of the one of --bind"},
		{Name: "api", Value: "HOST:PORT", Doc: "where people and programs reach this node (default 127.0.0.1:7373)"},
		{Name: "api-advertise", Value: "HOST:PORT", Doc: "address of the API that others are told instead of the one of --api"},
		{Name: "join", Value: "HOST:PORT,...", Doc: "nodes of the cluster, with commas between; a name that stands for several addresses means all of them; they are tried again and again"},
		{Name: "data", Value: "DIR", Doc: "folder for the log and for results, kept over restarts (default simnode-data)"},
		{Name: "role", Value: "ROLE", Doc: "both, coordinator (votes and coordinates, owns no regions) or worker (only works) (default both)"},
		{Name: "workers", Value: "N", Doc: "how many regions are worked on at once (default the number of processors)"},
		{Name: "expect", Value: "N", Doc: "how many nodes that may coordinate must be there for the cluster to begin, the same everywhere (default 1)"},
		{Name: "job-nodes", Value: "N", Doc: "how many working nodes a job waits for unless it says otherwise (default that of --expect)"},
		{Name: "ca", Value: "FILE", Doc: "certificates of the authority that signed those of the nodes; see simnode certs"},
		{Name: "cert", Value: "FILE", Doc: "certificate of this node"},
		{Name: "key", Value: "FILE", Doc: "key of the certificate"},
		{Name: "gossip-key-file", Value: "FILE", Doc: "file with the key that encrypts gossip: 16, 24 or 32 bytes in base64; or the key itself in SIMNODE_GOSSIP_KEY"},
		{Name: "tokens", Value: "FILE", Doc: "file with a line \"role token\" for each token that the API takes; roles are read and operate"},
		{Name: "compress", Switch: true, Doc: "compress what this node sends to others; it costs processor time and pays on slow lines"},
		{Name: "insecure", Switch: true, Doc: "listen beyond this machine without TLS: whoever reaches the ports is trusted"},
		{Name: "log-level", Value: "LEVEL", Doc: "debug, info, warn or error (default info)"},
		{Name: "log-format", Value: "FORMAT", Doc: "text or json (default text)"},
	}
}

// EnvGossipKey holds the gossip key itself. There is no such flag, since others can see flags.
const EnvGossipKey = "SIMNODE_GOSSIP_KEY"

// given is a value as it was given and where: "--role", "SIMNODE_ROLE", "node.yaml:3".
type given struct{ text, from string }

// Settings are the values that were given, by the names of settings.
type Settings struct {
	values map[string]given
	// gossipKey is from the environment.
	gossipKey given
}

// Gather puts together what flags, environment and file say. Flags are by name of the setting. file names
// the file in errors, data is what it holds; both are empty where there is none. With an error the settings are
// what could be read.
func Gather(flags map[string]string, env func(string) (string, bool), file string, data []byte) (Settings, error) {
	s := Settings{values: map[string]given{}}
	lines, err := parseFile(file, data)
	for _, setting := range SettingsOfNode() { // also if lines are wrong: what is wrong with the others is told with them
		if v, ok := lines[setting.Key()]; ok {
			s.values[setting.Name] = v
		}
		if v, ok := env(setting.Env()); ok && v != "" {
			s.values[setting.Name] = given{v, setting.Env()}
		}
		if v, ok := flags[setting.Name]; ok {
			s.values[setting.Name] = given{v, "--" + setting.Name}
		}
	}
	if v, ok := env(EnvGossipKey); ok && v != "" {
		s.gossipKey = given{v, EnvGossipKey}
	}
	return s, err
}

// fault is a value that will not do.
func (g given) fault(format string, args ...any) error {
	return fmt.Errorf("%s: %s", g.from, fmt.Sprintf(format, args...))
}

// unknownKey refuses a key of a file, with the nearest that is one.
func unknownKey(at, key string) error {
	var keys []string
	for _, s := range SettingsOfNode() {
		keys = append(keys, s.Key())
	}
	if near := scenario.Nearest(key, keys); near != "" {
		return fmt.Errorf("%s: unknown key %q: did you mean %q?", at, key, near)
	}
	return fmt.Errorf("%s: unknown key %q: there are %s", at, key, strings.Join(keys, ", "))
}

func isKey(key string) bool {
	return slices.ContainsFunc(SettingsOfNode(), func(s Setting) bool { return s.Key() == key })
}
