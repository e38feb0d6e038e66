package checkpoint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Stats are sizes in bytes.
type Stats struct {
	// Checkpoints and Increments count what is kept.
	Checkpoints, Increments int
	// Live is what the chunks of the kept increments take, Tables what the tables of the database take on the disk,
	// removed data that was not compacted yet included, Logs what its logs may take besides.
	Live, Tables, Logs int64
	// Written counts the bytes of all chunks put since the store was opened.
	Written uint64
}

// Stats returns sizes.
func (s *Store) Stats() (Stats, error) {
	done, err := s.use()
	if err != nil {
		return Stats{}, err
	}
	defer done()
	s.mu.Lock()
	st := Stats{Checkpoints: len(s.manifests), Increments: len(s.parts), Live: s.live(), Written: s.written}
	s.mu.Unlock()
	if s.db != nil {
		st.Tables, _ = s.tables()
		st.Logs = 3 * s.memtable
	}
	return st, nil
}

// Size returns how many bytes of chunks a kept checkpoint wrote itself, and how many of older increments it shares,
// counting the parts that are here.
func (s *Store) Size(number uint64) (written, shared uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.index(number)
	if !ok {
		return 0, 0, fmt.Errorf("checkpoint %d: %w in %s", number, ErrUnknown, s.dir)
	}
	for _, part := range s.manifests[i].Held {
		p := s.parts[increment{number, part}]
		written += p.bytes()
		for _, l := range p.Chain {
			shared += s.parts[increment{l.Number, part}].bytes()
		}
	}
	return written, shared, nil
}

// live is about what the kept increments take in the database, with s.mu held.
func (s *Store) live() int64 {
	var n int64
	for _, p := range s.parts {
		ref := p.Ref()
		n += int64(ref.Bytes) + int64(ref.Chunks)*(chunkKeyLen+chunkHeader+32) + int64(len(p.Regions))*256
	}
	return n
}

func (s *Store) tables() (bytes int64, count int) {
	all := s.db.Tables()
	for _, t := range all {
		bytes += int64(t.OnDiskSize)
	}
	return bytes, len(all)
}

// compact removes dead chunks from the tables when they take as much as what lives, and more than floor. Tables that
// hold nothing else are removed, others rewritten without them; so every byte is rewritten about once, and the disk
// holds about twice what lives. The new tables are there beside the old ones for a while: without room for that it is
// left for better times, and also while a part is being written, since the database refuses writes meanwhile.
func (s *Store) compact(floor int64) error {
	s.mu.Lock()
	live := s.live()
	dead := slices.SortedFunc(maps.Keys(s.dead), increment.compare)
	s.mu.Unlock()
	if size, _ := s.tables(); len(dead) == 0 || floor > 0 && size-live < max(floor, live) {
		return nil
	}
	if !s.gate.TryLock() {
		return nil
	}
	defer s.gate.Unlock()
	if err := s.roomToCompact(live); err != nil {
		return fmt.Errorf("compaction: %w", err)
	}
	prefixes := make([][]byte, len(dead))
	for i, id := range dead {
		prefixes[i] = id.key(keyChunk)
	}
	if err := s.db.DropPrefix(prefixes...); err != nil {
		return s.fail(err)
	}
	return s.buried(dead)
}

// roomToCompact checks that there is room for all that lives, and for what the database has in memory.
func (s *Store) roomToCompact(live int64) error {
	if err := s.room(s.reserve/4 + live + 3*s.memtable); err != nil {
		return err
	}
	_, count := s.tables()
	if n := spareDescriptors(s.dir, count+spareFiles); n < count+spareFiles {
		return &FullError{Dir: s.dir, What: "descriptors", Need: uint64(count + spareFiles), Free: uint64(n)}
	}
	return nil
}

// buried takes increments from the dead if nothing is left of them: the database does not tell of all its failures.
func (s *Store) buried(ids []increment) error {
	for _, id := range ids {
		left, err := s.keys(id.key(keyChunk), 1)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			s.log.Warn("the checkpoint database did not remove all that it was to", "dir", s.dir, "number", id.number)
			continue
		}
		s.mu.Lock()
		delete(s.dead, id)
		s.mu.Unlock()
	}
	return nil
}

// sumTables adds the tables that are new to the sums, and takes out those that are gone.
func (s *Store) sumTables() error {
	u := sums{Memory: s.sums.Memory}
	known := len(s.sums.Files)
	for _, t := range s.db.Tables() {
		name := fmt.Sprintf("%06d.sst", t.ID)
		if i, ok := s.sums.find(name); ok {
			u.Files = append(u.Files, s.sums.Files[i])
			known--
			continue
		}
		f, err := sumFile(s.dir, name)
		if err != nil {
			return err
		}
		u.Files = append(u.Files, f)
		known++
	}
	slices.SortFunc(u.Files, func(a, b fileSum) int { return strings.Compare(a.Name, b.Name) })
	if known == 0 && len(u.Files) == len(s.sums.Files) {
		return nil
	}
	if err := s.disk.writeSealed(s.dir, sumsName, u); err != nil {
		return err
	}
	s.sums = u
	return nil
}
