package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// Hold keeps a checkpoint's increments, however many checkpoints follow, until release is called. A restore holds what
// it reads.
func (s *Store) Hold(number uint64) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	i, ok := s.index(number)
	if !ok {
		return nil, fmt.Errorf("checkpoint %d: %w in %s", number, ErrUnknown, s.dir)
	}
	var ids []increment
	for _, part := range s.manifests[i].Held {
		ids = append(ids, s.chain(increment{number, part})...)
	}
	return s.hold(ids), nil
}

// chain returns the increments of a part, newest first, with s.mu held.
func (s *Store) chain(id increment) []increment {
	ids := []increment{id}
	for _, l := range slices.Backward(s.parts[id].Chain) {
		ids = append(ids, increment{l.Number, id.part})
	}
	return ids
}

// hold keeps increments from being removed, with s.mu held.
func (s *Store) hold(ids []increment) (release func()) {
	for _, id := range ids {
		s.held[id]++
	}
	released := false
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if released {
			return
		}
		released = true
		for _, id := range ids {
			if s.held[id]--; s.held[id] == 0 {
				delete(s.held, id)
			}
		}
	}
}

// Read calls f with the chunks of a region as a part of checkpoint number has it: increment by increment, the newest
// first, and within one in the order in which they were put. data is f's only until it returns. The part need not be
// committed. An error of f ends it.
//
// Each chunk is checked before f sees it, and each increment for completeness after its last one: a *DamageError says
// that what f saw must not be used.
func (s *Store) Read(number uint64, part, region int, f func(number uint64, kind byte, data []byte) error) error {
	return s.read(increment{number, part}, func(newest, p *Part) error {
		g, ok := newest.Region(region)
		if !ok {
			return fmt.Errorf("checkpoint %d, part %d has no region %d", number, part, region)
		}
		if p.Number < g.Base {
			return nil
		}
		return s.readRegion(p, region, func(kind byte, data []byte) error { return f(p.Number, kind, data) })
	})
}

// ReadIncrement calls f with the chunks that checkpoint number wrote of a part, region by region: what a copy of that
// part consists of.
func (s *Store) ReadIncrement(number uint64, part int, f func(region int, kind byte, data []byte) error) error {
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()
	id := increment{number, part}
	s.mu.Lock()
	p := s.parts[id]
	if p == nil {
		s.mu.Unlock()
		return fmt.Errorf("checkpoint %d, part %d: %w in %s", number, part, ErrUnknown, s.dir)
	}
	// Not what it builds on: an increment is kept for newer ones when older ones that it needed are gone.
	release := s.hold([]increment{id})
	s.mu.Unlock()
	defer release()
	return s.readPart(p, f)
}

func (s *Store) readPart(p *Part, f func(region int, kind byte, data []byte) error) error {
	for _, g := range p.Regions {
		err := s.readRegion(p, g.Region, func(kind byte, data []byte) error { return f(g.Region, kind, data) })
		if err != nil {
			return err
		}
	}
	return nil
}

// read calls f with each increment that a part needs, newest first, and keeps them until it returns.
func (s *Store) read(id increment, f func(newest, p *Part) error) error {
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()
	s.mu.Lock()
	newest := s.parts[id]
	if newest == nil {
		s.mu.Unlock()
		return fmt.Errorf("checkpoint %d, part %d: %w in %s", id.number, id.part, ErrUnknown, s.dir)
	}
	ids := s.chain(id)
	parts := make([]*Part, len(ids))
	for i, id := range ids {
		parts[i] = s.parts[id]
	}
	release := s.hold(ids)
	s.mu.Unlock()
	defer release()
	for i, p := range parts {
		if i > 0 && (p == nil || p.Root != newest.Chain[len(ids)-1-i].Root) {
			return &DamageError{Dir: s.dir, Offset: -1, Number: ids[i].number, Part: id.part, Region: -1, Chunk: -1,
				Detail: fmt.Sprintf("the part is not the one that checkpoint %d needs", id.number)}
		}
		if err := f(newest, p); err != nil {
			return err
		}
	}
	return nil
}

// readRegion calls f with the chunks of one region in one increment.
func (s *Store) readRegion(p *Part, region int, f func(kind byte, data []byte) error) error {
	g, ok := p.Region(region)
	if !ok {
		return nil // nothing of it changed
	}
	r := reader{s: s, part: p, want: g}
	txn := s.db.NewTransactionAt(p.Number, false)
	defer r.discard(txn)
	it, err := r.begin(txn)
	if err != nil {
		return err
	}
	defer it.Close()
	root := sha256.New()
	for i := range g.Chunks {
		if err := r.chunk(it, uint32(i)); err != nil {
			return err
		}
		root.Write(r.data[:chunkHeader])
		if err := f(r.data[0], r.data[chunkHeader:]); err != nil {
			return err
		}
	}
	if hex.EncodeToString(root.Sum(nil)) != g.Root {
		return r.damage(-1, "the chunks are not those that were written")
	}
	return nil
}

// reader puts chunks together from their pieces.
type reader struct {
	s    *Store
	part *Part
	want RegionPart
	data []byte
}

// begin returns an iterator at the first piece of the region.
func (r *reader) begin(txn *badger.Txn) (it *badger.Iterator, err error) {
	defer guard(&err, r.s.dir)()
	it = txn.NewIterator(keysOnly(r.part.increment().regionKey(r.want.Region)))
	it.Rewind()
	return it, nil
}

// discard ends a transaction. It panics over an iterator that could not be begun, for which there is an error already.
func (r *reader) discard(txn *badger.Txn) {
	var err error
	defer guard(&err, r.s.dir)()
	txn.Discard()
}

func (r *reader) damage(chunk int, detail string) error {
	return &DamageError{Dir: r.s.dir, Offset: -1, Number: r.part.Number, Part: r.part.Part, Region: r.want.Region, Chunk: chunk, Detail: detail}
}

// chunk reads the chunk at an index, which is the next of the iterator, and checks its hash.
func (r *reader) chunk(it *badger.Iterator, index uint32) (err error) {
	defer guard(&err, r.s.dir)()
	key := r.part.increment().chunkKey(r.want.Region, index)
	r.data = r.data[:0]
	length := chunkHeader
	for piece := 0; piece == 0 || len(r.data) < length; piece++ {
		if !it.Valid() || string(it.Item().Key()) != string(binary.BigEndian.AppendUint16(key, uint16(piece))) {
			return r.damage(int(index), "it is missing")
		}
		err := it.Item().Value(func(v []byte) error {
			if len(v) > maxPiece+chunkHeader || piece > 0 && len(v) == 0 {
				return errors.New("a piece has an impossible length")
			}
			r.data = append(r.data, v...)
			return nil
		})
		if err != nil {
			return r.damage(int(index), err.Error())
		}
		if piece == 0 {
			if len(r.data) < chunkHeader {
				return r.damage(int(index), "it is too short")
			}
			length += int(binary.BigEndian.Uint32(r.data[9:]))
		}
		it.Next()
	}
	if len(r.data) != length || header(key, r.data[0], r.data[chunkHeader:]) != [chunkHeader]byte(r.data[:chunkHeader]) {
		return r.damage(int(index), "it does not have the hash that stands before it")
	}
	return nil
}

// Verify reads every chunk of every kept checkpoint, and says with a *DamageError what is not as it was written. It
// calls progress, unless that is nil, after each increment.
func (s *Store) Verify(progress func(number uint64, part int)) error {
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()
	s.mu.Lock()
	seen := make(map[increment]bool)
	var ids []increment
	for _, m := range s.manifests {
		for _, part := range m.Held {
			for _, id := range s.chain(increment{m.Manifest.Number, part}) {
				if !seen[id] {
					seen[id] = true
					ids = append(ids, id)
				}
			}
		}
	}
	slices.SortFunc(ids, increment.compare)
	parts := make([]*Part, len(ids))
	for i, id := range ids {
		parts[i] = s.parts[id]
	}
	release := s.hold(ids)
	s.mu.Unlock()
	defer release()
	for _, p := range parts {
		if err := s.readPart(p, func(int, byte, []byte) error { return nil }); err != nil {
			return err
		}
		if progress != nil {
			progress(p.Number, p.Part)
		}
	}
	return nil
}
