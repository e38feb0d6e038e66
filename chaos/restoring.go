package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/node"
)

// Pieces of a restore begin with what they are.
const (
	pieceOfPart byte = iota + 1
	pieceOfTape
)

// restoredFrom is the checkpoint that a job's epoch begins from, nil if there is none.
func restoredFrom(job *control.Job) *control.Checkpoint {
	if job.Restore == nil {
		return nil
	}
	for i := range job.Checkpoints {
		if c := &job.Checkpoints[i]; c.Number == job.Restore.Number {
			return c
		}
	}
	return nil
}

// Retrieve implements control.Executor.
func (e *executor) Retrieve() {
	s := e.current("restore a checkpoint")
	if s.part == nil {
		return
	}
	e.w.snipe()
	e.p.later(min(scaled(e.w.work.exp(e.w.settings.setup), e.p.disk), longestTurn), func() {
		if s.gone {
			return
		}
		var bad *unreadable
		switch err := e.retrieve(s); {
		case errors.As(err, &bad):
			e.w.truth.unfit++
			e.p.put(item{input: control.Unreadable{Epoch: s.job.Epoch, Number: s.job.Restore.Number, Part: bad.part, Reason: bad.err.Error()}})
		case err != nil:
			e.p.put(item{input: control.RestoreEnded{Epoch: s.job.Epoch, Err: err.Error()}})
		default:
			s.retrieved = true
			e.restored(s)
		}
	})
}

type unreadable struct {
	part int
	err  error
}

func (u *unreadable) Error() string { return u.err.Error() }

// retrieve reads the parts of which this member is the source, and hands out what is not its own.
func (e *executor) retrieve(s *share) error {
	c := restoredFrom(s.job)
	if c == nil {
		return errors.New("the checkpoint is not in the log")
	}
	var regions []node.RegionChunks
	for _, source := range s.job.Restore.Sources {
		if source.Node != e.p.name {
			continue
		}
		key := partKey{s.job.ID, e.w.mutant.reads(s.job, c.Number), source.Part}
		part := e.p.platter.parts[key]
		if err := e.p.platter.good(key, c.Parts[source.Part].Root, c.Chain); err != nil && (part == nil || !e.w.mutant.says("no hash check")) {
			if key.number == c.Number || part == nil {
				return &unreadable{source.Part, err}
			}
		}
		for _, region := range c.Parts[source.Part].Regions {
			regions = append(regions, e.chunksOf(key, region, c.Chain))
		}
		if source.Part == c.Recorder {
			e.handTape(s, part.tape)
		}
	}
	return s.part.Restore(context.Background(), regions, func(to int, data []byte, last bool) error {
		e.p.put(item{input: control.RestorePiece{Epoch: s.job.Epoch, To: to, Data: append([]byte{pieceOfPart}, data...), Last: last}})
		return nil
	})
}

// chunksOf yields the chunks of a region, the newest increment first.
func (e *executor) chunksOf(k partKey, region int, chain []uint64) node.RegionChunks {
	return func(yield func(number uint64, kind byte, data []byte) error) error {
		base := e.p.platter.parts[k].base
		for _, n := range slices.Backward(chain) {
			if n < base || n > k.number {
				continue
			}
			x := e.p.platter.parts[partKey{k.job, n, k.part}]
			if x == nil {
				continue // a mutant looks for it
			}
			for _, c := range x.chunks {
				if c.region != region {
					continue
				}
				if err := yield(n, c.kind, c.data); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// handTape tells the member that records how much was recorded.
func (e *executor) handTape(s *share, n int) {
	if s.recorder != nil {
		s.recorder.resume(n)
		return
	}
	data := binary.AppendUvarint([]byte{pieceOfTape}, uint64(n))
	e.p.put(item{input: control.RestorePiece{Epoch: s.job.Epoch, To: s.job.Recorder, Data: data}})
}

// resume has the tape go on after n observations.
func (r *recorder) resume(n int) {
	at := r.share.job.Restore.At
	if want := r.tape.ref.below(at); n != want {
		r.w.fail("%s goes on after %d observations at %v, where the undisturbed run has %d", r.share.p.boot, n, at, want)
	}
	r.tape.n = n
	r.resumed = true
}

// TakeRestored implements control.Executor.
func (e *executor) TakeRestored(from int, data []byte, last bool) error {
	s := e.current("take in what was restored")
	if s.part == nil {
		return nil
	}
	if len(data) == 0 {
		return errors.New("an empty piece")
	}
	if data[0] == pieceOfTape {
		n, _ := binary.Uvarint(data[1:])
		if s.recorder == nil {
			return errors.New("what was recorded comes to a member that does not record")
		}
		s.recorder.resume(int(n))
		return nil
	}
	if err := s.part.TakeRestored(from, data[1:]); err != nil {
		return err
	}
	if last {
		s.lasts++
		e.restored(s)
	}
	return nil
}

// restored ends a restore when all is in.
func (e *executor) restored(s *share) {
	if !s.retrieved || s.lasts < len(s.job.Members)-1 || s.whole {
		return
	}
	s.whole = true
	in := control.RestoreEnded{Epoch: s.job.Epoch}
	switch {
	case s.recorder != nil && !s.recorder.resumed:
		in.Err = "nobody told what was recorded"
	default:
		if err := s.part.EndRestore(); err != nil {
			in.Err = err.Error()
		}
	}
	s.truth.restoredAt(s)
	e.p.put(item{input: in})
	e.w.snipe()
}
