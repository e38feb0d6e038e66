package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
)

const (
	defaultKeep = 3
	// compactFloor is how much may be dead in the database before it is worth a compaction, in memtables.
	compactFloor = 4
)

// retention says which checkpoints are kept: the last few, and the first at or after each multiple of every.
type retention struct{ last, every int }

// keeps reports for each of the manifests, ascending, whether it is kept.
func (r retention) keeps(all []*stored) []bool {
	keep := make([]bool, len(all))
	for i, m := range all {
		keep[i] = i >= len(all)-r.last
		if every := uint64(r.every); every > 0 && m.Manifest.Number/every != m.Manifest.Parent/every {
			keep[i] = true
		}
	}
	return keep
}

// Commit makes a checkpoint of finished parts: from its return on it exists, whatever happens. Of the parts that the
// manifest names, those that are here must have the root that it gives; a store that holds none of them keeps the
// manifest alone. Then checkpoints that need not be kept are removed.
//
// When it fails, the checkpoint may exist all the same, as after a crash; the same manifest may be committed again.
func (s *Store) Commit(m *Manifest) error {
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()
	s.tidy.Lock()
	defer s.tidy.Unlock()
	known, err := s.mayCommit(m)
	if err != nil {
		return err
	}
	if known {
		return s.writeHead() // which may be what failed before
	}
	if err := s.commit(m); err != nil {
		return err
	}
	// The checkpoint is there; what fails from here on is tried again at the next.
	if err := s.prune(s.keep); err != nil {
		s.log.Warn("old checkpoints were not removed", "dir", s.dir, "error", err)
	}
	return nil
}

// mayCommit checks a manifest against what is here; known says that it was committed before.
func (s *Store) mayCommit(m *Manifest) (known bool, err error) {
	if err := m.Check(); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(); err != nil {
		return false, err
	}
	if i, ok := s.index(m.Number); ok {
		if slices.EqualFunc(s.manifests[i].Manifest.Parts, m.Parts, func(a, b PartRef) bool { return a.Part == b.Part && a.Root == b.Root }) {
			return true, nil
		}
		return false, fmt.Errorf("checkpoint %d was committed with other parts in %s", m.Number, s.dir)
	}
	if newest := s.head.newest(); m.Number <= newest {
		return false, fmt.Errorf("checkpoint %d in %s: %w, since %d was committed", m.Number, s.dir, ErrUsed, newest)
	}
	for _, ref := range m.Parts {
		p := s.parts[increment{m.Number, ref.Part}]
		if p != nil && p.Root != ref.Root {
			return false, fmt.Errorf("checkpoint %d, part %d: what is in %s has root %s, the manifest %s", m.Number, ref.Part, s.dir, p.Root, ref.Root)
		}
		if p != nil && p.base() != ref.Base {
			return false, fmt.Errorf("checkpoint %d, part %d: what is in %s has base %d, the manifest %d", m.Number, ref.Part, s.dir, p.base(), ref.Base)
		}
	}
	return false, nil
}

// commit writes the manifest, then the head.
func (s *Store) commit(m *Manifest) error {
	if err := s.room(s.reserve / 4); err != nil {
		return err
	}
	c := &stored{Manifest: m.clone()}
	s.mu.Lock()
	for _, ref := range m.Parts {
		if s.parts[increment{m.Number, ref.Part}] != nil {
			c.Held = append(c.Held, ref.Part)
		}
	}
	s.mu.Unlock()
	value, err := encodeRecord(c)
	if err != nil {
		return fmt.Errorf("checkpoint %d: %w", m.Number, err)
	}
	if err := s.setRecord(m.Number, manifestKey(m.Number), value); err != nil {
		return err
	}
	sum := sha256.Sum256(value)
	s.mu.Lock()
	s.manifests = append(s.manifests, c)
	s.head.Commits = append(s.head.Commits, commit{m.Number, hex.EncodeToString(sum[:])})
	s.usedNumber(m.Number)
	s.mu.Unlock()
	return s.writeHead()
}

func (s *Store) writeHead() error {
	s.mu.Lock()
	h := head{Next: s.head.Next, Commits: slices.Clone(s.head.Commits)}
	s.mu.Unlock()
	return s.disk.writeSealed(s.dir, headName, h)
}

func (m *Manifest) clone() *Manifest {
	c := *m
	c.Chain = slices.Clone(m.Chain)
	c.Parts = slices.Clone(m.Parts)
	c.Meta = slices.Clone(m.Meta)
	return &c
}

func (s *Store) index(number uint64) (int, bool) {
	return slices.BinarySearchFunc(s.manifests, number, func(m *stored, n uint64) int {
		switch {
		case m.Manifest.Number < n:
			return -1
		case m.Manifest.Number > n:
			return 1
		}
		return 0
	})
}

// Manifests returns the committed checkpoints that are kept, oldest first. They must not be changed.
func (s *Store) Manifests() []*Manifest {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Manifest, len(s.manifests))
	for i, m := range s.manifests {
		all[i] = m.Manifest
	}
	return all
}

// Manifest returns a committed checkpoint; an error is ErrUnknown.
func (s *Store) Manifest(number uint64) (*Manifest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.index(number); ok {
		return s.manifests[i].Manifest, nil
	}
	return nil, fmt.Errorf("checkpoint %d: %w in %s", number, ErrUnknown, s.dir)
}

// Latest returns the newest committed checkpoint, or nil if there is none.
func (s *Store) Latest() *Manifest {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.manifests); n > 0 {
		return s.manifests[n-1].Manifest
	}
	return nil
}

// Part returns a finished part that is here, committed or not; an error is ErrUnknown. It must not be changed.
func (s *Store) Part(number uint64, part int) (*Part, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.parts[increment{number, part}]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("checkpoint %d, part %d: %w in %s", number, part, ErrUnknown, s.dir)
}

// Prune removes all checkpoints but the last few, and the first at or after each multiple of every (0: no more), and
// compacts what is left. It returns the numbers of those it removed. Increments that are being read stay until later.
func (s *Store) Prune(last, every int) ([]uint64, error) {
	if last < 1 || every < 0 {
		return nil, errors.New("at least one checkpoint is kept")
	}
	done, err := s.use()
	if err != nil {
		return nil, err
	}
	defer done()
	s.tidy.Lock()
	defer s.tidy.Unlock()
	s.mu.Lock()
	err = s.writable()
	before := slices.Clone(s.manifests)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	err = s.prune(retention{last, every})
	var gone []uint64
	for _, m := range before {
		if _, e := s.Manifest(m.Manifest.Number); e != nil {
			gone = append(gone, m.Manifest.Number)
		}
	}
	if err == nil {
		err = s.compact(0)
	}
	return gone, err
}

// prune removes manifests that need not be kept, then the increments that no manifest needs. The head comes first:
// what it does not name is never looked for.
func (s *Store) prune(r retention) error {
	s.forgetManifests(r)
	if len(s.dropped) > 0 {
		if err := s.writeHead(); err != nil {
			return err
		}
	}
	s.forgetParts()
	if err := s.clearLitter(); err != nil {
		return err
	}
	if err := s.compact(compactFloor * s.memtable); err != nil {
		return err
	}
	return s.sumTables()
}

// forgetManifests drops those that are not kept.
func (s *Store) forgetManifests(r retention) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := r.keeps(s.manifests)
	gone := make(map[uint64]bool)
	var kept []*stored
	for i, m := range s.manifests {
		if keep[i] {
			kept = append(kept, m)
			continue
		}
		gone[m.Manifest.Number] = true
		s.dropped = append(s.dropped, m.Manifest.Number)
	}
	s.manifests = kept
	s.head.Commits = slices.DeleteFunc(s.head.Commits, func(c commit) bool { return gone[c.Number] })
}

// forgetParts makes litter of the finished increments that no kept checkpoint needs, that nobody reads, and that no
// checkpoint still to be committed can need; and of numbers that need not be known as used any more, since all up to
// the newest committed one are refused.
func (s *Store) forgetParts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	needed := s.needed()
	newest := s.head.newest()
	for i := range s.parts {
		if !needed[i] && i.number < newest && s.held[i] == 0 {
			delete(s.parts, i)
			s.litter[i] = true
		}
	}
	for i := range s.used {
		if i.number <= newest && s.parts[i] == nil && s.open[i] == nil {
			s.litter[i] = true
		}
	}
}

// needed returns the increments that a kept checkpoint, a finished part after the newest, or a writer needs.
func (s *Store) needed() map[increment]bool {
	needed := make(map[increment]bool)
	need := func(id increment, chain []Link) {
		needed[id] = true
		for _, l := range chain {
			needed[increment{l.Number, id.part}] = true
		}
	}
	for _, m := range s.manifests {
		for _, part := range m.Held {
			id := increment{m.Manifest.Number, part}
			need(id, s.parts[id].Chain)
		}
	}
	newest := s.head.newest()
	for id, p := range s.parts {
		if id.number > newest {
			need(id, p.Chain)
		}
	}
	for id, w := range s.open {
		need(id, w.links)
	}
	return needed
}

func (i increment) compare(j increment) int {
	switch {
	case i.number < j.number:
		return -1
	case i.number > j.number:
		return 1
	}
	return i.part - j.part
}

// clearLitter removes the records of manifests that are gone, and of parts that were given up, pruned, or not finished
// before a crash. Chunks without the record of their part are dead; they are removed by the next compaction.
func (s *Store) clearLitter() error {
	var prefixes [][]byte
	for _, n := range s.dropped {
		prefixes = append(prefixes, manifestKey(n))
	}
	s.mu.Lock()
	newest := s.head.newest()
	litter := slices.SortedFunc(maps.Keys(s.litter), increment.compare)
	s.mu.Unlock()
	for _, i := range litter {
		prefixes = append(prefixes, i.key(keyPart))
		if i.number <= newest {
			prefixes = append(prefixes, i.key(keyUsed))
		}
	}
	if err := s.remove(prefixes...); err != nil {
		return err
	}
	s.dropped = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range litter {
		delete(s.litter, i)
		s.dead[i] = true
		if i.number <= newest {
			delete(s.used, i)
		}
	}
	return nil
}
