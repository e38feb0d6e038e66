package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/simnode/simnode/checkpoint"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
)

// recordedRegion is the pseudo-region of a part that holds the state of the recording, and recordedKind the kind of
// its chunks.
const (
	recordedRegion = 1<<16 - 1
	recordedKind   = 9
)

// keeper keeps the checkpoints of one job on this node: the own part of each, and the copies of others' parts,
// in the folder DIR/checkpoints/JOB: store is the database, mirror the recorded files of another node.
type keeper struct {
	dir  string
	job  string
	log  *slog.Logger
	send func(ctx context.Context, to string, payload []byte) error

	// fresh says that what is in the folder is of no use: it is removed before the store is opened.
	fresh  bool
	closed bool

	opening sync.Mutex
	options checkpoint.Options
	store   *checkpoint.Store

	mu     sync.Mutex
	epoch  uint64
	copies map[copyID]*incoming // being received
	sent   map[copyID]*copier   // being sent
	// mirrored is how much of each recorded file the partner has, in this epoch.
	mirrored map[string]int64
	partner  string
	group    sync.WaitGroup
	// committing is held by who commits, one after the other.
	committing sync.Mutex
}

// incoming is a copy that is being received: its messages are taken in one after the other by a goroutine.
type incoming struct {
	from     string
	messages chan copyMessage
}

func newKeeper(dir, job string, o checkpoint.Options, log *slog.Logger, send func(context.Context, string, []byte) error) *keeper {
	o.Dir = filepath.Join(dir, "store")
	return &keeper{
		dir: dir, job: job, log: log, send: send, options: o, copies: map[copyID]*incoming{}, sent: map[copyID]*copier{}, mirrored: map[string]int64{},
	}
}

// open opens the store, the first time it is needed.
func (k *keeper) open() (*checkpoint.Store, error) {
	k.opening.Lock()
	defer k.opening.Unlock()
	switch {
	case k.store != nil:
		return k.store, nil
	case k.closed:
		return nil, checkpoint.ErrClosed
	}
	if k.fresh {
		if err := os.RemoveAll(k.options.Dir); err != nil {
			return nil, err
		}
		k.fresh = false
	}
	s, err := checkpoint.Open(k.options)
	if err != nil {
		return nil, err
	}
	k.store = s
	return s, nil
}

// close ends what is under way and closes the store.
func (k *keeper) close() error {
	k.begin(0)
	k.group.Wait()
	k.opening.Lock()
	defer k.opening.Unlock()
	k.closed = true
	if k.store == nil {
		return nil
	}
	s := k.store
	k.store = nil
	return s.Close()
}

// begin gives up what is under way of earlier epochs and takes no more of it.
func (k *keeper) begin(epoch uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if epoch == k.epoch {
		return
	}
	k.epoch = epoch
	for id, in := range k.copies {
		close(in.messages)
		delete(k.copies, id)
	}
	for id, c := range k.sent {
		c.answer(copyReply{Error: "another epoch has begun"})
		delete(k.sent, id)
	}
	k.mirrored, k.partner = map[string]int64{}, ""
}

type regionChunks = node.RegionChunks

// recorded is the state of the recording at a checkpoint.
type recorded struct {
	dir   string // of its files
	state []byte
	files []record.FileState
}

// save writes the own part of a checkpoint, which builds on those of chain, and its copy, if there is a partner. It
// returns when both are durable.
func (k *keeper) save(ctx context.Context, c *node.Capture, epoch uint64, part int, partner string, chain []uint64, rec *recorded) (*checkpoint.Part, error) {
	store, err := k.open()
	if err != nil {
		return nil, err
	}
	const estimate = 16 << 20 // what is needed at least; a full disk is noticed while writing too
	w, err := store.Write(c.Number(), part, chain, estimate)
	if err != nil {
		return nil, err
	}
	id := copyID{epoch, c.Number(), part}
	var out *copier
	if partner != "" {
		if out, err = k.beginCopy(ctx, id, partner, copyStart{chain, estimate}); err != nil {
			return nil, errors.Join(err, abort(w))
		}
		defer k.endCopy(id)
	}
	p, err := k.write(ctx, c, w, out, rec)
	if err != nil {
		w.Abort()
		return nil, err
	}
	return p, nil
}

func abort(w *checkpoint.Writer) error {
	w.Abort()
	return nil
}

func (k *keeper) beginCopy(ctx context.Context, id copyID, partner string, start copyStart) (*copier, error) {
	c := newCopier(id, partner, k.send)
	k.mu.Lock()
	if id.epoch != k.epoch {
		k.mu.Unlock()
		return nil, fmt.Errorf("epoch %d is over", id.epoch)
	}
	k.sent[id] = c
	if k.partner != partner {
		k.partner, k.mirrored = partner, map[string]int64{}
	}
	k.mu.Unlock()
	return c, c.postJSON(ctx, copyBegin, start)
}

func (k *keeper) endCopy(id copyID) {
	k.mu.Lock()
	delete(k.sent, id)
	k.mu.Unlock()
}

// write writes a part into the store and to the copy.
func (k *keeper) write(ctx context.Context, c *node.Capture, w *checkpoint.Writer, out *copier, rec *recorded) (*checkpoint.Part, error) {
	put := func(region int, kind byte, data []byte) error {
		if err := w.Put(region, kind, data); err != nil || out == nil {
			return err
		}
		return out.put(ctx, region, kind, data)
	}
	regions, err := c.Write(func(region int, kind byte, data []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return put(region, kind, data)
	})
	if err != nil {
		return nil, err
	}
	var list []checkpoint.RegionPart
	for _, r := range regions {
		list = append(list, checkpoint.RegionPart{Region: r.Region, Base: r.Base, Entities: r.Entities, Events: r.Events, Digest: r.Digest})
	}
	if rec != nil {
		for at := 0; at == 0 || at < len(rec.state); at += copyPieceSize {
			if err := put(recordedRegion, recordedKind, rec.state[at:min(at+copyPieceSize, len(rec.state))]); err != nil {
				return nil, err
			}
		}
		list = append(list, checkpoint.RegionPart{Region: recordedRegion, Base: c.Number()})
	}
	for _, r := range list {
		if err := w.Describe(r); err != nil {
			return nil, err
		}
	}
	part, err := w.Close()
	if err != nil || out == nil {
		return part, err
	}
	if err := k.mirror(ctx, out, rec); err != nil {
		return nil, err
	}
	if err := out.end(ctx, copySum{list, part.Root}); err != nil {
		return nil, err
	}
	k.mirroredUpTo(rec)
	return part, nil
}

// mirror sends what was recorded since the last checkpoint.
func (k *keeper) mirror(ctx context.Context, out *copier, rec *recorded) error {
	if rec == nil {
		return nil
	}
	for _, f := range rec.files {
		k.mu.Lock()
		from := k.mirrored[f.Name]
		k.mu.Unlock()
		if err := out.file(ctx, rec.dir, f.Name, min(from, f.Length), f.Length); err != nil {
			return err
		}
	}
	return nil
}

func (k *keeper) mirroredUpTo(rec *recorded) {
	if rec == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range rec.files {
		k.mirrored[f.Name] = f.Length
	}
}

// hear takes in a message of a copy. It does not wait.
func (k *keeper) hear(from string, data []byte) error {
	m, err := parseCopy(data)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.op == copyAnswer {
		var r copyReply
		if err := json.Unmarshal(m.rest, &r); err != nil {
			return fmt.Errorf("an answer to a copy that cannot be read: %w", err)
		}
		if c := k.sent[m.copyID]; c != nil && c.to == from {
			c.answer(r)
		}
		return nil
	}
	if m.epoch != k.epoch {
		return fmt.Errorf("a copy of epoch %d, this is epoch %d", m.epoch, k.epoch)
	}
	in := k.copies[m.copyID]
	if m.op == copyBegin && in == nil {
		in = &incoming{from: from, messages: make(chan copyMessage, 2*copyWindow)}
		k.copies[m.copyID] = in
		k.group.Go(func() { k.receive(in) })
	}
	if in == nil || in.from != from {
		return fmt.Errorf("a message of a copy of checkpoint %d that was not begun", m.number)
	}
	m.rest = append([]byte(nil), m.rest...)
	select {
	case in.messages <- m:
		return nil
	default:
		return fmt.Errorf("the copy of checkpoint %d sends faster than it is answered", m.number)
	}
}

// receive takes in a copy.
func (k *keeper) receive(in *incoming) {
	r := &receiver{k: k}
	defer r.abort()
	for m := range in.messages {
		err := r.take(&m)
		reply := copyReply{}
		if err != nil {
			reply.Error = err.Error()
			k.log.Warn("a copy of a checkpoint is given up", "job", k.job, "checkpoint", m.number, "from", in.from, "error", err)
		}
		data, _ := json.Marshal(reply) // a struct of one string
		if err := k.send(context.Background(), in.from, append(m.head(copyAnswer, m.serial), data...)); err != nil {
			k.log.Debug("an answer to a copy was not sent", "to", in.from, "error", err)
		}
		if err != nil || m.op == copyEnd {
			k.forget(m.copyID, in)
			return
		}
	}
}

func (k *keeper) forget(id copyID, in *incoming) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.copies[id] == in {
		delete(k.copies, id)
	}
}

// receiver stores a copy.
type receiver struct {
	k     *keeper
	w     *checkpoint.Writer
	files map[string]*os.File
}

func (r *receiver) take(m *copyMessage) error {
	if m.op == copyBegin {
		return r.begin(m)
	}
	if r.w == nil {
		return errors.New("a copy without its beginning")
	}
	switch m.op {
	case copyChunks:
		return eachChunk(m.rest, r.w.Put)
	case copyFile:
		return r.file(m.rest)
	}
	return r.end(m.rest)
}

func (r *receiver) begin(m *copyMessage) error {
	var start copyStart
	if err := json.Unmarshal(m.rest, &start); err != nil {
		return err
	}
	store, err := r.k.open()
	if err != nil {
		return err
	}
	r.w, err = store.Write(m.number, m.part, start.Chain, start.Estimate)
	return err
}

// file adds bytes to the mirror of a recorded file.
func (r *receiver) file(rest []byte) error {
	if len(rest) < 4 || uint64(binary.LittleEndian.Uint32(rest)) > uint64(len(rest)-4) {
		return errors.New("a piece of a recorded file is cut short")
	}
	n := binary.LittleEndian.Uint32(rest)
	var p copyPiece
	if err := json.Unmarshal(rest[4:4+n], &p); err != nil {
		return err
	}
	if p.Name == "" || p.Name != filepath.Base(p.Name) || strings.HasPrefix(p.Name, ".") || p.Offset < 0 {
		return fmt.Errorf("a piece of a recorded file called %q at %d", p.Name, p.Offset)
	}
	f := r.files[p.Name]
	if f == nil {
		if err := os.MkdirAll(r.k.mirrorDir(), 0o700); err != nil {
			return err
		}
		var err error
		if f, err = os.OpenFile(filepath.Join(r.k.mirrorDir(), p.Name), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return err
		}
		if r.files == nil {
			r.files = map[string]*os.File{}
		}
		r.files[p.Name] = f
		if err := f.Truncate(p.Offset); err != nil {
			return err
		}
	}
	_, err := f.WriteAt(rest[4+n:], p.Offset)
	return err
}

func (k *keeper) mirrorDir() string { return filepath.Join(k.dir, "mirror") }

// end makes the copy durable.
func (r *receiver) end(rest []byte) error {
	var sum copySum
	if err := json.Unmarshal(rest, &sum); err != nil {
		return err
	}
	for _, d := range sum.Regions {
		if err := r.w.Describe(d); err != nil {
			return err
		}
	}
	w := r.w
	r.w = nil
	part, err := w.Close()
	if err != nil {
		w.Abort()
		return err
	}
	if part.Root != sum.Root {
		return fmt.Errorf("what arrived has root %s, what was sent %s", part.Root, sum.Root)
	}
	return r.closeFiles(true)
}

func (r *receiver) closeFiles(sync bool) error {
	var errs []error
	for _, f := range r.files {
		if sync {
			errs = append(errs, f.Sync())
		}
		errs = append(errs, f.Close())
	}
	r.files = nil
	return errors.Join(errs...)
}

// abort gives up what is not complete.
func (r *receiver) abort() {
	if r.w != nil {
		r.w.Abort()
	}
	if err := r.closeFiles(false); err != nil {
		r.k.log.Warn("a mirrored file cannot be closed", "error", err)
	}
}

// commit notes that a checkpoint exists.
func (k *keeper) commit(m *checkpoint.Manifest) error {
	k.committing.Lock()
	defer k.committing.Unlock()
	s, err := k.open()
	if err != nil {
		return err
	}
	return s.Commit(m)
}

// part checks that a part of a checkpoint is here, with the root that it should have.
func (k *keeper) part(number uint64, part int, root string) (*checkpoint.Part, error) {
	s, err := k.open()
	if err != nil {
		return nil, err
	}
	p, err := s.Part(number, part)
	if err != nil {
		return nil, err
	}
	if p.Root != root {
		return nil, fmt.Errorf("part %d of checkpoint %d has root %s here, %s was committed: the folder %s is not that of this run", part, number, p.Root, root, k.dir)
	}
	return p, nil
}

// regions returns what reads the regions of a part.
func (k *keeper) regions(p *checkpoint.Part) (list []regionChunks) {
	for _, g := range p.Regions {
		if g.Region == recordedRegion {
			continue
		}
		list = append(list, func(yield func(number uint64, kind byte, data []byte) error) error {
			s, err := k.open()
			if err != nil {
				return err
			}
			return s.Read(p.Number, p.Part, g.Region, yield)
		})
	}
	return list
}

// recording returns the state of the recording in a part, nil if it has none.
func (k *keeper) recording(p *checkpoint.Part) (state []byte, err error) {
	if _, ok := p.Region(recordedRegion); !ok {
		return nil, nil
	}
	s, err := k.open()
	if err != nil {
		return nil, err
	}
	state = []byte{}
	err = s.Read(p.Number, p.Part, recordedRegion, func(_ uint64, _ byte, data []byte) error {
		state = append(state, data...)
		return nil
	})
	return state, err
}

// files sees to it that the recorded files of a job are in the folder own: as the mirror of who recorded it last,
// which becomes its own, or since this node did. There is no mirror on a node that records.
func (k *keeper) files(own string, names []record.FileState) error {
	if !has(k.mirrorDir(), names) {
		if has(own, names) {
			return nil
		}
		return fmt.Errorf("the recorded files of %s are neither in %s nor in %s", k.job, own, k.mirrorDir())
	}
	if err := os.RemoveAll(own); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
		return err
	}
	return os.Rename(k.mirrorDir(), own)
}

// has reports whether a folder has files of at least the given lengths.
func has(dir string, names []record.FileState) bool {
	for _, f := range names {
		info, err := os.Stat(filepath.Join(dir, f.Name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) || err != nil || info.Size() < f.Length {
			return false
		}
	}
	return true
}
