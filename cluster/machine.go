package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// Entries of the log begin with a byte that says what they are.
const (
	entryCommand   byte = 1 // the rest is for the FSM
	entryFormation byte = 2 // 8 bytes: the cluster's formation; the first one counts
	entryFounded   byte = 3 // commands are taken from now on
)

// machine is the raft.FSM: the caller's FSM and what this package itself keeps in the log.
type machine struct {
	fsm     FSM
	changed func() // formation or founded changed; must not block

	mu        sync.Mutex
	formation uint64
	founded   bool
	applied   uint64 // commands
	index     uint64 // of the last entry applied
}

var _ raft.ConfigurationStore = (*machine)(nil)

// answered is what Apply returns through raft.
type answered struct {
	answer []byte
	err    error
}

func (m *machine) facts() (formation uint64, founded bool, applied uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.formation, m.founded, m.applied
}

func (m *machine) reach(index uint64) {
	m.mu.Lock()
	m.index = index
	m.mu.Unlock()
}

// reached reports whether the entry at an index was applied here, by itself.
func (m *machine) reached(index uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index >= index
}

// Apply applies an entry.
func (m *machine) Apply(l *raft.Log) any {
	defer m.reach(l.Index)
	if l.Type != raft.LogCommand || len(l.Data) == 0 {
		return answered{err: fmt.Errorf("log entry %d is empty", l.Index)}
	}
	rest := l.Data[1:]
	switch l.Data[0] {
	case entryCommand:
		answer := m.fsm.Apply(l.Index, rest)
		m.mu.Lock()
		m.applied++
		m.mu.Unlock()
		return answered{answer: answer}
	case entryFormation:
		if len(rest) != 8 {
			return answered{err: fmt.Errorf("log entry %d: a formation of %d bytes", l.Index, len(rest))}
		}
		m.mu.Lock()
		if m.formation == 0 {
			m.formation = binary.LittleEndian.Uint64(rest)
		}
		m.mu.Unlock()
		m.changed()
		return answered{}
	case entryFounded:
		m.mu.Lock()
		m.founded = true
		m.mu.Unlock()
		m.changed()
		return answered{}
	}
	return answered{err: fmt.Errorf("log entry %d is of kind %d, which this version does not know", l.Index, l.Data[0])}
}

// StoreConfiguration makes raft count configurations as applied: else it takes no snapshot, and the log grows for
// ever, in a cluster where nodes come and go and nothing else happens.
func (m *machine) StoreConfiguration(uint64, raft.Configuration) {}

// reset forgets everything.
func (m *machine) reset() error {
	m.mu.Lock()
	m.formation, m.founded, m.applied, m.index = 0, false, 0, 0
	m.mu.Unlock()
	return m.fsm.Restore(nil)
}

// snapshot format: magic, formation, founded, applied, length of the FSM's data, its CRC-32C, the data.
const (
	snapshotMagic = "simsnap1"
	snapshotHead  = len(snapshotMagic) + 8 + 1 + 8 + 8 + 4
	// maxSnapshot is the largest snapshot of an FSM in bytes.
	maxSnapshot = 16 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type snapshot struct{ head, data []byte }

// Snapshot takes the state of now.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	data, err := m.fsm.Snapshot()
	if err != nil {
		return nil, err
	}
	formation, founded, applied := m.facts()
	head := append(make([]byte, 0, snapshotHead), snapshotMagic...)
	head = binary.LittleEndian.AppendUint64(head, formation)
	if founded {
		head = append(head, 1)
	} else {
		head = append(head, 0)
	}
	head = binary.LittleEndian.AppendUint64(head, applied)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(data)))
	head = binary.LittleEndian.AppendUint32(head, crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, data))
	return &snapshot{head, data}, nil
}

// Persist writes the snapshot.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	for _, b := range [][]byte{s.head, s.data} {
		if _, err := sink.Write(b); err != nil {
			return errors.Join(err, sink.Cancel())
		}
	}
	return sink.Close()
}

// Release is there for raft.
func (s *snapshot) Release() {}

// Restore reads a snapshot. Nothing changes if it is damaged.
func (m *machine) Restore(r io.ReadCloser) error {
	formation, founded, applied, data, err := readSnapshot(r)
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := m.fsm.Restore(data); err != nil {
		return err
	}
	m.mu.Lock()
	m.formation, m.founded, m.applied = formation, founded, applied
	m.mu.Unlock()
	m.changed()
	return nil
}

func readSnapshot(r io.Reader) (formation uint64, founded bool, applied uint64, data []byte, err error) {
	head := make([]byte, snapshotHead)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, false, 0, nil, fmt.Errorf("snapshot ends in its head: %w", err)
	}
	b, ok := bytes.CutPrefix(head, []byte(snapshotMagic))
	if !ok || b[8] > 1 {
		return 0, false, 0, nil, fmt.Errorf("snapshot begins with %q: not one of this version", head[:len(snapshotMagic)])
	}
	formation, founded, applied = binary.LittleEndian.Uint64(b), b[8] == 1, binary.LittleEndian.Uint64(b[9:])
	size, sum := binary.LittleEndian.Uint64(b[17:]), binary.LittleEndian.Uint32(b[25:])
	if size > maxSnapshot {
		return 0, false, 0, nil, fmt.Errorf("snapshot claims %d bytes, at most %d are possible", size, int64(maxSnapshot))
	}
	// Memory grows with what is really there.
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, r, int64(size)); err != nil {
		return 0, false, 0, nil, fmt.Errorf("snapshot of %d bytes ends after %d: %w", size, buf.Len(), err)
	}
	data = buf.Bytes()
	if data == nil {
		data = []byte{}
	}
	if crc32.Update(crc32.Checksum(head[:snapshotHead-4], castagnoli), castagnoli, data) != sum {
		return 0, false, 0, nil, errors.New("snapshot is damaged: its checksum does not match")
	}
	return formation, founded, applied, data, nil
}
