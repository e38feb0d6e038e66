package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// Options of a Log.
type Options struct {
	// Owner names cluster and node, at most 200 bytes. A folder of another owner is refused.
	Owner string
	// SegmentSize in bytes from which a new segment is begun; default 16 MiB.
	SegmentSize int64
	// WriteLimit is how long a write may take until Hung is called; 0 for no limit.
	WriteLimit time.Duration
	// Hung is called once, from a goroutine of its own, when a write takes longer than WriteLimit. The
	// write goes on; only the end of the process ends it for sure.
	Hung func(what string, limit time.Duration)
	// Trouble is called with the error when a write fails and with nil when entries can be stored
	// again. It must not call the Log.
	Trouble func(error)
	// Log for what Open cuts off; nil for none.
	Log *slog.Logger
}

// Errors of a Log.
var (
	// ErrAbandoned says that a write failed in a way that leaves its effect unknown. Every later write
	// returns it; the process must begin anew with what the disk really holds.
	ErrAbandoned = errors.New("the log takes no more writes: after a failed sync nobody knows what the disk holds; start the node again")
	// ErrClosed says that the Log was closed.
	ErrClosed = errors.New("the log is closed")
)

// DamageError says that what was stored cannot be read back.
type DamageError struct {
	Path   string
	Offset int64  // of the record; -1 if it concerns the whole file
	Index  uint64 // of the entry; 0 if it concerns none
	Err    error
}

func (e *DamageError) Error() string {
	where := e.Path
	if e.Offset >= 0 {
		where += fmt.Sprintf(" at byte %d", e.Offset)
	}
	if e.Index > 0 {
		where += fmt.Sprintf(", entry %d", e.Index)
	}
	return fmt.Sprintf("raft log damaged: %s: %v; delete the folder, the other nodes send this one everything anew", where, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// notFound is the text by which raft tells that a key was never set.
var errNotFound = errors.New("not found")

// Keys that raft keeps in a stable store.
const (
	keyTerm     = "CurrentTerm"
	keyVoteTerm = "LastVoteTerm"
	keyVote     = "LastVoteCand"
)

// KeyFormation is the key of the number that names the cluster whose log this is.
const KeyFormation = "Formation"

// segment is a file of records with where each begins.
type segment struct {
	first  uint64
	name   string
	file   File
	starts []int64
	end    int64
}

func (s *segment) last() uint64 { return s.first + uint64(len(s.starts)) - 1 }

func segmentName(first uint64) string { return fmt.Sprintf("log-%020d", first) }

// Log is a raft.LogStore and a raft.StableStore. Writes come one after another; reads may come at any
// time and wait for no write.
type Log struct {
	disk Disk
	o    Options

	writing   sync.Mutex // held during a write
	abandoned bool
	troubled  bool
	stateFile File
	buf       []byte

	mu       sync.RWMutex // guards the rest; held for a moment only
	st       state
	segments []*segment // in order; the last one is written to
	closed   bool
}

var (
	_ raft.LogStore          = (*Log)(nil)
	_ raft.StableStore       = (*Log)(nil)
	_ raft.MonotonicLogStore = (*Log)(nil)
)

// Open opens the log in a folder, or makes an empty one, and reads all of it to be sure that it is whole.
func Open(disk Disk, o Options) (_ *Log, err error) {
	if len(o.Owner) > maxOwner {
		return nil, fmt.Errorf("owner of a log has %d bytes; at most %d", len(o.Owner), maxOwner)
	}
	if o.SegmentSize <= 0 {
		o.SegmentSize = 16 << 20
	}
	l := &Log{disk: disk, o: o}
	defer func() {
		if err != nil {
			l.closeFiles()
		}
	}()
	starts, err := l.list()
	if err != nil {
		return nil, err
	}
	if l.stateFile, err = disk.Open(stateName); err != nil {
		return nil, err
	}
	st, fresh, err := readState(l.stateFile)
	if err != nil {
		return nil, &DamageError{Path: disk.Path(stateName), Offset: -1, Err: err}
	}
	if fresh {
		if len(starts) > 0 {
			return nil, &DamageError{Path: disk.Path(stateName), Offset: -1, Err: errors.New("there are entries but no state")}
		}
		return l, l.create()
	}
	if st.owner != o.Owner {
		return nil, fmt.Errorf("%s belongs to %q, and this is %q; give this node a folder of its own", disk.Path(stateName), st.owner, o.Owner)
	}
	l.st = st
	return l, l.load(starts)
}

// list returns the first indexes of the segments in the folder, in order.
func (l *Log) list() ([]uint64, error) {
	names, err := l.disk.List()
	if err != nil {
		return nil, err
	}
	var starts []uint64
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, "log-")
		if !ok {
			continue
		}
		first, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || first == 0 || segmentName(first) != name {
			return nil, fmt.Errorf("%s is no segment of a raft log; take it away", l.disk.Path(name))
		}
		starts = append(starts, first)
	}
	slices.Sort(starts)
	return starts, nil
}

// create makes the state of an empty log.
func (l *Log) create() error {
	l.st = state{owner: l.o.Owner, serial: 1}
	// Written and not just truncated, so that the disk has the room for good.
	if _, err := l.stateFile.WriteAt(make([]byte, stateSize), 0); err != nil {
		return err
	}
	if err := l.stateFile.Sync(); err != nil {
		return err
	}
	if err := writeState(l.stateFile, &l.st); err != nil {
		return err
	}
	return l.disk.Sync()
}

// load reads all segments, checks every record, and takes away what was never confirmed.
func (l *Log) load(starts []uint64) (err error) {
	removed := false
	defer func() {
		if removed && err == nil {
			err = l.disk.Sync() // lest a power failure brings them back among later ones
		}
	}()
	for i, first := range starts {
		behind := i+1 < len(starts) && starts[i+1] <= l.st.first
		if l.st.last == 0 || first > l.st.last || behind {
			// Left over from a write or a removal that was under way.
			if err := l.disk.Remove(segmentName(first)); err != nil {
				return err
			}
			removed = true
			continue
		}
		if err := l.loadSegment(first); err != nil {
			return err
		}
	}
	if l.st.last == 0 {
		return nil
	}
	if len(l.segments) == 0 || l.segments[0].first > l.st.first {
		return &DamageError{Path: l.disk.Path(segmentName(l.st.first)), Offset: -1, Index: l.st.first, Err: errors.New("the file is missing")}
	}
	if tail := l.segments[len(l.segments)-1]; tail.last() != l.st.last || tail.first != l.st.segment {
		return &DamageError{Path: l.disk.Path(segmentName(l.st.segment)), Offset: -1, Index: l.st.last, Err: errors.New("the last entries are missing")}
	}
	return nil
}

func (l *Log) loadSegment(first uint64) error {
	s := &segment{first: first, name: segmentName(first)}
	if n := len(l.segments); n > 0 && l.segments[n-1].last()+1 != first {
		return &DamageError{Path: l.disk.Path(s.name), Offset: -1, Index: l.segments[n-1].last() + 1, Err: errors.New("the file before does not end where this one begins")}
	}
	f, err := l.disk.Open(s.name)
	if err != nil {
		return err
	}
	s.file = f
	l.segments = append(l.segments, s)
	size, err := f.Size()
	if err != nil {
		return err
	}
	end := size
	if first == l.st.segment {
		end = l.st.end
	}
	if end > size {
		return &DamageError{Path: l.disk.Path(s.name), Offset: size, Err: fmt.Errorf("the file ends at byte %d, its entries at %d", size, end)}
	}
	if err := l.scan(s, end); err != nil {
		return err
	}
	if size > end {
		if l.o.Log != nil {
			l.o.Log.Info("raft log: a write that was under way when the node ended is cut off", "file", l.disk.Path(s.name), "bytes", size-end)
		}
		return f.Truncate(end)
	}
	return nil
}

// scan checks the records of a segment up to end.
func (l *Log) scan(s *segment, end int64) error {
	var head [headSize]byte
	var entry raft.Log
	for s.end < end {
		index := s.first + uint64(len(s.starts))
		damage := func(err error) error {
			return &DamageError{Path: l.disk.Path(s.name), Offset: s.end, Index: index, Err: err}
		}
		if end-s.end < headSize {
			return damage(fmt.Errorf("%d bytes are left, too few for a record", end-s.end))
		}
		if _, err := s.file.ReadAt(head[:], s.end); err != nil {
			return damage(err)
		}
		n, err := bodySize(head[:], end-s.end)
		if err != nil {
			return damage(err)
		}
		record := make([]byte, headSize+n)
		if _, err := s.file.ReadAt(record, s.end); err != nil {
			return damage(err)
		}
		if err := parseRecord(record, index, &entry); err != nil {
			return damage(err)
		}
		s.starts = append(s.starts, s.end)
		s.end += int64(len(record))
	}
	return nil
}

// Empty reports whether the node never took part in anything: no entry, no term, no vote.
func (l *Log) Empty() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.st.last == 0 && l.st.term == 0 && !l.st.voted
}

// IsMonotonic tells raft that entries must follow each other without gaps.
func (l *Log) IsMonotonic() bool { return true }

// FirstIndex returns the index of the first entry, 0 if there is none.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.st.first, nil
}

// LastIndex returns the index of the last entry, 0 if there is none.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.st.last, nil
}

// GetLog reads an entry; its checksum is verified.
func (l *Log) GetLog(index uint64, to *raft.Log) error {
	l.mu.RLock()
	s, start, end := l.find(index)
	l.mu.RUnlock()
	if s == nil {
		return raft.ErrLogNotFound
	}
	record := make([]byte, end-start)
	if _, err := s.file.ReadAt(record, start); err != nil {
		return &DamageError{Path: l.disk.Path(s.name), Offset: start, Index: index, Err: err}
	}
	if err := parseRecord(record, index, to); err != nil {
		return &DamageError{Path: l.disk.Path(s.name), Offset: start, Index: index, Err: err}
	}
	return nil
}

// find returns where an entry is; mu is held.
func (l *Log) find(index uint64) (s *segment, start, end int64) {
	if index == 0 || index < l.st.first || index > l.st.last || l.closed {
		return nil, 0, 0
	}
	for i := len(l.segments) - 1; i >= 0; i-- {
		s = l.segments[i]
		if index < s.first {
			continue
		}
		k := int(index - s.first)
		if k+1 < len(s.starts) {
			return s, s.starts[k], s.starts[k+1]
		}
		return s, s.starts[k], s.end
	}
	return nil, 0, 0
}

// StoreLog stores an entry; see StoreLogs.
func (l *Log) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends entries. They are durable when it returns nil, and none is stored otherwise.
func (l *Log) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	return l.write(storing, func() error { return l.store(entries) })
}

func (l *Log) store(entries []*raft.Log) error {
	l.mu.RLock()
	st := l.st
	var tail *segment
	if n := len(l.segments); n > 0 {
		tail = l.segments[n-1]
	}
	l.mu.RUnlock()

	next := st.last + 1
	if st.last == 0 {
		next = entries[0].Index
	}
	buf := l.buf[:0]
	var ends []int64
	for i, e := range entries {
		if e.Index != next+uint64(i) || e.Index == 0 {
			return fmt.Errorf("entry %d cannot be stored: entry %d is next", e.Index, next+uint64(i))
		}
		var err error
		if buf, err = appendRecord(buf, e); err != nil {
			return err
		}
		ends = append(ends, int64(len(buf)))
	}
	if l.buf = buf; cap(buf) > 4<<20 {
		l.buf = nil
	}

	fresh := tail == nil || tail.end >= l.o.SegmentSize
	if fresh {
		if err := seal(tail); err != nil {
			return err
		}
		f, err := l.disk.Open(segmentName(next))
		if err != nil {
			return err
		}
		tail = &segment{first: next, name: segmentName(next), file: f}
	}
	if err := l.append(tail, buf, fresh); err != nil {
		if fresh {
			tail.file.Close()
		}
		return err
	}

	start := tail.end
	if st.last == 0 {
		st.first = next
	}
	st.last = next + uint64(len(entries)) - 1
	st.segment, st.end = tail.first, start+int64(len(buf))
	if err := l.writeState(st); err != nil {
		return err
	}
	l.mu.Lock()
	if fresh {
		l.segments = append(l.segments, tail)
	}
	for i := range entries {
		tail.starts = append(tail.starts, start)
		start = tail.end + ends[i]
	}
	tail.end = st.end
	l.mu.Unlock()
	return nil
}

// seal cuts off what a failed write left behind the end: of a segment that is not the last one all bytes
// count.
func seal(s *segment) error {
	if s == nil {
		return nil
	}
	if err := s.file.Truncate(s.end); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return &syncError{err}
	}
	return nil
}

// append writes records behind the end of a segment and syncs them.
func (l *Log) append(s *segment, buf []byte, fresh bool) error {
	if _, err := s.file.WriteAt(buf, s.end); err != nil {
		return err // what was written stands behind the end: the next write goes over it
	}
	if err := s.file.Sync(); err != nil {
		return &syncError{err}
	}
	if !fresh {
		return nil
	}
	if err := l.disk.Sync(); err != nil {
		return &syncError{err}
	}
	return nil
}

// syncError marks a failure whose effect nobody knows.
type syncError struct{ err error }

func (e *syncError) Error() string { return e.err.Error() }
func (e *syncError) Unwrap() error { return e.err }

// writeState makes st the state, on disk and then here.
func (l *Log) writeState(st state) error {
	st.serial++
	if err := writeState(l.stateFile, &st); err != nil {
		return &syncError{err} // one copy may be new
	}
	l.mu.Lock()
	l.st = st
	l.mu.Unlock()
	return nil
}

// DeleteRange deletes entries from one index to another, both included: raft deletes at one of the ends.
func (l *Log) DeleteRange(from, to uint64) error {
	return l.write("deleting entries", func() error { return l.deleteRange(from, to) })
}

func (l *Log) deleteRange(from, to uint64) error {
	st := l.st // only writes change it, and they come one after another
	from, to = max(from, st.first), min(to, st.last)
	if st.last == 0 || from > to {
		return nil
	}
	switch {
	case from == st.first && to == st.last:
		st.first, st.last, st.segment, st.end = 0, 0, 0, 0
	case from == st.first:
		st.first = to + 1
	case to == st.last:
		st.last = from - 1
		s, _, end := l.find(st.last)
		st.segment, st.end = s.first, end
	default:
		return fmt.Errorf("entries %d to %d cannot be deleted out of the middle of %d to %d", from, to, st.first, st.last)
	}
	if err := l.writeState(st); err != nil {
		return err
	}
	return l.trim()
}

// trim takes away segments and tails that the state does not count any more.
func (l *Log) trim() error {
	l.mu.Lock()
	st := l.st
	var gone, kept []*segment
	for i, s := range l.segments {
		behind := i+1 < len(l.segments) && l.segments[i+1].first <= st.first
		if st.last == 0 || s.first > st.last || behind {
			gone = append(gone, s)
			continue
		}
		kept = append(kept, s)
	}
	l.segments = kept
	var tail *segment
	if len(kept) > 0 {
		tail = kept[len(kept)-1]
		if n := st.last - tail.first + 1; uint64(len(tail.starts)) > n {
			tail.starts, tail.end = tail.starts[:n:n], st.end
		} else {
			tail = nil
		}
	}
	l.mu.Unlock()
	// Readers that found a segment before may now get an error: the entry is gone for them.
	for _, s := range gone {
		s.file.Close()
		if err := l.disk.Remove(s.name); err != nil {
			return err
		}
	}
	if len(gone) > 0 {
		if err := l.disk.Sync(); err != nil {
			return &syncError{err}
		}
	}
	if tail != nil {
		return tail.file.Truncate(tail.end)
	}
	return nil
}

// Set stores the candidate that raft voted for; raft keeps nothing else there.
func (l *Log) Set(key, value []byte) error {
	if string(key) != keyVote || len(value) > maxVote {
		return fmt.Errorf("key %q with %d bytes: only %q with at most %d is kept", key, len(value), keyVote, maxVote)
	}
	return l.write("storing a vote", func() error {
		st := l.st
		st.vote, st.voted = string(value), true
		return l.writeState(st)
	})
}

// Get returns the candidate that raft voted for last.
func (l *Log) Get(key []byte) ([]byte, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if string(key) != keyVote || !l.st.voted {
		return nil, errNotFound
	}
	return []byte(l.st.vote), nil
}

// SetUint64 stores the current term, the term of the last vote or the formation.
func (l *Log) SetUint64(key []byte, value uint64) error {
	return l.write("storing a term", func() error {
		st := l.st
		switch string(key) {
		case keyTerm:
			st.term = value
		case keyVoteTerm:
			st.voteTerm = value
		case KeyFormation:
			st.formation = value
		default:
			return fmt.Errorf("key %q is not kept", key)
		}
		return l.writeState(st)
	})
}

// GetUint64 returns the current term, the term of the last vote or the formation, 0 if there was none.
func (l *Log) GetUint64(key []byte) (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch string(key) {
	case keyTerm:
		return l.st.term, nil
	case keyVoteTerm:
		return l.st.voteTerm, nil
	case KeyFormation:
		return l.st.formation, nil
	}
	return 0, errNotFound
}

// storing is the write that needs room.
const storing = "storing entries"

// write does a write under the watch of the limit and keeps account of failures.
func (l *Log) write(what string, do func() error) error {
	if l.o.WriteLimit > 0 && l.o.Hung != nil {
		watch := time.AfterFunc(l.o.WriteLimit, func() { l.o.Hung(what, l.o.WriteLimit) })
		defer watch.Stop()
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	err := l.guarded(do)
	if err != nil {
		err = fmt.Errorf("raft log %s: %s: %w", l.disk.Path(""), what, err)
	}
	relieved := err == nil && l.troubled && what == storing
	if l.o.Trouble != nil && (err != nil || relieved) {
		l.o.Trouble(err)
	}
	l.troubled = err != nil || l.troubled && !relieved
	return err
}

func (l *Log) guarded(do func() error) error {
	l.mu.RLock()
	closed := l.closed
	l.mu.RUnlock()
	switch {
	case closed:
		return ErrClosed
	case l.abandoned:
		return ErrAbandoned
	}
	err := do()
	if err == nil {
		return nil
	}
	var sync *syncError
	var path *fs.PathError
	if errors.As(err, &sync) || errors.As(err, &path) && !IsFull(err) {
		l.abandoned = true
		return fmt.Errorf("%w (%w)", err, ErrAbandoned)
	}
	return err
}

// IsFull reports whether an error says that the disk or a quota is full.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Close ends the use of the log. It waits for a write that is under way.
func (l *Log) Close() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return l.closeFiles()
}

func (l *Log) closeFiles() error {
	var errs []error
	for _, s := range l.segments {
		errs = append(errs, s.file.Close())
	}
	if l.stateFile != nil {
		errs = append(errs, l.stateFile.Close())
	}
	return errors.Join(errs...)
}
