package checkpoint

import (
	"fmt"
	"slices"
	"strings"
)

// Stats are sizes in bytes.
type Stats struct {
	// Checkpoints and Increments count what is kept.
	Checkpoints, Increments int
	// Live is what the chunks of the kept increments take, Tables what the tables of the database take on the disk,
	// removed data that was not compacted yet included, Memtable what its logs may take besides.
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

// compact rewrites the tables when what is dead in them is as much as what lives, and more than floor. Every byte
// written is so rewritten about once, and the disk holds about twice what lives. The tables that it makes are there
// beside the old ones for a while: without room for that it waits for better times.
func (s *Store) compact(floor int64) error {
	s.mu.Lock()
	live := s.live()
	s.mu.Unlock()
	size, count := s.tables()
	// What the last compaction could not remove it would not remove now.
	if floor > 0 && (size-live < max(floor, live) || size-s.compacted < floor) {
		return nil
	}
	if count == 0 {
		return nil
	}
	if err := s.room(s.reserve/4 + min(live+s.memtable, size)); err != nil {
		return fmt.Errorf("compaction: %w", err)
	}
	if n := spareDescriptors(s.dir, count+spareFiles); n < count+spareFiles {
		return fmt.Errorf("compaction: %w", &FullError{Dir: s.dir, What: "descriptors", Need: uint64(count + spareFiles), Free: uint64(n)})
	}
	if err := s.db.Flatten(1); err != nil {
		return s.fail(err)
	}
	s.compacted, _ = s.tables()
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
