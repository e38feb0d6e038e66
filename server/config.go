package server

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/cluster"
	"github.com/simnode/simnode/cluster/certs"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// Config is what a node is made of. Settings.Config makes one that is valid.
type Config struct {
	// Name of the node, Cluster that of the cluster.
	Name, Cluster string
	// Bind is where other nodes reach this one, Advertise what they are told; empty for Bind.
	Bind, Advertise string
	// API is where people reach it, APIAdvertise what they are told; empty for API.
	API, APIAdvertise string
	// Join are nodes of the cluster, HOST:PORT or HOST.
	Join []string
	// Dir is the folder for log and results.
	Dir  string
	Role control.Role
	// Workers is how many regions are worked on at once.
	Workers int
	// Expected is how many nodes that may coordinate the cluster begins with; JobNodes how many working
	// nodes a job waits for unless it says otherwise.
	Expected, JobNodes int
	// Certs is nil for clear text.
	Certs *certs.Files
	// GossipKey encrypts gossip; nil for clear text.
	GossipKey []byte
	// Compress says that messages to other nodes are compressed; others need not do the same.
	Compress bool
	// Tokens of the API; nil for none.
	Tokens *api.Tokens
	// Models that scenarios may name.
	Models []sim.Model
	// Log takes the log lines besides those kept for people; nil for none. Level is the least that is
	// kept.
	Log   slog.Handler
	Level slog.Level
	// Control holds the times of the protocol; the zero value has the defaults.
	Control control.Config
	// Timing of the cluster; the zero value is that of one machine or of a local network, by Bind.
	Timing cluster.Timing
	// OrderFor is how long a request that changes something waits for a coordinator that takes it; default 30 s.
	OrderFor time.Duration
	// Failed is called when the log can be written no more; see cluster.Config.
	Failed func(error)
	// Version of the program, for people.
	Version string
}

const (
	defaultBind    = "127.0.0.1:7374"
	defaultAPI     = "127.0.0.1:7373"
	defaultCluster = "simnode"
	defaultData    = "simnode-data"
	maxNodeName    = 63
	// compressAbove is the size in bytes from which on compression can pay.
	compressAbove = 512
)

// reading is Settings.Config on its way; faults are collected.
type reading struct {
	s    Settings
	errs []error
}

// Config checks all settings at once and makes the configuration, without Models, Log and Version.
// logFormat is text or json. The error names every fault and where the value was given.
func (s Settings) Config() (c Config, logFormat string, err error) {
	r := &reading{s: s}
	c = Config{
		Name: r.name(), Cluster: r.word("cluster-name", defaultCluster),
		Bind: r.address("bind", defaultBind), Advertise: r.address("advertise", ""),
		API: r.address("api", defaultAPI), APIAdvertise: r.address("api-advertise", ""),
		Join: r.join(), Dir: r.text("data", defaultData), Role: control.Role(r.choice("role", "both", "coordinator", "worker")),
		Workers: r.count("workers", runtime.GOMAXPROCS(0), node.MaxRegions), Expected: r.count("expect", 1, control.MaxMembers),
		Certs: r.certs(), GossipKey: r.gossipKey(), Tokens: r.tokens(), Compress: r.yes("compress"),
	}
	c.JobNodes = r.count("job-nodes", c.Expected, control.MaxMembers)
	_ = c.Level.UnmarshalText([]byte(r.choice("log-level", "info", "debug", "warn", "error")))
	logFormat = r.choice("log-format", "text", "json")
	r.exposed(&c, r.yes("insecure"))
	return c, logFormat, errors.Join(r.errs...)
}

func (r *reading) fail(err error) { r.errs = append(r.errs, err) }

func (r *reading) text(name, def string) string {
	g, ok := r.s.values[name]
	if !ok {
		return def
	}
	if g.text == "" {
		r.fail(g.fault("it is empty: give a value or leave it out"))
	}
	return g.text
}

func (r *reading) name() string {
	if _, ok := r.s.values["name"]; ok {
		return r.word("name", "")
	}
	host, err := os.Hostname()
	if host = hostWord(host); err != nil || host == "" {
		r.fail(fmt.Errorf("this host has no name that a node could take: give one with --name (%w)", errors.Join(err)))
	}
	return host
}

// hostWord makes a name of a node of one of a host.
func hostWord(host string) string {
	host = strings.Map(func(c rune) rune {
		if strings.ContainsRune(nameSigns, c) {
			return c
		}
		return '-'
	}, strings.ToLower(host))
	return strings.Trim(host[:min(len(host), maxNodeName)], "-.")
}

const nameSigns = "abcdefghijklmnopqrstuvwxyz0123456789-."

// word is a name that can stand in a certificate.
func (r *reading) word(name, def string) string {
	text := r.text(name, def)
	if len(text) > maxNodeName || strings.Trim(strings.ToLower(text), nameSigns) != "" || text != strings.Trim(text, "-.") {
		r.fail(r.s.values[name].fault("%q is no name: use at most %d letters, digits, dashes and dots, with a letter or digit first and last", text, maxNodeName))
	}
	return text
}

func (r *reading) address(name, def string) string {
	text := r.text(name, def)
	if text == "" {
		return ""
	}
	if err := checkAddress(text); err != nil {
		r.fail(r.s.values[name].fault("%v", err))
	}
	return text
}

func checkAddress(text string) error {
	host, port, err := net.SplitHostPort(text)
	if err != nil || strings.ContainsAny(host, " \t\n") {
		return fmt.Errorf("%q is no address: expected HOST:PORT, such as 10.0.0.5:7374 or [::1]:7374", text)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q has no valid port: expected a number from 0 to 65535", text)
	}
	return nil
}

func (r *reading) join() (list []string) {
	g, ok := r.s.values["join"]
	if !ok || g.text == "" {
		return nil
	}
	for _, item := range strings.Split(g.text, ",") {
		item = strings.TrimSpace(item)
		bare := !strings.Contains(item, ":") || net.ParseIP(item) != nil
		if item == "" || strings.ContainsAny(item, " \t\n") {
			r.fail(g.fault("%q is no list of nodes: expected HOST:PORT or HOST, with commas between", g.text))
			return nil
		}
		if !bare {
			if err := checkAddress(item); err != nil {
				r.fail(g.fault("%v", err))
			}
		}
		list = append(list, item)
	}
	return list
}

func (r *reading) count(name string, def, most int) int {
	g, ok := r.s.values[name]
	if !ok {
		return def
	}
	n, err := strconv.Atoi(g.text)
	if err != nil || n < 1 || n > most {
		r.fail(g.fault("%q: use a whole number from 1 to %d", g.text, most))
		return def
	}
	return n
}

// choice is one of a few words, the first of which is the default.
func (r *reading) choice(name string, words ...string) string {
	g, ok := r.s.values[name]
	if !ok {
		return words[0]
	}
	for _, w := range words {
		if g.text == w {
			return w
		}
	}
	r.fail(g.fault("%q: use one of %s", g.text, strings.Join(words, ", ")))
	return words[0]
}

func (r *reading) yes(name string) bool {
	g, ok := r.s.values[name]
	if !ok {
		return false
	}
	yes, err := strconv.ParseBool(g.text)
	if err != nil {
		r.fail(g.fault("%q: use true or false", g.text))
	}
	return yes
}

func (r *reading) certs() *certs.Files {
	var paths [3]string
	n := 0
	for i, name := range []string{"ca", "cert", "key"} {
		if paths[i] = r.text(name, ""); paths[i] != "" {
			n++
		}
	}
	switch n {
	case 0:
		return nil
	case 3:
		files, err := certs.Load(paths[0], paths[1], paths[2], nil)
		if err != nil {
			r.fail(r.s.values["cert"].fault("%v", err))
		}
		return files
	}
	r.fail(errors.New("--ca, --cert and --key belong together: give all three or none; simnode certs makes them"))
	return nil
}

func (r *reading) gossipKey() []byte {
	file, ok := r.s.values["gossip-key-file"]
	switch {
	case ok && r.s.gossipKey.text != "":
		r.fail(file.fault("%s is set as well: give the key once", EnvGossipKey))
	case ok:
		data, err := os.ReadFile(file.text)
		if err != nil {
			r.fail(file.fault("%v", err))
			return nil
		}
		return r.decodeKey(given{string(data), file.from})
	case r.s.gossipKey.text != "":
		return r.decodeKey(r.s.gossipKey)
	}
	return nil
}

// decodeKey decodes a key, which no error repeats.
func (r *reading) decodeKey(g given) []byte {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(g.text))
	if n := len(key); err != nil || n != 16 && n != 24 && n != 32 {
		r.fail(g.fault("this is no key for gossip: expected 16, 24 or 32 bytes in base64, as \"openssl rand -base64 32\" prints"))
		return nil
	}
	return bytes.Clone(key)
}

func (r *reading) tokens() *api.Tokens {
	g, ok := r.s.values["tokens"]
	if !ok {
		return nil
	}
	tokens, err := api.LoadTokens(g.text)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s does not exist", g.text)
	}
	if err != nil {
		r.fail(g.fault("%v", err))
	}
	return tokens
}

// exposed refuses to listen beyond this machine in clear text.
func (r *reading) exposed(c *Config, insecure bool) {
	if c.Certs != nil || insecure {
		return
	}
	for _, a := range []struct{ name, address string }{{"bind", c.Bind}, {"api", c.API}} {
		if onLoopback(a.address) || checkAddress(a.address) != nil {
			continue
		}
		r.fail(r.s.values[a.name].fault("%s can be reached from other machines, and there is no TLS: "+
			"give --ca, --cert and --key (simnode certs makes them), use a loopback address such as 127.0.0.1, or say --insecure where everyone who reaches the port may be trusted", a.address))
	}
}

// onLoopback reports whether an address can be reached from this machine only.
func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
