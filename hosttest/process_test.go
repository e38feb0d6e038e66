//go:build linux

package hosttest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// builtAs names the program that all tests run.
const builtAs = "SIMNODE_UNDER_TEST"

// longTests makes tests that take long run.
const longTests = "SIMNODE_LONG_TESTS"

func TestMain(m *testing.M) { os.Exit(testAll(m)) }

func testAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "simnode-hosttest-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = build(filepath.Join(dir, "simnode"))
	}
	if err == nil {
		err = os.Setenv(builtAs, filepath.Join(dir, "simnode"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hosttest:", err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "hosttest:", err)
		return 1
	}
	return code
}

// build builds the program with flags of go build.
func build(to string, flags ...string) error {
	args := append(append([]string{"build"}, flags...), "-o", to, "github.com/simnode/simnode/cmd/simnode")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func program() string { return os.Getenv(builtAs) }

// long skips a test that takes long, unless such tests are wanted.
func long(t *testing.T, takes string) {
	t.Helper()
	if os.Getenv(longTests) == "" {
		t.Skipf("takes %s; %s=1 runs it", takes, longTests)
	}
}

// process is a node that can be killed, stopped and started again.
type process struct {
	t    *testing.T
	dir  string
	name string
	// enter is a command that starts another on a host of its own; empty for this one.
	enter []string
	// program and args are what is run.
	program string
	args    []string
	// cmd is nil while the process does not run.
	cmd *exec.Cmd
}

// start starts the process; what it says is added to its log.
func (p *process) start() {
	p.t.Helper()
	log, err := os.OpenFile(p.logFile(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	args := append(append(append([]string{}, p.enter...), p.program), p.args...)
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.dir, log, log
	// A test that is killed takes its processes with it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(p.kill)
}

func (p *process) logFile() string { return filepath.Join(p.dir, p.name+".log") }

// log is all that the process has said.
func (p *process) log() string {
	text, err := os.ReadFile(p.logFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Error(err)
	}
	return string(text)
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// kill ends the process with SIGKILL, if it runs, and waits for its end.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // It may have ended.
	_ = p.cmd.Wait()                                      // It was killed.
	p.cmd = nil
}

// alive reports whether the process runs or is stopped.
func (p *process) alive() bool {
	if p.cmd == nil {
		return false
	}
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	return err == nil && !bytes.Contains(state, []byte(") Z "))
}

// resident is the memory that the process holds, in bytes.
func (p *process) resident() (bytes int) {
	p.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	var all, pages int
	if err == nil {
		_, err = fmt.Sscan(string(data), &all, &pages)
	}
	if err != nil {
		p.t.Fatalf("memory of %s: %v", p.name, err)
	}
	return pages * os.Getpagesize()
}
