//go:build linux

package hosttest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/simnode/simnode/cluster/certs"
)

// secure makes certificates with simnode certs, a gossip key and tokens, and gives them to all nodes; clients
// use the certificate of a person.
func (c *cluster) secure() {
	c.t.Helper()
	args := []string{program(), "certs", "me", "--dir", "certs"}
	for i, m := range c.list {
		args = append(args, m.name, "--host", c.address[i])
	}
	if _, err := run(c.t.Context(), c.dir, args...); err != nil {
		c.t.Fatal(err)
	}
	c.file("gossip.key", base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))+"\n")
	c.file("tokens", "read lookerlookerlooker\noperate doerdoerdoerdoerdoer\n")
	for _, m := range c.list {
		p := c.nodes[m.name]
		p.args = append(p.args, "--gossip-key-file", "gossip.key", "--tokens", "tokens", "--ca", "certs/ca.pem",
			"--cert", "certs/"+certs.CertFile(m.name), "--key", "certs/"+certs.KeyFile(m.name))
	}
	c.flags = []string{"--ca", "certs/ca.pem", "--cert", "certs/" + certs.CertFile("me"), "--key", "certs/" + certs.KeyFile("me")}
}

// TestTLSAndTokens runs a job on nodes that use certificates, an encrypted gossip and tokens, and tries who may
// do what.
func TestTLSAndTokens(t *testing.T) {
	t.Parallel()
	c := newCluster(t, members(1, 2, 0))
	c.secure()
	file := c.scenario(phold(200, "200 s"))
	want := c.alone(file)
	c.start()
	c.same(c.submit(file), want)

	byCertificate := c.flags
	for _, who := range []struct {
		flags, command, refused string
	}{
		{"--ca certs/ca.pem --token lookerlookerlooker", "status", ""},
		{"--ca certs/ca.pem --token lookerlookerlooker", "submit " + file, "operate"},
		{"--ca certs/ca.pem --token lookerlookerlooker", "stop job-1", "operate"},
		{"--ca certs/ca.pem --token nobodynobodynobody", "status", "token"},
		{"--ca certs/ca.pem", "status", "token"},
		{"", "status", "speaks TLS: give --ca"},
		{"--ca certs/ca.pem --token doerdoerdoerdoerdoer", "submit " + file + " --watch --no-progress -o json", ""},
	} {
		c.flags = strings.Fields(who.flags)
		out, err := c.ask(t.Context(), strings.Fields(who.command)...)
		switch {
		case who.refused == "" && err != nil:
			t.Errorf("%s with %q: %v", who.command, who.flags, err)
		case who.refused != "" && (err == nil || !strings.Contains(err.Error(), who.refused)):
			t.Errorf("%s with %q: %v %s, not refused for %q", who.command, who.flags, err, out, who.refused)
		}
	}
	c.flags = byCertificate
	c.byHTTP()
}

// byHTTP asks as curl does.
func (c *cluster) byHTTP() {
	c.t.Helper()
	files, err := certs.Load(filepath.Join(c.dir, "certs", "ca.pem"), filepath.Join(c.dir, "certs", certs.CertFile("me")), filepath.Join(c.dir, "certs", certs.KeyFile("me")), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	config := files.Config()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	for range 2 {
		resp, err := client.Post("https://"+c.askable[0]+"/simnode.v1.Cluster/Nodes", "application/json", strings.NewReader("{}"))
		if err != nil {
			c.t.Fatal(err)
		}
		var answer struct{ Nodes []struct{ Name string } }
		err = json.NewDecoder(resp.Body).Decode(&answer)
		if err := resp.Body.Close(); err != nil {
			c.t.Error(err)
		}
		if err != nil || resp.StatusCode != http.StatusOK || len(answer.Nodes) != len(c.list) {
			c.t.Errorf("%s: %+v (%v)", resp.Status, answer, err)
		}
	}
}

// stranger starts a node that knocks at a running cluster, and checks that it stays out for a while and why.
func (c *cluster) stranger(p *process, why ...string) {
	c.t.Helper()
	p.start()
	said := false
	for range 40 {
		out, err := c.ask(c.t.Context(), "nodes")
		if err != nil {
			c.t.Fatal(err)
		}
		if strings.Contains(string(out), p.name) {
			c.t.Fatalf("%s is let in:\n%s", p.name, out)
		}
		for _, m := range c.list {
			said = said || contains(c.nodes[m.name].log(), why)
		}
		said = said || contains(p.log(), why)
		time.Sleep(25 * time.Millisecond)
	}
	if !said {
		c.t.Errorf("nobody says why %s is kept out, with %q:\n%s", p.name, why, last(p.log()))
	}
}

func contains(text string, all []string) bool {
	for _, part := range all {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// another is a process like that of a node but of another name and address; edit changes its arguments.
func (c *cluster) another(name string, k int, edit ...string) *process {
	c.t.Helper()
	like, i := c.list[len(c.list)-1].name, len(c.list)-1
	at := fmt.Sprint(strings.TrimSuffix(c.address[i], fmt.Sprint(i+1)), k)
	edit = append(edit, c.address[i]+":", at+":", "data-"+like, "data-"+name)
	p := &process{t: c.t, dir: c.dir, name: name, program: program()}
	for k, a := range c.nodes[like].args {
		if a == like && c.nodes[like].args[k-1] == "--name" {
			a = name
		}
		p.args = append(p.args, strings.NewReplacer(edit...).Replace(a))
	}
	return p
}

// TestStrangersAreKeptOut has nodes knock at a cluster: one of another authority, one whose certificate has
// another name, one with another gossip key, one without TLS. A job runs on meanwhile.
func TestStrangersAreKeptOut(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some ten seconds")
	}
	c := newCluster(t, members(1, 2, 0))
	c.secure()
	if err := certs.Create(filepath.Join(c.dir, "others"), []string{"x1", "w1"}, c.address); err != nil {
		t.Fatal(err)
	}
	c.file("other.key", base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{8}, 32)))
	file := c.scenario(phold(200, "2000 s"))
	want := c.alone(file)
	c.start()
	job := c.submit(file)
	c.reach(0.01)
	if _, err := run(t.Context(), c.dir, program(), "certs", "x3", "--dir", "certs", "--host", c.address[0]); err != nil {
		t.Fatal(err)
	}
	c.stranger(c.another("x1", 51, "certs/ca", "others/ca", "certs/w1", "others/x1"), "certificate")
	c.stranger(c.another("x2", 52), "certificate", "x2")
	c.stranger(c.another("x3", 53, "certs/w1", "certs/x3", "gossip.key", "other.key"), "keys could decrypt")
	plain := c.another("x4", 54)
	for i, a := range plain.args {
		if a == "--gossip-key-file" {
			plain.args = plain.args[:i]
			break
		}
	}
	c.stranger(plain, "TLS")
	c.same(job, want)
}

// TestTwoClustersDoNotMerge has two clusters that name one another in their join lists; each runs its own job.
func TestTwoClustersDoNotMerge(t *testing.T) {
	t.Parallel()
	north, south := newCluster(t, members(1, 1, 0)), newCluster(t, members(0, 0, 2))
	for _, c := range []*cluster{north, south} {
		for _, m := range c.list {
			c.nodes[m.name].args = append(c.nodes[m.name].args, "--join", strings.Join(append(north.address, south.address...), ","))
		}
	}
	north.extra, south.extra = []string{"--cluster-name", "north"}, []string{"--cluster-name", "south"}
	north.start()
	south.start()
	for _, c := range []*cluster{north, south} {
		file := c.scenario(phold(200, "400 s"))
		want := c.alone(file)
		c.same(c.submit(file), want)
		out, err := c.ask(t.Context(), "nodes")
		if err != nil || strings.Contains(string(out), "c0") == strings.Contains(string(out), "b0") {
			t.Errorf("nodes of one cluster (%v):\n%s", err, out)
		}
	}
	if text := south.nodes["b0"].log() + south.nodes["b1"].log() + north.nodes["c0"].log() + north.nodes["w0"].log(); !contains(text, []string{"north", "south"}) {
		t.Error("nobody says that another cluster was there, with both names")
	}
}

// TestFault34OtherVersionIsRefused has a node of another version of the protocol knock: a program built from
// the same source but for its version.
func TestFault34OtherVersionIsRefused(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds another program")
	}
	c := newCluster(t, members(1, 1, 0))
	source, err := filepath.Abs("../server/node.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	const now, next = "\nconst Protocol = 1\n", "\nconst Protocol = 2\n"
	if !strings.Contains(string(text), now) {
		t.Fatal("server/node.go has no such version")
	}
	changed := filepath.Join(c.dir, c.file("node.go", strings.Replace(string(text), now, next, 1)))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	c.file("overlay.json", string(overlay))
	newer := c.another("x1", 51)
	newer.program = filepath.Join(c.dir, "simnode-next")
	if err := build(newer.program, "-overlay", filepath.Join(c.dir, "overlay.json")); err != nil {
		t.Fatal(err)
	}
	file := c.scenario(phold(200, "2000 s"))
	want := c.alone(file)
	c.start()
	job := c.submit(file)
	c.stranger(newer, "version 1", "version 2")
	if !contains(newer.log(), []string{"cannot join", "version 1", "version 2"}) {
		t.Errorf("it does not say itself why it is kept out:\n%s", last(newer.log()))
	}
	c.same(job, want)
}
