package checkpoint

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mountTmpfs makes a small disk, or skips the test.
func mountTmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("skipped: a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes bytes of a disk until only rest are free; negative rest takes all.
func fill(t testing.TB, disk string, rest int64) (path string) {
	t.Helper()
	free, _, err := freeSpace(disk)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp(disk, "filler")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := int64(free) - max(rest, 0); n > 0 {
		if err := allocate(f, n); err != nil {
			t.Fatal(err)
		}
	}
	return f.Name()
}

// putMuch puts bytes until there is an error.
func putMuch(w *Writer, bytes int) error {
	r := rand.New(rand.NewPCG(1, 1))
	data := make([]byte, 16<<10)
	for at := 0; at < bytes; at += len(data) {
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		if err := w.Put(0, 0, data); err != nil {
			return err
		}
	}
	return nil
}

func TestFault18DiskFull(t *testing.T) {
	disk := mountTmpfs(t, "size=96m")
	o := Options{Dir: filepath.Join(disk, "s"), Reserve: 16 << 20}
	s := mustOpen(t, o)
	for n := uint64(1); n <= 3; n++ {
		mustStep(t, s, n, 3)
	}
	// Refused before anything is written.
	filler := fill(t, disk, 20<<20)
	_, err := s.Write(4, 0, nil, 8<<20)
	if e := as[*FullError](err); e == nil || e.What != "bytes" || e.Need < 24<<20 || e.Free > 20<<20 {
		t.Fatalf("a disk with too little room: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	mustStep(t, s, 4, 3)

	// More is put than was said, until the reserve is reached.
	w, err := s.Write(5, 0, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := putMuch(w, 200<<20); as[*FullError](err) == nil {
		t.Fatalf("more than the disk holds: %v", err)
	}
	if _, err := w.Close(); as[*FullError](err) == nil {
		t.Fatalf("the writer closes: %v", err)
	}
	if free, _, err := freeSpace(disk); err != nil || free < 1<<20 {
		t.Fatalf("only %d bytes are left, %v", free, err)
	}
	if err := checkAll(s, 3); err != nil {
		t.Fatal(err)
	}
	// What was given up is removed and compacted away, and it goes on.
	if _, err := s.Prune(3, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := stepNext(s, 3); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkAll(s, 3); err != nil {
		t.Fatal(err)
	}
	// The disk is full when the store is closed, and when it is opened.
	if err := putSome(s, 3<<20); err != nil {
		t.Fatal(err)
	}
	want := numbers(s)
	waitForFlush(t, o.Dir)
	filler = fill(t, disk, 0)
	mustClose(t, s) // with the help of the ballast
	rest := fill(t, disk, 0)
	s, err = Open(o)
	if as[*FullError](err) == nil {
		t.Fatalf("a full disk: %v, %v", s, err)
	}
	if err := errors.Join(os.Remove(filler), os.Remove(rest)); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, o)
	if err := checkAll(s, 3); err != nil || !slices.Equal(numbers(s), want) {
		t.Fatalf("kept are %v, not %v; %v", numbers(s), want, err)
	}
}

// putSome leaves bytes in the memory of the database.
func putSome(s *Store, bytes int) error {
	w, err := s.Write(s.Next(), 0, nil, int64(bytes))
	if err != nil {
		return err
	}
	if err := putMuch(w, bytes); err != nil {
		return err
	}
	if err := w.Describe(RegionPart{Region: 0, Base: w.id.number}); err != nil {
		return err
	}
	_, err = w.Close()
	return err
}

// TestFault18DiskFillsUp has another program fill the disk, twice as fast as checkpoints are written.
func TestFault18DiskFillsUp(t *testing.T) {
	disk := mountTmpfs(t, "size=160m")
	o := Options{Dir: filepath.Join(disk, "s"), Reserve: 32 << 20}
	s := mustOpen(t, o)
	mustStep(t, s, 1, 3)
	for round := range 3 {
		filler := fill(t, disk, 72<<20)
		hog, err := os.CreateTemp(disk, "hog")
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			err = putBesideHog(s, hog)
		}
		if as[*FullError](err) == nil {
			t.Errorf("round %d: %v", round, err)
		}
		waitForFlush(t, o.Dir)
		rest := fill(t, disk, 0)
		if err := check(s, 1, 3); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		if err := stepNext(s, 3); as[*FullError](err) == nil {
			t.Errorf("round %d, on a full disk: %v", round, err)
		}
		if err := errors.Join(hog.Close(), os.Remove(hog.Name()), os.Remove(rest), os.Remove(filler)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Prune(3, 0); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}
	if err := stepNext(s, 3); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	if err := s.Verify(nil); err != nil || len(s.Manifests()) != 2 {
		t.Error(numbers(s), err)
	}
}

// putBesideHog writes a part of 4 MiB while a file grows by twice as much.
func putBesideHog(s *Store, hog *os.File) error {
	w, err := s.Write(s.Next(), 0, nil, 4<<20)
	if err != nil {
		return err
	}
	data := make([]byte, 16<<10)
	for range 4 << 20 / len(data) {
		if err := w.Put(0, 0, data); err != nil {
			w.Abort()
			return err
		}
		if _, err := hog.Write(make([]byte, 2*len(data))); err != nil {
			w.Abort()
			return err
		}
	}
	if err := w.Describe(RegionPart{Region: 0, Base: w.id.number}); err != nil {
		return err
	}
	_, err = w.Close()
	return err
}

// waitForFlush waits until the database has no log but the one it writes: what it began before the disk was found too
// full goes on into the reserve.
func waitForFlush(t *testing.T, dir string) {
	t.Helper()
	for {
		logs, err := filepath.Glob(filepath.Join(dir, dbName, "*.mem"))
		if err != nil {
			t.Fatal(err)
		}
		if len(logs) <= 1 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestFault20NoInodes(t *testing.T) {
	disk := mountTmpfs(t, "size=128m,nr_inodes=200")
	o := Options{Dir: filepath.Join(disk, "s"), Reserve: 1 << 20}
	s := mustOpen(t, o)
	mustStep(t, s, 1, 3)
	var made []string
	for {
		f, err := os.CreateTemp(disk, "x")
		if err != nil {
			break
		}
		f.Close()
		made = append(made, f.Name())
	}
	_, err := s.Write(2, 0, nil, 0)
	if e := as[*FullError](err); e == nil || e.What != "inodes" {
		t.Fatalf("no inodes: %v", err)
	}
	if err := check(s, 1, 3); err != nil {
		t.Fatal(err)
	}
	for _, name := range made {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	mustStep(t, s, 2, 3)
}

// fewDescriptors is a child that runs out of file descriptors.
func fewDescriptors(dir string) error {
	s, err := Open(small(dir))
	if err != nil {
		return err
	}
	if err := stepNext(s, 3); err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	few := limit
	few.Cur = uint64(len(open) + 4)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		return err
	}
	if err := stepNext(s, 3); as[*FullError](err) == nil || as[*FullError](err).What != "descriptors" {
		return fmt.Errorf("without descriptors: %w", err)
	}
	if err := checkAll(s, 3); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if err := stepNext(s, 3); err != nil {
		return err
	}
	return s.Close()
}

// tasks are what a child may be told to do.
var tasks = map[string]func(dir string) error{"descriptors": fewDescriptors, "failing disk": failingDisk}

func TestFault20NoDescriptors(t *testing.T) {
	runChild(t, exec.Command(os.Args[0]), childRequest{Dir: filepath.Join(t.TempDir(), "s"), Task: "descriptors"})
}

// runChild runs a child that does a task and says "done".
func runChild(t *testing.T, cmd *exec.Cmd, r childRequest) string {
	t.Helper()
	value, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), childVariable+"="+string(value))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "done") {
		t.Fatalf("the child ends with %v: %s", err, out)
	}
	return string(out)
}

// TestFault21FsyncFails has the durability of the folder's own files fail.
func TestFault21FsyncFails(t *testing.T) {
	o := small(t.TempDir())
	bad := false
	o.Disk.Sync = func(f *os.File) error {
		if bad {
			return syscall.EIO
		}
		return f.Sync()
	}
	s := mustOpen(t, o)
	mustStep(t, s, 1, 2)
	p, err := put(s, 2, 0, 2, []uint64{1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := manifest(2, 1, []uint64{1}, p)
	bad = true
	for range 2 {
		if err := s.Commit(m); !errors.Is(err, syscall.EIO) {
			t.Fatalf("commit: %v", err)
		}
	}
	bad = false
	if err := s.Commit(m); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	o.AtLeast = 2
	s = mustOpen(t, o)
	if err := checkAll(s, 2); err != nil {
		t.Fatal(err)
	}
}

// failingDisk is a child whose msync fails after a while: the store must take nothing more.
func failingDisk(dir string) error {
	s, err := Open(small(dir))
	if err != nil {
		return err
	}
	last := uint64(0)
	for range 100 {
		if err = stepNext(s, 3); err != nil {
			break
		}
		last = s.Latest().Number
		fmt.Println("committed", last)
	}
	if !errors.Is(err, syscall.EIO) {
		return fmt.Errorf("a disk that fails: %w", err)
	}
	for range 3 {
		if err := stepNext(s, 3); err == nil || !strings.Contains(err.Error(), "opened again") {
			return fmt.Errorf("after the disk failed: %w", err)
		}
	}
	return nil // not closed
}

// TestFault21WriteFails has the database's msync fail with EIO.
func TestFault21WriteFails(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("skipped: strace is not here")
	}
	if out, err := exec.Command(strace, "-f", "-o", os.DevNull, "-e", "trace=msync", "true").CombinedOutput(); err != nil {
		t.Skipf("skipped: strace does not work here: %s", out)
	}
	dir := filepath.Join(t.TempDir(), "s")
	// Each thread counts its own calls.
	cmd := exec.Command(strace, "-f", "-o", os.DevNull, "-e", "trace=msync", "-e", "inject=msync:error=EIO:when=5+", os.Args[0])
	out := runChild(t, cmd, childRequest{Dir: dir, Task: "failing disk"})
	last := uint64(0)
	for line := range strings.Lines(out) {
		_, _ = fmt.Sscanf(line, "committed %d", &last)
	}
	o := small(dir)
	o.AtLeast = last
	s := mustOpen(t, o)
	if err := checkAll(s, 3); err != nil {
		t.Fatal(err)
	}
}

// TestFault25PowerLoss takes the disk away under a process that takes checkpoints, losing all that was not flushed.
func TestFault25PowerLoss(t *testing.T) {
	if !long() {
		t.Skip("skipped: a long test (SIMNODE_LONG_TESTS=1)")
	}
	image := filepath.Join(t.TempDir(), "disk")
	run := func(name string, args ...string) error {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", name, err, out)
		}
		return nil
	}
	disk := t.TempDir()
	mount := func() error { return run("mount", "-o", "loop", image, disk) }
	if err := errors.Join(run("truncate", "-s", "256M", image), run("mkfs.ext4", "-q", "-F", image), mount()); err != nil {
		t.Skipf("skipped: an ext4 disk cannot be made here: %v", err)
	}
	t.Cleanup(func() { _ = run("umount", disk) })
	r := rand.New(rand.NewPCG(3, 3))
	committed := uint64(0)
	for loss := range 40 {
		powerLoss(t, disk, &committed, r.IntN(12), time.Duration(r.IntN(30))*time.Millisecond)
		if err := errors.Join(run("umount", disk), mount()); err != nil {
			t.Fatal(err)
		}
		o := small(filepath.Join(disk, "s"))
		o.AtLeast = committed
		s := mustOpen(t, o)
		if err := checkAll(s, crashRegions); err != nil {
			t.Fatalf("loss %d: %v", loss, err)
		}
		mustClose(t, s)
	}
	t.Logf("%d checkpoints", committed)
}

// powerLoss runs a child and shuts the file system down a moment after a line of it.
func powerLoss(t *testing.T, disk string, committed *uint64, after int, delay time.Duration) {
	t.Helper()
	value, err := json.Marshal(childRequest{Dir: filepath.Join(disk, "s")})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(value))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	root, err := os.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	lost := make(chan error, 1)
	lines := 0
	for in := bufio.NewScanner(out); in.Scan(); lines++ {
		_, _ = fmt.Sscanf(in.Text(), "committed %d", committed)
		if lines == after {
			time.AfterFunc(delay, func() {
				const shutdown, noLogFlush = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH
				err := unix.IoctlSetPointerInt(int(root.Fd()), shutdown, noLogFlush)
				_ = cmd.Process.Kill()
				lost <- err
			})
		}
	}
	_ = cmd.Wait()
	if err := <-lost; err != nil {
		t.Skipf("skipped: the file system cannot be shut down here: %v", err)
	}
}

// diskUse returns what the files of a folder take on the disk, in bytes.
func diskUse(t testing.TB, dir string) int64 {
	t.Helper()
	var n int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		n += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPruningKeepsTheDiskBounded takes a thousand checkpoints, or some hundreds.
func TestPruningKeepsTheDiskBounded(t *testing.T) {
	t.Parallel()
	o := small(t.TempDir())
	s := mustOpen(t, o)
	const each = 300 << 10
	var most, written int64
	count := uint64(240)
	if long() {
		count = 1000
	}
	for n := uint64(1); n <= count; n++ {
		chain, base := chainOf(n)
		w, err := s.Write(n, 0, chain, each)
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, 15<<10)
		for i := range each / len(data) {
			data[0], data[1] = byte(n), byte(i)
			if err := w.Put(i%3, 0, data); err != nil {
				t.Fatal(err)
			}
		}
		for region := range 3 {
			if err := w.Describe(RegionPart{Region: region, Base: base}); err != nil {
				t.Fatal(err)
			}
		}
		p, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(manifest(n, n-1, chain, p)); err != nil {
			t.Fatal(err)
		}
		if n%10 == 0 {
			st, err := s.Stats()
			if err != nil {
				t.Fatal(err)
			}
			most, written = max(most, diskUse(t, filepath.Join(o.Dir, dbName))), int64(st.Written)
			if st.Increments > window+3 || st.Checkpoints != 3 {
				t.Fatalf("at %d: %+v", n, st)
			}
		}
	}
	live := int64(each * (window + 3))
	t.Logf("%d MiB written, %d MiB live, at most %d MiB on the disk", written>>20, live>>20, most>>20)
	// Twice what lives, the floor under which no compaction runs, and the logs.
	if bound := 2*live + (compactFloor+3)*s.memtable; most > bound {
		t.Errorf("the disk held %d bytes; %d are allowed", most, bound)
	}
	if err := s.Verify(nil); err != nil {
		t.Error(err)
	}
	// All but the last is removed, and the disk is given back.
	if gone, err := s.Prune(1, 0); err != nil || !slices.Equal(gone, []uint64{count - 2, count - 1}) {
		t.Errorf("removed are %v, %v", gone, err)
	}
	if keys, err := s.keys(nil, 1<<20); err != nil || len(keys) > 150 {
		t.Errorf("%d keys are left, %v", len(keys), err)
	}
	if st, err := s.Stats(); err != nil || st.Tables > live+live/4 {
		t.Errorf("%d bytes live, the tables take %d, %v", live, st.Tables, err)
	}
}
