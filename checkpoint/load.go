package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// load reads all records and checks that they are those that the head names.
func (s *Store) load() error {
	s.forget()
	if err := s.records(keyPart, s.loadPart); err != nil {
		return err
	}
	if err := s.loadManifests(); err != nil {
		return err
	}
	if err := s.records(keyUsed, func(key, _ []byte) error {
		if i, ok := parseIncrement(key); ok {
			s.used[i] = true
			s.usedNumber(i.number)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := s.findLitter(); err != nil {
		return err
	}
	for _, m := range s.manifests {
		if err := s.checkParts(m); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) loadPart(key, value []byte) error {
	i, ok := parseIncrement(key)
	p, err := decodePart(value)
	if err == nil && (!ok || p.increment() != i) {
		err = errors.New("it stands in the place of another")
	}
	if err != nil {
		return &DamageError{Dir: s.dir, Offset: -1, Number: i.number, Part: i.part, Region: -1, Chunk: -1, Detail: "list of chunks: " + err.Error()}
	}
	s.parts[i] = p
	s.usedNumber(i.number)
	return nil
}

// loadManifests takes the manifests that the head names, and newer ones: the crash came before the head was written.
// Older ones that it does not name were about to be removed.
func (s *Store) loadManifests() error {
	newest := s.head.newest()
	found := make(map[uint64]string)
	err := s.records(keyManifest, func(key, value []byte) error {
		n := binary.BigEndian.Uint64(key[1:])
		sum := sha256.Sum256(value)
		m, err := decodeManifest(value)
		if err == nil && m.Manifest.Number != n {
			err = errors.New("it stands in the place of another")
		}
		if err != nil {
			return s.badManifest(n, err.Error())
		}
		found[n] = hex.EncodeToString(sum[:])
		if n > newest || slices.ContainsFunc(s.head.Commits, func(c commit) bool { return c.Number == n }) {
			s.manifests = append(s.manifests, m)
		} else {
			s.dropped = append(s.dropped, n)
		}
		s.usedNumber(n)
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range s.head.Commits {
		if found[c.Number] != c.Sum {
			return s.badManifest(c.Number, "the manifest that was committed is not there")
		}
	}
	for _, n := range slices.Sorted(maps.Keys(found)) {
		if n > newest {
			s.head.Commits = append(s.head.Commits, commit{n, found[n]})
		}
	}
	return nil
}

func (s *Store) badManifest(n uint64, detail string) error {
	return &DamageError{Dir: s.dir, Offset: -1, Number: n, Part: -1, Region: -1, Chunk: -1, Detail: "manifest: " + detail}
}

// checkParts checks that the parts that a committed checkpoint needs, and that were here, are here.
func (s *Store) checkParts(m *stored) error {
	for _, part := range m.Held {
		ref, _ := m.Manifest.Part(part)
		p := s.parts[increment{m.Manifest.Number, part}]
		bad := func(n uint64) error {
			return &DamageError{Dir: s.dir, Offset: -1, Number: n, Part: part, Region: -1, Chunk: -1,
				Detail: fmt.Sprintf("the part is not the one that checkpoint %d needs", m.Manifest.Number)}
		}
		if p == nil || p.Root != ref.Root {
			return bad(m.Manifest.Number)
		}
		for _, l := range p.Chain {
			if q := s.parts[increment{l.Number, part}]; q == nil || q.Root != l.Root {
				return bad(l.Number)
			}
		}
	}
	return nil
}

// findLitter looks for chunks of parts that were not finished. It jumps from increment to increment.
func (s *Store) findLitter() (err error) {
	defer guard(&err, s.dir)()
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	it := txn.NewIterator(keysOnly([]byte{keyChunk}))
	defer it.Close()
	for it.Rewind(); it.Valid(); {
		i, ok := parseIncrement(it.Item().Key())
		if !ok {
			return damaged(s.dir, "", "a chunk has a key of %d bytes", len(it.Item().Key()))
		}
		if s.parts[i] == nil {
			s.litter[i] = true
		}
		s.usedNumber(i.number)
		n, ok := i.next()
		if !ok {
			break
		}
		it.Seek(n.key(keyChunk))
	}
	return nil
}
