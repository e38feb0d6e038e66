package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// state is everything but the entries.
type state struct {
	serial uint64 // counts the writes: of two good copies the later one is right
	owner  string // whose folder it is

	// formation of the cluster whose log this is; 0 if the node took part in none yet.
	formation uint64

	term     uint64
	voteTerm uint64
	vote     string // whom the node voted for in voteTerm
	voted    bool

	first, last uint64 // indexes; 0 if the log is empty
	segment     uint64 // the segment that holds the last entry
	end         int64  // where its record ends there
}

const (
	stateName = "state"
	slotSize  = 512  // one sector: the disk writes it whole or not at all
	slotApart = 4096 // the copies lie in different blocks
	stateSize = 2 * slotApart
	maxOwner  = 200
	maxVote   = 100
)

var stateMagic = [8]byte{'s', 'i', 'm', 'r', 'a', 'f', 't', '2'}

// encode returns the state as a sector.
func (s *state) encode() []byte {
	b := make([]byte, 0, slotSize)
	b = append(b, stateMagic[:]...)
	for _, v := range []uint64{s.serial, s.formation, s.term, s.voteTerm, s.first, s.last, s.segment, uint64(s.end)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = append(b, flag(s.voted), byte(len(s.vote)), byte(len(s.owner)))
	b = append(b, s.vote...)
	b = append(b, s.owner...)
	b = append(b, make([]byte, slotSize-4-len(b))...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// decodeState reads a sector.
func decodeState(b []byte) (state, error) {
	if len(b) != slotSize {
		return state{}, fmt.Errorf("a state of %d bytes; %d are expected", len(b), slotSize)
	}
	if crc32.Checksum(b[:slotSize-4], castagnoli) != binary.LittleEndian.Uint32(b[slotSize-4:]) {
		return state{}, errChecksum
	}
	if [8]byte(b[:8]) != stateMagic {
		return state{}, fmt.Errorf("the state begins with %q; %q is expected: another program or version wrote it", b[:8], stateMagic[:])
	}
	var v [8]uint64
	for i := range v {
		v[i] = binary.LittleEndian.Uint64(b[8+8*i:])
	}
	s := state{serial: v[0], formation: v[1], term: v[2], voteTerm: v[3], first: v[4], last: v[5], segment: v[6], end: int64(v[7])}
	b = b[72 : slotSize-4]
	vote, owner := int(b[1]), int(b[2])
	if vote > maxVote || owner > maxOwner || b[0] > 1 {
		return state{}, errors.New("lengths in the state are out of range")
	}
	s.voted = b[0] == 1
	s.vote = string(b[3 : 3+vote])
	s.owner = string(b[3+vote : 3+vote+owner])
	if (s.first == 0) != (s.last == 0) || s.first > s.last || s.end < 0 || s.segment > s.last {
		return state{}, fmt.Errorf("the state says entries %d to %d, ending at byte %d of segment %d", s.first, s.last, s.end, s.segment)
	}
	return s, nil
}

// readState returns the state in a file; fresh says that none was ever confirmed there.
func readState(f File) (s state, fresh bool, err error) {
	size, err := f.Size()
	if err != nil {
		return state{}, false, err
	}
	buf := make([]byte, min(size, stateSize))
	if len(buf) > 0 {
		if _, err := f.ReadAt(buf, 0); err != nil {
			return state{}, false, err
		}
	}
	if allZero(buf) {
		return state{}, true, nil // it gets its size before anything is in it
	}
	if size < stateSize {
		return state{}, false, fmt.Errorf("the file has %d bytes; %d are expected", size, stateSize)
	}
	a, errA := decodeState(buf[:slotSize])
	b, errB := decodeState(buf[slotApart : slotApart+slotSize])
	switch {
	case errA == nil && errB == nil:
		if b.serial > a.serial {
			return b, false, nil
		}
		return a, false, nil
	case errA == nil:
		return a, false, nil
	case errB == nil:
		return b, false, nil
	}
	return state{}, false, fmt.Errorf("both copies of the state are damaged: %w", errA)
}

func allZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// writeState writes both copies and syncs them.
func writeState(f File, s *state) error {
	b := s.encode()
	for _, at := range []int64{0, slotApart} {
		if _, err := f.WriteAt(b, at); err != nil {
			return err
		}
	}
	return f.Sync()
}
