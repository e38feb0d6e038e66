package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/badger/v4"
)

const (
	// MaxChunk is the most that a chunk holds, in bytes.
	MaxChunk = 64 << 20
	// ChunkSize is how large a chunk should be made, in bytes, where the caller has the choice. Smaller ones cost
	// more time per byte, larger ones write more that did not change.
	ChunkSize = 16 << 10
	// chunkHeader stands before a chunk: kind, hash, length.
	chunkHeader = 1 + 8 + 4
	// maxNumber is the largest number of a checkpoint; what is removed has the version after it.
	maxNumber = 1<<63 - 1
	// watchEvery is how many bytes are written between two looks at the free space.
	watchEvery = 512 << 10
)

// Writer writes one part of a checkpoint. One goroutine at a time uses it; it ends with Close or Abort.
type Writer struct {
	s       *Store
	id      increment
	batch   *badger.WriteBatch
	links   []Link
	regions map[int]*regionWriter
	unseen  int // bytes since the last look at the free space
	err     error
	done    bool
}

type regionWriter struct {
	RegionPart
	root      hash.Hash
	described bool
}

// Write begins a part of a checkpoint. chain are the numbers of the checkpoints it builds on, ascending; it is empty
// for the first of a lineage, which writes everything. Their parts with the same number must be here. estimate is how
// many bytes will be put: a *FullError says that the disk has no room for them.
//
// A number and part may be written once, also if it is aborted, and not after a newer checkpoint was committed.
func (s *Store) Write(number uint64, part int, chain []uint64, estimate int64) (*Writer, error) {
	done, err := s.use()
	if err != nil {
		return nil, err
	}
	defer done()
	links, err := s.links(number, part, chain)
	if err != nil {
		return nil, err
	}
	return s.write(increment{number, part}, links, estimate)
}

// links finds the parts that a new one builds on.
func (s *Store) links(number uint64, part int, chain []uint64) ([]Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	links := make([]Link, 0, len(chain))
	for i, n := range chain {
		if n >= number || i > 0 && n <= chain[i-1] {
			return nil, fmt.Errorf("checkpoint %d: the chain does not ascend to it at %d", number, n)
		}
		p := s.parts[increment{n, part}]
		if p == nil {
			return nil, fmt.Errorf("checkpoint %d, part %d builds on checkpoint %d: %w in %s", number, part, n, ErrUnknown, s.dir)
		}
		links = append(links, Link{n, p.Root})
	}
	return links, nil
}

func (s *Store) write(id increment, links []Link, estimate int64) (*Writer, error) {
	if id.number == 0 || id.number > maxNumber || id.part < 0 || id.part > maxIndex || estimate < 0 {
		return nil, fmt.Errorf("checkpoint %d, part %d: numbers are from 1, parts from 0 to %d, and estimates not negative", id.number, id.part, maxIndex)
	}
	s.mu.Lock()
	err := s.writable()
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s.gate.RLock() // until the writer ends
	w, err := s.beginPart(id, links, estimate)
	if err != nil {
		s.gate.RUnlock()
	}
	return w, err
}

func (s *Store) beginPart(id increment, links []Link, estimate int64) (*Writer, error) {
	// The logs of the database take space beside its tables until these are written.
	if err := s.room(s.reserve + estimate + min(estimate, 3*s.memtable)); err != nil {
		s.makeRoom(err)
		return nil, err
	}
	s.layBallast()
	w := &Writer{s: s, id: id, links: links, regions: make(map[int]*regionWriter)}
	if err := s.reserveNumber(w); err != nil {
		return nil, err
	}
	return w, nil
}

// makeRoom gives the ballast to the database when the disk is filling up.
func (s *Store) makeRoom(err error) {
	if full := (*FullError)(nil); errors.As(err, &full) && full.What == "bytes" && full.Free < uint64(s.reserve/2) {
		s.dropBallast()
	}
}

// reserveNumber makes durable that the number was used.
func (s *Store) reserveNumber(w *Writer) error {
	s.mu.Lock()
	newest := s.head.newest()
	err := s.writable()
	if err == nil && (s.used[w.id] || s.parts[w.id] != nil || s.dead[w.id] || w.id.number <= newest) {
		err = fmt.Errorf("checkpoint %d, part %d in %s: %w (the next is %d)", w.id.number, w.id.part, s.dir, ErrUsed, s.head.Next)
	}
	if err != nil {
		s.mu.Unlock()
		return err
	}
	s.used[w.id] = true
	s.open[w.id] = w
	s.usedNumber(w.id.number)
	w.batch = s.db.NewWriteBatchAt(w.id.number)
	w.batch.SetMaxPendingTxns(2)
	s.mu.Unlock()
	err = s.set(w.id.number, w.id.key(keyUsed), nil)
	if err != nil {
		w.end(nil)
	}
	return err
}

// Put adds a chunk to a region. The data is copied.
func (w *Writer) Put(region int, kind byte, data []byte) error {
	if w.done {
		return errors.New("the checkpoint's writer was closed")
	}
	if w.err != nil {
		return w.err
	}
	if region < 0 || region > maxIndex {
		return fmt.Errorf("checkpoint %d: region %d is not from 0 to %d", w.id.number, region, maxIndex)
	}
	if len(data) > MaxChunk {
		return fmt.Errorf("checkpoint %d: a chunk of region %d has %d bytes; at most %d are possible", w.id.number, region, len(data), MaxChunk)
	}
	done, err := w.s.use()
	if err != nil {
		return err
	}
	defer done()
	if w.err = w.put(w.region(region), kind, data); w.err != nil {
		w.batch.Cancel() // what is on its way ends here
	}
	return w.err
}

func (w *Writer) region(region int) *regionWriter {
	g := w.regions[region]
	if g == nil {
		g = &regionWriter{RegionPart: RegionPart{Region: region}, root: sha256.New()}
		w.regions[region] = g
	}
	return g
}

func (w *Writer) put(g *regionWriter, kind byte, data []byte) error {
	if w.unseen += len(data) + chunkHeader; w.unseen >= watchEvery {
		w.unseen = 0
		if err := w.s.room(w.s.reserve / 2); err != nil {
			w.s.makeRoom(err)
			return err
		}
	}
	key := w.id.chunkKey(g.Region, uint32(g.Chunks))
	head := header(key, kind, data)
	g.root.Write(head[:])
	g.Chunks++
	g.Bytes += uint64(len(data))
	for piece := 0; piece == 0 || len(data) > 0; piece++ {
		n := min(len(data), maxPiece)
		value := make([]byte, 0, n+chunkHeader)
		if piece == 0 {
			value = append(value, head[:]...)
		}
		value = append(value, data[:n]...)
		data = data[n:]
		k := binary.BigEndian.AppendUint16(slices.Clone(key), uint16(piece))
		if err := w.batch.Set(k, value); err != nil {
			return w.s.fail(err)
		}
	}
	return nil
}

// header returns what stands before a chunk. The hash covers its place too.
func header(key []byte, kind byte, data []byte) (h [chunkHeader]byte) {
	h[0] = kind
	binary.BigEndian.PutUint32(h[9:], uint32(len(data)))
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(key)
	_, _ = d.Write([]byte{kind})
	_, _ = d.Write(h[9:])
	_, _ = d.Write(data)
	binary.BigEndian.PutUint64(h[1:], d.Sum64())
	return h
}

// Describe says of a region what the store cannot know: Base, Entities, Events and Digest; the counts and the root are
// not looked at. Every region of the part is described, also one of which nothing changed: the others are not in it.
func (w *Writer) Describe(d RegionPart) error {
	if d.Region < 0 || d.Region > maxIndex {
		return fmt.Errorf("checkpoint %d: region %d is not from 0 to %d", w.id.number, d.Region, maxIndex)
	}
	if d.Base != w.id.number && !slices.ContainsFunc(w.links, func(l Link) bool { return l.Number == d.Base }) {
		return fmt.Errorf("checkpoint %d: region %d is based on %d, which is not in the chain", w.id.number, d.Region, d.Base)
	}
	g := w.region(d.Region)
	g.described = true
	g.Base, g.Entities, g.Events, g.Digest = d.Base, d.Entities, d.Events, d.Digest
	return nil
}

// Close makes the part durable and returns it. After an error there is no such part.
func (w *Writer) Close() (*Part, error) {
	if w.done {
		return nil, errors.New("the checkpoint's writer was closed")
	}
	done, err := w.s.use()
	if err != nil {
		return nil, err
	}
	defer done()
	p, err := w.finish()
	if err != nil {
		p = nil
	}
	w.end(p)
	w.s.gate.RUnlock()
	return p, err
}

func (w *Writer) finish() (*Part, error) {
	if w.err != nil {
		return nil, w.err
	}
	p, err := w.part()
	if err != nil {
		return nil, err
	}
	// What is flushed and written now still has the reserve to itself.
	if err := w.s.room(w.s.reserve / 4); err != nil {
		w.s.makeRoom(err)
		return nil, err
	}
	if err := w.batch.Flush(); err != nil {
		return nil, w.s.fail(err)
	}
	value, err := encodeRecord(p)
	if err != nil {
		return nil, err
	}
	return p, w.s.setRecord(w.id.number, w.id.key(keyPart), value)
}

// part puts together what is known of the part.
func (w *Writer) part() (*Part, error) {
	p := &Part{Number: w.id.number, Part: w.id.part}
	for region, g := range w.regions {
		if !g.described {
			return nil, fmt.Errorf("checkpoint %d: region %d has chunks and was not described", w.id.number, region)
		}
		g.Root = hex.EncodeToString(g.root.Sum(nil))
		p.Regions = append(p.Regions, g.RegionPart)
	}
	slices.SortFunc(p.Regions, func(a, b RegionPart) int { return a.Region - b.Region })
	base := p.base()
	for _, l := range w.links {
		if l.Number >= base {
			p.Chain = append(p.Chain, l)
		}
	}
	p.Root = p.root()
	return p, p.check()
}

// Abort gives the part up. Nothing of it is ever seen, and its number is not used again.
func (w *Writer) Abort() {
	if w.done {
		return
	}
	done, err := w.s.use()
	if err != nil {
		return // Close of the store did it
	}
	defer done()
	w.end(nil)
	w.s.gate.RUnlock()
}

// end takes the writer from the list; without a part, what it wrote is removed at the next occasion.
func (w *Writer) end(p *Part) {
	w.done = true
	w.batch.Cancel()
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, w.id)
	if p == nil {
		s.litter[w.id] = true
		return
	}
	s.parts[w.id] = p
	s.written += p.bytes()
}
