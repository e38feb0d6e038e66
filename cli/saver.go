package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/simnode/simnode/checkpoint"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/sim"
)

const (
	// recordRegion is the number under which a checkpoint holds the state of the recording: that of no region.
	recordRegion = 1 << 15
	recordKind   = 0
	// recordPiece is how much of it is in one chunk.
	recordPiece = 1 << 20
)

// checkpointMeta is what a manifest tells of a run besides.
type checkpointMeta struct {
	Regions  int    `json:"regions"`
	Nodes    int    `json:"nodes"`
	Entities uint64 `json:"entities"`
	Events   uint64 `json:"events"`
	Digest   string `json:"digest"`
	// Wall is for how long the run has gone on in all, End where it ends.
	Wall  time.Duration `json:"wall"`
	End   sim.Time      `json:"end"`
	Level string        `json:"level"`
}

func metaOf(m *checkpoint.Manifest) (meta checkpointMeta, err error) {
	if err := json.Unmarshal(m.Meta, &meta); err != nil {
		return meta, fmt.Errorf("checkpoint %d: what it tells of the run cannot be read: %w", m.Number, err)
	}
	return meta, nil
}

// saveError says that a last checkpoint was not written.
type saveError struct{ error }

func (e saveError) Unwrap() error { return e.error }

// saver writes the checkpoints of a run.
type saver struct {
	store    *checkpoint.Store
	settings *settings
	model    string
	end      sim.Time
	level    record.Level
	seed     uint64
	recorder *record.Recorder
	schedule *schedule
	archive  *archive
	say      func(line string)
	stopping func() bool
	// wall returns for how long the run has gone on in all.
	wall func() time.Duration

	mu sync.Mutex
	// chain are the checkpoints that the next one builds on; parent is the one before it; size is about how much
	// it will write.
	chain  []uint64
	parent uint64
	size   int64
	// newest is the newest that was committed or, of a resumed run, that it began from.
	newest *checkpoint.Manifest
	// refused is an error of the store or the recording, unsaid one of the engine, which may only mean that the
	// run was over.
	refused error
	unsaid  error
	failing bool
}

// checkpoints are the options of a run.
func (s *saver) checkpoints() *node.Checkpoints {
	return &node.Checkpoints{
		Every: s.schedule.EverySim, Due: s.schedule.due, Final: true,
		Number: s.number, Snapshot: s.snapshot, Save: s.save,
	}
}

func (s *saver) number() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unsaid; err != nil {
		s.unsaid = nil
		s.tell(err) // there is another, so the run was not over
	}
	return s.store.Next()
}

// snapshot brings the recording to the disk.
func (s *saver) snapshot() ([]byte, error) {
	state, err := s.recorder.Save()
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refused = err
		return nil, saveError{err}
	}
	return state, nil
}

// tell says, with mu held, that a checkpoint was not written.
func (s *saver) tell(err error) {
	if s.stopping() {
		return // how it stopped is told at the end
	}
	next := "the next one that is due"
	if s.schedule.Every > 0 {
		next = "the next one, in " + s.schedule.every().Round(time.Millisecond).String()
	}
	s.failing = true
	s.say(fmt.Sprintf("no checkpoint was written: %v; the run goes on, and %s is tried", err, next))
}

// save writes and commits a checkpoint.
func (s *saver) save(k *node.Capture, recording []byte) error {
	began := s.schedule.now()
	m, err := s.write(k, recording)
	if err := s.wrote(m, err, s.schedule.now().Sub(began)); err != nil {
		return err
	}
	if s.archive != nil {
		s.archive.copy(s.store, m, s.say)
	}
	return nil
}

// wrote takes note of how the writing of a checkpoint ended.
func (s *saver) wrote(m *checkpoint.Manifest, err error, cost time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := s.refused
	s.refused = nil
	switch {
	case err == nil:
	case refused != nil:
		s.tell(refused)
		return saveError{err}
	default:
		s.unsaid = err
		return saveError{err}
	}
	s.chain, s.parent, s.newest = m.Chain, m.Number, m
	s.schedule.wrote(cost)
	if s.failing {
		s.failing = false
		s.say(fmt.Sprintf("checkpoints are written again: %d at %v", m.Number, m.At))
	}
	return nil
}

// refuse takes note of an error that is not the engine's.
func (s *saver) refuse(err error) error {
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refused = err
	}
	return err
}

func (s *saver) write(k *node.Capture, recording []byte) (*checkpoint.Manifest, error) {
	w, err := s.store.Write(k.Number(), 0, s.chain, s.size)
	if err != nil {
		return nil, s.refuse(err)
	}
	defer w.Abort()
	regions, err := k.Write(func(region int, kind byte, data []byte) error { return s.refuse(w.Put(region, kind, data)) })
	if err != nil {
		return nil, err
	}
	m, err := s.commit(k, w, regions, recording)
	return m, s.refuse(err)
}

// commit ends a checkpoint whose regions are written.
func (s *saver) commit(k *node.Capture, w *checkpoint.Writer, regions []node.CapturedRegion, recording []byte) (*checkpoint.Manifest, error) {
	meta := checkpointMeta{Regions: len(regions), Nodes: 1, Wall: s.wall(), End: s.end, Level: s.level.String()}
	digest := uint64(0)
	for _, r := range regions {
		d := checkpoint.RegionPart{Region: r.Region, Base: r.Base, Entities: r.Entities, Events: r.Events, Digest: r.Digest}
		if err := w.Describe(d); err != nil {
			return nil, err
		}
		meta.Entities += r.Entities
		meta.Events += r.Events
		digest += r.Digest
	}
	meta.Digest = fmt.Sprintf("%016x", digest)
	if err := putRecording(w, k.Number(), recording); err != nil {
		return nil, err
	}
	part, err := w.Close()
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	ref := part.Ref()
	m := &checkpoint.Manifest{
		Format: checkpoint.Format, Number: k.Number(), Parent: s.parent, At: k.At(),
		Scenario: s.settings.Hash, Model: s.model, Seed: strconv.FormatUint(s.seed, 10), Arch: runtime.GOARCH,
		Parts: []checkpoint.PartRef{ref}, Written: time.Now(), Meta: data,
	}
	for _, l := range part.Chain {
		m.Chain = append(m.Chain, l.Number)
	}
	m.Chain = append(m.Chain, k.Number())
	s.size = int64(ref.Bytes)
	return m, s.store.Commit(m)
}

// putRecording adds the state of the recording to a checkpoint.
func putRecording(w *checkpoint.Writer, number uint64, state []byte) error {
	for first := true; first || len(state) > 0; first = false {
		n := min(len(state), recordPiece)
		if err := w.Put(recordRegion, recordKind, state[:n]); err != nil {
			return err
		}
		state = state[n:]
	}
	return w.Describe(checkpoint.RegionPart{Region: recordRegion, Base: number})
}

// readRecording reads it.
func readRecording(s *checkpoint.Store, number uint64) (state []byte, err error) {
	err = s.Read(number, 0, recordRegion, func(_ uint64, _ byte, data []byte) error {
		state = append(state, data...)
		return nil
	})
	return state, err
}

// savedRegion is a region in a checkpoint.
type savedRegion struct {
	part int
	checkpoint.RegionPart
}

// regionsOf lists the regions of a checkpoint, without the recording.
func regionsOf(s *checkpoint.Store, m *checkpoint.Manifest) (list []savedRegion, err error) {
	for _, ref := range m.Parts {
		p, err := s.Part(m.Number, ref.Part)
		if err != nil {
			return nil, err
		}
		for _, g := range p.Regions {
			if g.Region != recordRegion {
				list = append(list, savedRegion{ref.Part, g})
			}
		}
	}
	return list, nil
}

// chunks are what node reads of a region.
func (g savedRegion) chunks(s *checkpoint.Store, number uint64) node.RegionChunks {
	return func(yield func(number uint64, kind byte, data []byte) error) error {
		return s.Read(number, g.part, g.Region, yield)
	}
}

// restoreFrom is what a run begins from.
func restoreFrom(s *checkpoint.Store, m *checkpoint.Manifest) (*node.Restore, error) {
	regions, err := regionsOf(s, m)
	if err != nil {
		return nil, err
	}
	r := &node.Restore{At: m.At}
	for _, g := range regions {
		r.Regions = append(r.Regions, g.chunks(s, m.Number))
	}
	return r, nil
}

// readWhole reads all of a checkpoint, to see that it is there.
func readWhole(s *checkpoint.Store, m *checkpoint.Manifest) error {
	for _, ref := range m.Parts {
		p, err := s.Part(m.Number, ref.Part)
		if err != nil {
			return err
		}
		for _, g := range p.Regions {
			err := s.Read(m.Number, ref.Part, g.Region, func(uint64, byte, []byte) error { return nil })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// isDamage tells whether something that was saved is not as it was.
func isDamage(err error) bool {
	var stored *checkpoint.DamageError
	var recorded *record.DamageError
	return errors.As(err, &stored) || errors.As(err, &recorded)
}
