package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/gofrs/flock"
)

// Options say where checkpoints are kept, whose they are, and what they may take.
type Options struct {
	// Dir is the folder. It is made if it is missing.
	Dir string
	// Job says what may be stored here, say a hash of scenario and settings, and Node whose folder it is. A folder
	// of another job or node is refused with an *IdentityError. Empty when the folder exists: any.
	Job, Node string
	// AtLeast is the newest checkpoint that is known to have been committed: a folder without it is an old copy and
	// refused with a *StaleError. 0: not known.
	AtLeast uint64
	// Memory bounds the live memory of the database, in bytes; 0 is 64 MiB, and it does not go below that. The
	// garbage collector and the disk's cache may hold more.
	Memory int64
	// Reserve is kept free on the disk, in bytes; 0 is 256 MiB. The database dies when it meets a full disk.
	Reserve int64
	// KeepLast is how many of the newest checkpoints are kept; 0 is 3. KeepEvery keeps besides the first at or after
	// each multiple of it; 0 is none.
	KeepLast, KeepEvery int
	// ReadOnly opens the folder to be read, by any number of processes, and changes nothing in it; but a folder that
	// was not closed is put in order first.
	ReadOnly bool
	// Log takes what is worth telling; nil is nowhere.
	Log *slog.Logger
	// Disk replaces the machine's disk in tests.
	Disk Disk
}

// Store is a folder of checkpoints. Its methods may be called from several goroutines.
type Store struct {
	dir      string
	disk     Disk
	log      *slog.Logger
	readOnly bool
	memtable int64
	reserve  int64
	keep     retention
	job      string
	node     string
	lock     *flock.Flock
	db       *badger.DB
	ballast  sync.Mutex
	// tidy is held by what commits, prunes and compacts, one at a time. It guards dropped and sums.
	tidy sync.Mutex
	// gate is held for reading by each open writer: the database takes no writes while it compacts.
	gate sync.RWMutex
	// closing is held for reading by what uses the database.
	closing sync.RWMutex

	// dropped are the numbers of manifests whose records are to be removed, once the head does not name them.
	dropped []uint64

	mu     sync.Mutex // guards what follows
	closed bool
	// failed is set by the first error of the database on writing. What it holds is not known then.
	failed error
	head   head
	sums   sums
	// manifests are the committed checkpoints that are kept, ascending.
	manifests []*stored
	// parts are the finished parts that are here, committed or not.
	parts map[increment]*Part
	// used are the increments given to a writer whose number is not below the newest committed one; open are those
	// being written; litter are those whose records are to be removed, dead those of which only chunks are left.
	used   map[increment]bool
	open   map[increment]*Writer
	litter map[increment]bool
	dead   map[increment]bool
	// held counts, for each increment, who reads it.
	held map[increment]int
	// written counts the bytes of chunks put since the store was opened.
	written uint64
}

type identity struct {
	Format int    `json:"format"`
	Job    string `json:"job"`
	Node   string `json:"node"`
}

// head is what must be found in the database: it is written after each commit and before anything is removed.
type head struct {
	Next    uint64   `json:"next"`
	Commits []commit `json:"commits"`
}

type commit struct {
	Number uint64 `json:"number"`
	// Sum is the SHA-256 of the manifest's record, in hex.
	Sum string `json:"sum"`
}

func (h *head) newest() uint64 {
	if n := len(h.Commits); n > 0 {
		return h.Commits[n-1].Number
	}
	return 0
}

const (
	identityName = "identity"
	headName     = "head"
	lockName     = "lock"
	probingName  = "probing"
)

// Open opens a folder of checkpoints, and makes it if it is missing. It checks all that is in it against what was
// written before the database is opened; what it refuses it leaves as it is.
func Open(o Options) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	if err := s.acquire(); err != nil {
		return nil, err
	}
	if err := s.begin(o); err != nil {
		_ = s.lock.Close()
		return nil, err
	}
	return s, nil
}

func newStore(o Options) (*Store, error) {
	if o.Dir == "" {
		return nil, errors.New("checkpoints need a folder")
	}
	if o.Memory < 0 || o.Reserve < 0 || o.KeepLast < 0 || o.KeepEvery < 0 {
		return nil, errors.New("checkpoints: memory, reserve and the numbers of those kept must not be negative")
	}
	s := &Store{
		dir: o.Dir, disk: o.Disk, log: o.Log, readOnly: o.ReadOnly, job: o.Job, node: o.Node,
		memtable: memtableFor(orDefault(o.Memory, defaultMemory)),
		reserve:  orDefault(o.Reserve, defaultReserve),
		keep:     retention{int(orDefault(int64(o.KeepLast), defaultKeep)), o.KeepEvery},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.forget()
	return s, nil
}

// forget empties what was read from the database.
func (s *Store) forget() {
	s.manifests, s.dropped = nil, nil
	s.parts = make(map[increment]*Part)
	s.used = make(map[increment]bool)
	s.open = make(map[increment]*Writer)
	s.litter = make(map[increment]bool)
	s.dead = make(map[increment]bool)
	s.held = make(map[increment]int)
}

func orDefault(v, d int64) int64 {
	if v == 0 {
		return d
	}
	return v
}

// acquire makes the folder and takes its lock: shared to read, alone to write.
func (s *Store) acquire() error {
	if !s.readOnly {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return err
		}
	} else if _, err := os.Stat(filepath.Join(s.dir, identityName)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s holds no checkpoints", s.dir)
	}
	s.lock = flock.New(filepath.Join(s.dir, lockName), flock.SetPermissions(0o600))
	take := s.lock.TryLock
	if s.readOnly {
		take = s.lock.TryRLock
	}
	if ok, err := take(); err != nil {
		return fmt.Errorf("lock checkpoint folder %s: %w", s.dir, err)
	} else if !ok {
		return fmt.Errorf("checkpoint folder %s is %w", s.dir, ErrInUse)
	}
	return nil
}

// begin brings a locked folder from whatever state it is in to an open database.
func (s *Store) begin(o Options) error {
	if err := s.identify(); err != nil {
		return err
	}
	if err := s.readHead(); err != nil {
		return err
	}
	if err := s.sums.verify(s.dir); err != nil {
		return err
	}
	if !s.sums.Clean {
		if err := s.putInOrder(o.Memory); err != nil {
			return err
		}
	}
	// The head of a folder in order is exact.
	if newest := s.head.newest(); newest < o.AtLeast {
		return &StaleError{Dir: s.dir, Newest: newest, AtLeast: o.AtLeast}
	}
	return s.start(o)
}

// readHead reads the two lists that say what the database must hold.
func (s *Store) readHead() error {
	s.head, s.sums = head{}, sums{}
	if err := readSealed(s.dir, headName, &s.head); err != nil {
		return err
	}
	return readSealed(s.dir, sumsName, &s.sums)
}

// identify compares the folder's identity with what is asked for, and gives an empty folder one.
func (s *Store) identify() error {
	var have identity
	err := readSealed(s.dir, identityName, &have)
	if _, e := os.Stat(filepath.Join(s.dir, identityName)); errors.Is(e, fs.ErrNotExist) && !s.readOnly {
		return s.found()
	}
	if err != nil {
		return err
	}
	if have.Format != Format {
		return &IdentityError{Dir: s.dir, What: "format", Have: fmt.Sprint(have.Format), Want: fmt.Sprint(Format)}
	}
	if s.job != "" && s.job != have.Job {
		return &IdentityError{Dir: s.dir, What: "job", Have: have.Job, Want: s.job}
	}
	if s.node != "" && s.node != have.Node {
		return &IdentityError{Dir: s.dir, What: "node", Have: have.Node, Want: s.node}
	}
	s.job, s.node = have.Job, have.Node
	return s.sweep()
}

// found makes a new folder; the identity comes last, so that a folder with one is whole. It refuses to do so where
// anything else is.
func (s *Store) found() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), unfinished)
		switch name {
		case lockName, headName, sumsName, identityName:
		case dbName, ballastName, probingName:
			return damaged(s.dir, identityName, "the file is missing")
		default:
			return fmt.Errorf("folder %s is not one of checkpoints and not empty (it has %s): name another", s.dir, e.Name())
		}
	}
	if err := s.room(s.reserve); err != nil {
		return err
	}
	if err := s.disk.writeSealed(s.dir, headName, head{Next: 1}); err != nil {
		return err
	}
	if err := s.disk.writeSealed(s.dir, sumsName, sums{Clean: true}); err != nil {
		return err
	}
	return s.disk.writeSealed(s.dir, identityName, identity{Format: Format, Job: s.job, Node: s.node})
}

// sweep removes what a crash left of unfinished files.
func (s *Store) sweep() error {
	if s.readOnly {
		return nil
	}
	for _, name := range []string{headName, sumsName, identityName} {
		if err := os.Remove(filepath.Join(s.dir, name+unfinished)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// start opens the database of a folder whose files are known to be sound.
func (s *Store) start(o Options) error {
	memory := orDefault(o.Memory, defaultMemory)
	if !s.readOnly {
		if err := s.roomToOpen(); err != nil {
			return err
		}
		s.sums.Clean, s.sums.Memory = false, memory
		s.sums.Files = slices.DeleteFunc(s.sums.Files, func(f fileSum) bool { return !isTable(f.Name) })
		if err := s.disk.writeSealed(s.dir, sumsName, s.sums); err != nil {
			return err
		}
	}
	if len(s.sums.Files) == 0 && s.readOnly { // nothing was ever written, and the database would want to begin
		return nil
	}
	db, err := openDatabase(s.dir, memory, s.readOnly, s.log)
	if err != nil {
		return damaged(s.dir, "", "%v", err)
	}
	s.db = db
	if err = s.load(); err == nil && !s.readOnly {
		s.layBallast()
		err = s.clearLitter()
	}
	if err != nil {
		_ = db.Close()
		return err
	}
	return nil
}

func isTable(name string) bool { return filepath.Ext(name) == ".sst" }

// roomToOpen sees to it that the database can make its files and write out what its logs hold.
func (s *Store) roomToOpen() error {
	if s.room(2*s.memtable) == nil {
		return nil
	}
	s.dropBallast()
	return s.room(2 * s.memtable)
}

// Close ends all writers, as Abort does, and closes the folder. What was committed is kept. A *DamageError says that a
// file is not any more as it was written.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	failed := s.failed
	s.mu.Unlock()
	s.closing.Lock() // whoever uses the database has ended
	defer s.closing.Unlock()
	for _, w := range s.open {
		w.batch.Cancel()
	}
	err := s.shut(failed)
	if e := s.lock.Close(); err == nil {
		err = e
	}
	return err
}

// shut closes the database and writes down what its files are.
func (s *Store) shut(failed error) error {
	if s.db == nil {
		return nil
	}
	if !s.readOnly && s.room(2*s.memtable) != nil {
		s.dropBallast() // the database writes out what it has in memory
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close checkpoint folder %s: %w", s.dir, err)
	}
	if s.readOnly || failed != nil {
		return nil // what a failed database left is looked at when it is opened again
	}
	u, err := sumAll(s.dir, &s.sums)
	if err != nil {
		return err
	}
	return s.disk.writeSealed(s.dir, sumsName, u)
}

// use keeps the database open until the function it returns is called.
func (s *Store) use() (done func(), err error) {
	s.closing.RLock()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		s.closing.RUnlock()
		return nil, ErrClosed
	}
	return s.closing.RUnlock, nil
}

// writable says why nothing can be written, with s.mu held.
func (s *Store) writable() error {
	switch {
	case s.closed:
		return ErrClosed
	case s.readOnly:
		return ErrReadOnly
	case s.failed != nil:
		return fmt.Errorf("checkpoint folder %s takes nothing more until it is closed and opened again, since writing failed: %w", s.dir, s.failed)
	}
	return nil
}

// fail notes that the database failed to write.
func (s *Store) fail(err error) error {
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
	return fmt.Errorf("write to checkpoint folder %s: %w", s.dir, err)
}

// Next returns a number larger than any that was ever used here.
func (s *Store) Next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head.Next
}

func (s *Store) usedNumber(n uint64) {
	if n <= maxNumber {
		s.head.Next = max(s.head.Next, n+1)
	}
}

// Job and Node say whose folder it is.
func (s *Store) Job() string  { return s.job }
func (s *Store) Node() string { return s.node }
