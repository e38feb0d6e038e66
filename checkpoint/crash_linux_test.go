package checkpoint

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// childVariable tells the test binary that it is a child that will be killed; its value is a childRequest.
const childVariable = "SIMNODE_CHECKPOINT_TEST_CHILD"

type childRequest struct {
	Dir string
	// KillAtSync ends the child at that call of Disk.Sync, before or after it; 0 does not.
	KillAtSync int
	After      bool
	// Task is what it does instead, to the end.
	Task string
}

const crashRegions = 5

// child takes checkpoints until it is killed, and says on its output what it did.
func child() {
	var r childRequest
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &r); err != nil {
		fmt.Println("error", err)
		return
	}
	if task := tasks[r.Task]; task != nil {
		if err := task(r.Dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println("done")
		return
	}
	o := small(r.Dir)
	syncs := 0
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	o.Disk.Sync = func(f *os.File) error {
		syncs++
		if syncs == r.KillAtSync && !r.After {
			die()
		}
		err := f.Sync()
		if syncs == r.KillAtSync {
			die()
		}
		return err
	}
	s, err := Open(o)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	for i := 1; ; i++ {
		fmt.Println("begin", s.Next())
		if err := stepNext(s, crashRegions); err != nil {
			fmt.Println("error", err)
			return
		}
		fmt.Println("committed", s.Latest().Number)
		if i%3 == 0 {
			if _, err := s.Prune(2, 0); err != nil {
				fmt.Println("error", err)
				return
			}
		}
		if i%4 == 0 {
			if err := s.Close(); err != nil {
				fmt.Println("error", err)
				return
			}
			if s, err = Open(o); err != nil {
				fmt.Println("error", err)
				return
			}
		}
	}
}

// TestFault3And4KillAtEachStep kills a process that takes checkpoints at random moments, again and again. What it said
// was committed is there and whole; what it did not say is whole or not there.
func TestFault3And4KillAtEachStep(t *testing.T) {
	t.Parallel()
	kills := 50
	if long() {
		kills = 500
	}
	seed := uint64(1)
	if long() {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	dir := filepath.Join(t.TempDir(), "s")
	committed := uint64(0)
	for kill := range kills {
		began := killed(t, r, dir, &committed)
		o := small(dir)
		o.AtLeast = committed
		s, err := Open(o)
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		if m := s.Latest(); m != nil && m.Number != committed && m.Number != began {
			t.Fatalf("kill %d: the newest is %d; %d was committed and %d begun", kill, m.Number, committed, began)
		} else if m != nil {
			committed = m.Number
		}
		if err := checkAll(s, crashRegions); err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		if s.Next() < committed+1 {
			t.Fatalf("kill %d: next is %d, committed %d", kill, s.Next(), committed)
		}
		if n := len(s.litter); n != 0 {
			t.Fatalf("kill %d: records of %d unfinished parts are left", kill, n)
		}
		mustClose(t, s)
	}
	if committed < uint64(kills/2) {
		t.Errorf("in %d kills only %d checkpoints were committed", kills, committed)
	}
}

// killed runs a child until it is killed, and returns the last number it began.
func killed(t *testing.T, r *rand.Rand, dir string, committed *uint64) (began uint64) {
	t.Helper()
	request := childRequest{Dir: dir}
	if r.IntN(2) == 0 {
		request.KillAtSync, request.After = 1+r.IntN(20), r.IntN(2) == 0
	}
	value, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(value))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Killed a random moment after a random line.
	after := r.IntN(8)
	delay := time.Duration(r.IntN(15_000)) * time.Microsecond
	lines := 0
	for in := bufio.NewScanner(out); in.Scan(); lines++ {
		var word string
		var n uint64
		if _, err := fmt.Sscan(in.Text(), &word, &n); err != nil || word == "error" {
			t.Errorf("the child says: %s", in.Text())
		}
		switch word {
		case "begin":
			began = n
		case "committed":
			*committed = n
		}
		if lines == after && request.KillAtSync == 0 {
			time.AfterFunc(delay, func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended otherwise: %v", cmd.ProcessState)
	}
	return began
}
