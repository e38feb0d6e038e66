package chaos

import (
	"encoding/json"
	"errors"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// saving is a checkpoint that a share writes, with its copy at the partner.
type saving struct {
	key     partKey
	at      sim.Time
	partner int
	capture *node.Capture
	part    *storedPart
	// written says that all chunks are written; logged that it is known what was recorded up to it.
	written, logged bool
	// own and copied say that the part and its copy are durable; told that the agent knows.
	own, copied, told bool
	over              bool
}

// Checkpoint implements control.Executor.
func (e *executor) Checkpoint(n uint64, at sim.Time, partner int) {
	s := e.current("take a checkpoint")
	if s.part == nil {
		return
	}
	s.truth.beginSave(s, n, at)
	capture, err := s.part.Checkpoint(n, at)
	if err != nil {
		e.w.fail("%s cannot begin checkpoint %d: %v", e.p.boot, n, err)
		return
	}
	key := partKey{s.job.ID, n, s.me}
	v := &saving{key: key, at: at, partner: partner, capture: capture, part: e.p.platter.begin(key), logged: s.recorder == nil, copied: partner < 0}
	s.open = v
	if s.recorder != nil {
		s.write(func() error { return s.recorder.save(v) })
	}
	s.writeChunk(v)
	e.w.snipe()
}

// writeChunk writes a piece of a checkpoint in its time.
func (s *share) writeChunk(v *saving) {
	w := s.p.w
	s.p.later(min(scaled(w.work.exp(w.settings.store), s.p.disk), longestTurn), func() {
		switch {
		case s.gone || v.over:
			return
		case s.cutting: // no region may be looked into
			s.writeChunk(v)
			return
		case s.p.platter.full > 0:
			s.saveFails(v, "the disk is full")
			return
		}
		more, err := v.capture.Next(func(region int, kind byte, data []byte) error {
			v.part.chunks = append(v.part.chunks, storedChunk{region, kind, data})
			s.copyOut(v, copyMessage{Op: copyChunk, Region: region, Kind: kind, Data: data})
			return nil
		})
		w.snipe()
		switch {
		case err != nil:
			s.saveFails(v, err.Error())
		case more:
			s.writeChunk(v)
		default:
			v.written = true
			s.seal(v)
		}
	})
}

// seal makes the part durable when all of it is written.
func (s *share) seal(v *saving) {
	w := s.p.w
	if !v.written || !v.logged || v.over {
		return
	}
	v.part.base = v.capture.Base()
	v.part.root = v.part.sum()
	if w.mutant.says("own part not awaited") {
		v.own = true
	}
	s.copyOut(v, copyMessage{Op: copyEnd, Base: v.part.base, Tape: v.part.tape, Root: v.part.root})
	if w.mutant.says("copy not awaited") {
		v.copied = true
	}
	s.saved(v)
	s.p.later(min(scaled(w.work.exp(w.settings.sync), s.p.disk), longestTurn), func() {
		if s.gone || v.over {
			return
		}
		v.part.synced, v.own = true, true
		s.saved(v)
		w.snipe()
	})
}

// saved tells the agent when all is durable.
func (s *share) saved(v *saving) {
	if !v.own || !v.copied || v.told {
		return
	}
	v.told = true
	part := control.CheckpointPart{Root: v.part.root, Base: v.part.base}
	if v.partner >= 0 {
		part.Partner = s.job.Members[v.partner]
	}
	for _, r := range v.capture.Regions() {
		part.Regions = append(part.Regions, r.Region)
		part.Entities += r.Entities
		part.Events += r.Events
		part.Digest += r.Digest
	}
	for _, c := range v.part.chunks {
		part.Chunks++
		part.Bytes += uint64(len(c.data))
	}
	s.p.put(item{input: control.Saved{Epoch: s.job.Epoch, Number: v.key.number, Part: part}})
}

func (s *share) saveFails(v *saving, why string) {
	if v.told {
		return
	}
	v.told = true
	s.p.put(item{input: control.Saved{Epoch: s.job.Epoch, Number: v.key.number, Err: why}})
}

// Abandon implements control.Executor.
func (e *executor) Abandon(n uint64) {
	s := e.current("give a checkpoint up")
	if s.part == nil {
		return
	}
	e.w.truth.abandoned++
	v := s.open
	if v == nil || v.key.number != n {
		e.w.fail("%s is to give up checkpoint %d, which it does not take", e.p.boot, n)
		return
	}
	s.open, v.over = nil, true
	s.afterCut(v.capture.Abandon)
	e.p.platter.remove(v.key)
	if s.recorder != nil {
		s.recorder.forget(v)
	}
}

// Committed implements control.Executor.
func (e *executor) Committed(n uint64, kept []control.Checkpoint) {
	s := e.share
	if s == nil || s.part == nil {
		e.w.fail("%s is told of checkpoint %d without a job", e.p.boot, n)
		return
	}
	if v := s.open; v != nil && v.key.number == n {
		if !v.told {
			e.w.fail("checkpoint %d is committed, and %s has not stored its part", n, e.p.boot)
		}
		s.open, v.over = nil, true
		s.afterCut(v.capture.Keep)
	}
	if kept != nil {
		e.p.platter.prune(s.job.ID, n, control.Needed(kept))
	}
}

// afterCut does something to regions now, or at the end of the cut under way.
func (s *share) afterCut(do func()) {
	if s.cutting {
		s.deferred = append(s.deferred, do)
		return
	}
	do()
}

// What copyMessage may be.
const (
	copyChunk byte = iota + 1
	copyEnd
	copyAnswer
)

// copyMark begins a payload that is no message of package control.
const copyMark = 0xff

// copyMessage goes from a member to its partner and back.
type copyMessage struct {
	Op     byte
	Epoch  uint64
	Job    string
	Number uint64
	Part   int
	Region int
	Kind   byte
	Data   []byte
	Base   uint64
	Tape   int
	Root   string
	Err    string
}

func (s *share) copyOut(v *saving, m copyMessage) {
	if v.partner < 0 {
		return
	}
	m.Epoch, m.Job, m.Number, m.Part = s.job.Epoch, s.job.ID, v.key.number, s.me
	s.p.sendCopy(s.job.Members[v.partner], s.job.Boots[v.partner], m)
}

// sendCopy puts a message about a copy on the link to a process.
func (p *process) sendCopy(to, boot string, m copyMessage) {
	data, err := json.Marshal(m)
	if err != nil {
		p.w.fail("a copy cannot be written: %v", err)
		return
	}
	p.w.trace.fold(uint64(p.i)<<8|uint64(m.Op), checksum(data))
	l := p.peers[p.w.byName(to)]
	x := payload{boot, append([]byte{copyMark}, data...)}
	l.meant = append(l.meant, x)
	l.bytes += len(x.data)
	l.dirty = true
	p.touch()
}

// hearCopy takes in a message about a copy of a process of another node. What is of another epoch is refused.
func (p *process) hearCopy(from int, boot string, data []byte) {
	var m copyMessage
	if err := json.Unmarshal(data, &m); err != nil {
		p.w.fail("%s got a copy that cannot be read: %v", p.boot, err)
		return
	}
	s := p.exec.share
	if s == nil || s.part == nil || s.gone || s.job.Epoch != m.Epoch {
		return
	}
	key := partKey{m.Job, m.Number, m.Part}
	if m.Op == copyAnswer {
		v := s.open
		switch {
		case v == nil || v.key != key:
		case m.Err != "":
			s.saveFails(v, "the copy: "+m.Err)
		default:
			v.copied = true
			s.saved(v)
			p.w.snipe()
		}
		return
	}
	part := p.platter.parts[key]
	if part == nil || part.synced {
		part = p.platter.begin(key)
	}
	if m.Op == copyChunk {
		part.chunks = append(part.chunks, storedChunk{m.Region, m.Kind, m.Data})
		return
	}
	part.base, part.tape, part.root = m.Base, m.Tape, m.Root
	p.later(min(scaled(p.w.work.exp(p.w.settings.sync), p.disk), longestTurn), func() {
		answer := copyMessage{Op: copyAnswer, Epoch: m.Epoch, Job: m.Job, Number: m.Number, Part: m.Part}
		switch {
		case p.platter.parts[key] != part:
			return // another disk
		case p.platter.full > 0:
			answer.Err = "the disk is full"
		case part.sum() != part.root:
			p.w.fail("a copy at %s of part %d of checkpoint %d is not what was sent", p.boot, m.Part, m.Number)
		default:
			part.synced = true
		}
		p.sendCopy(p.w.hosts[from].name, boot, answer)
	})
}

// touch has the process look at its links soon.
func (p *process) touch() { p.put(item{sort: isTouch}) }

// save notes what is to be saved of the recording: exactly what was observed before the checkpoint.
func (r *recorder) save(v *saving) error {
	if v.over {
		return nil
	}
	r.saving = v
	return r.look()
}

// floor lets observations below a time go to the tape; what would pass the time of a checkpoint waits.
func (r *recorder) floor(f *control.Floor) error {
	if r.saving != nil && f.At > r.saving.at {
		if r.told < r.saving.at {
			return errors.New("the floor passes the time of a checkpoint without having been there")
		}
		r.later = append(r.later, f)
		return nil
	}
	r.told = max(r.told, f.At)
	if err := r.merger.Floor(f.At, f.Frames); err != nil {
		return err
	}
	return r.look()
}

// look takes the state of the tape when it has all up to the checkpoint.
func (r *recorder) look() error {
	v := r.saving
	if v == nil {
		return nil
	}
	done := r.merger.Done()
	if done < v.at {
		return nil
	}
	if done > v.at || r.tape.n != r.tape.ref.below(v.at) {
		return errors.New("what was recorded passed the time of a checkpoint, or is not all there")
	}
	v.part.tape, v.logged = r.tape.n, true
	r.share.seal(v)
	return r.goOn()
}

// forget ends the wait for a checkpoint.
func (r *recorder) forget(v *saving) {
	if r.saving == v {
		if err := r.goOn(); err != nil {
			r.w.fail("%s cannot record: %v", r.share.p.boot, err)
		}
	}
}

func (r *recorder) goOn() error {
	later := r.later
	r.saving, r.later = nil, nil
	for _, f := range later {
		if err := r.floor(f); err != nil {
			return err
		}
	}
	return nil
}
