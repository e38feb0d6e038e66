package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/server"
)

const (
	// mostChildren is how many node processes a run starts at most.
	mostChildren = 64
	// childStart is how long a node process may take to start, childEnd to end before it is killed.
	childStart = 30 * time.Second
	childEnd   = 5 * time.Second
	// keptOutput is how much of a node process's last output is told when it fails.
	keptOutput = 4 << 10
)

// pack is the node processes of a run. They end when their standard input does, so that none stays behind
// however this process ends.
type pack struct {
	dir      string
	owner    *flock.Flock // of dir
	token    string
	children []*child
}

// child is a node process.
type child struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	output *tail
	at     listening
	says   chan said
	// ended is closed when the process has ended, with err.
	ended chan struct{}
	err   error
}

// startPack starts the node processes, with their data in a new folder within dir, or where temporary files
// go if dir is empty. What it returns must be ended, also if there is an error.
func (j *job) startPack(ctx context.Context, dir string) (*pack, error) {
	p := &pack{token: rand.Text()}
	var err error
	if p.dir, p.owner, err = makeRunFolder(dir); err != nil {
		return p, err
	}
	tokens := filepath.Join(p.dir, tokensFile)
	if err := os.WriteFile(tokens, []byte("operate "+p.token+"\n"), 0o600); err != nil {
		return p, err
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	env := append(os.Environ(), server.EnvGossipKey+"="+base64.StdEncoding.EncodeToString(key[:]), "SIMNODE_CLUSTER_NAME=run-"+strings.ToLower(rand.Text()))
	n := j.flags.nodes.n
	for i := range n {
		name := fmt.Sprintf("node-%0*d", len(strconv.Itoa(n)), i+1)
		args := []string{"node", "--temporary", "--output", "json", "--name", name, "--data", filepath.Join(p.dir, name), "--bind", "127.0.0.1:0",
			"--api", "127.0.0.1:0", "--tokens", tokens, "--workers", strconv.Itoa(j.workersEach()), "--job-nodes", strconv.Itoa(n), "--log-level", "warn"}
		if i > 0 {
			// The first founds the cluster by itself, since nobody else could: the others wait for it.
			args = append(args, "--join", p.children[0].at.Address, "--expect", strconv.Itoa(n))
		}
		c, err := startChild(name, args, env)
		if err != nil {
			return p, err
		}
		p.children = append(p.children, c)
		if i == 0 {
			if err := c.started(ctx); err != nil {
				return p, err
			}
		}
	}
	for _, c := range p.children[1:] {
		if err := c.started(ctx); err != nil {
			return p, err
		}
	}
	return p, nil
}

// startChild starts this program as a node.
func startChild(name string, args, env []string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program does not know its own file, which the nodes are to run: %w", err)
	}
	c := &child{name: name, cmd: exec.Command(self, args...), output: &tail{}, says: make(chan said, 1), ended: make(chan struct{})}
	c.cmd.Env, c.cmd.Stderr = env, c.output
	ownGroup(c.cmd) // Ctrl-C is for this process, which then stops the run in order.
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close())
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", name, err)
	}
	go c.attend(stdout)
	return c, nil
}

// attend reads where the node listens and waits for the end of the process.
func (c *child) attend(stdout io.Reader) {
	var at listening
	err := json.NewDecoder(io.LimitReader(stdout, keptOutput)).Decode(&at)
	c.says <- said{at, err}
	_, _ = io.Copy(io.Discard, stdout)
	c.err = c.cmd.Wait()
	close(c.ended)
}

// said is what a process says when it has started.
type said struct {
	at  listening
	err error
}

// started waits until a node listens.
func (c *child) started(ctx context.Context) error {
	select {
	case says := <-c.says:
		if c.at = says.at; says.err == nil {
			return nil
		}
		_ = c.stdin.Close()
		select {
		case <-c.ended:
			return c.failure()
		case <-time.After(childEnd):
			return fmt.Errorf("%s does not say where it listens (%w): does the main function of this program call cli.Main?", c.name, says.err)
		}
	case <-time.After(childStart):
		return fmt.Errorf("%s has not started within %v", c.name, childStart)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failure tells why a process has ended that should not have.
func (c *child) failure() error {
	why := "it ended"
	if c.err != nil {
		why = c.err.Error()
	}
	if said := strings.TrimSpace(c.output.text()); said != "" {
		why += "; it said:\n" + said
	}
	return fmt.Errorf("the process of %s is gone: %s", c.name, why)
}

// client asks the nodes.
func (p *pack) client() (*api.Client, error) {
	var addresses []string
	for _, c := range p.children {
		addresses = append(addresses, c.at.API)
	}
	return api.NewClient(api.ClientOptions{Address: strings.Join(addresses, ","), Token: p.token})
}

// watch gives up when a node process ends before ctx is done.
func (p *pack) watch(ctx context.Context, giveUp func(error)) {
	gone := make(chan *child, len(p.children))
	for _, c := range p.children {
		go func() {
			select {
			case <-c.ended:
				gone <- c
			case <-ctx.Done():
			}
		}()
	}
	select {
	case c := <-gone:
		giveUp(c.failure())
	case <-ctx.Done():
	}
}

// end ends the node processes, waits for them and removes their folders.
func (p *pack) end() error {
	for _, c := range p.children {
		_ = c.stdin.Close()
	}
	patience := time.NewTimer(childEnd)
	defer patience.Stop()
	for _, c := range p.children {
		select {
		case <-c.ended:
			continue
		case <-patience.C:
			patience.Reset(0) // for the others too
		}
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
	if p.dir == "" {
		return nil
	}
	if err := errors.Join(p.owner.Close(), os.RemoveAll(p.dir)); err != nil {
		return fmt.Errorf("the nodes' folder is left: %w", err)
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if over := len(t.data) - keptOutput; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(t.data, []byte("?")))
}
