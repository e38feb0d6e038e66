package record

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"

	"github.com/simnode/simnode/sim"
)

// spoolName is the name of the spool in the output folder; it ends in ".partial" for ever.
const spoolName = "observations.rows"

// spoolMagic begins a spool, with the version of its format.
const spoolMagic = "simspl\x00\x01"

const (
	spoolBlock = 1 << 16
	// blockHead is a block's length and the CRC-32C of its body, 4 bytes each, little endian.
	blockHead = 8
)

// spool keeps observations in a file of its own that is only appended to, in blocks of about 64 KB.
//
// An observation begins with its series + 1 (0: an event) and the time since the one before it in
// the block. An event goes on with key, sequence, entity and kind; a row with its entity and its
// bytes; a value with its operation and the value.
type spool struct {
	*output
	block []byte
	last  sim.Time
}

func newSpool(o *output) *spool {
	return &spool{output: o, block: make([]byte, blockHead, spoolBlock+1<<10)}
}

func (s *spool) add(o *sim.Observation) error {
	b := binary.AppendUvarint(s.block, uint64(o.Series+1))
	b = binary.AppendUvarint(b, uint64(o.Time-s.last))
	switch {
	case o.Series == sim.TraceSeries:
		b = binary.AppendUvarint(b, o.Key)
		b = binary.AppendUvarint(b, o.Seq)
		b = binary.AppendUvarint(b, uint64(o.Entity))
		b = binary.AppendUvarint(b, uint64(o.Kind))
	case o.Op == sim.OpRow:
		b = append(binary.AppendUvarint(b, uint64(o.Entity)), o.Row...)
	default:
		b = appendFloat(append(b, byte(o.Op)), o.Value)
	}
	s.block, s.last = b, o.Time
	if len(b) < spoolBlock {
		return nil
	}
	return s.seal()
}

// seal ends the block.
func (s *spool) seal() error {
	if len(s.block) == blockHead {
		return nil
	}
	body := s.block[blockHead:]
	binary.LittleEndian.PutUint32(s.block, uint32(len(body)))
	binary.LittleEndian.PutUint32(s.block[4:], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	_, err := s.out.Write(s.block)
	s.block, s.last = s.block[:blockHead], 0
	if err != nil {
		return s.fail(err)
	}
	return nil
}

// flush hands everything to the file, so that it can be read.
func (s *spool) flush() error {
	if err := s.seal(); err != nil {
		return err
	}
	if err := s.out.flush(); err != nil {
		return s.fail(err)
	}
	return nil
}

// read calls yield with every observation up to the last flush; see readSpool.
func (s *spool) read(series []*series, yield func(o *sim.Observation) (bool, error)) error {
	return readSpool(s.out.file, s.out.length, series, yield)
}

// readSpool calls yield with the observations in the first length bytes of a spool until it returns
// false. An observation and its row are valid during the call. What is damaged is a *DamageError.
func readSpool(f io.ReaderAt, length int64, series []*series, yield func(o *sim.Observation) (bool, error)) error {
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, length), spoolBlock)
	head := make([]byte, len(spoolMagic))
	if n, err := io.ReadFull(in, head); err != nil || string(head) != spoolMagic {
		return &DamageError{spoolName + partial, reason(err, "it begins with %q, not %q", head[:n], spoolMagic)}
	}
	var body []byte
	for at := int64(len(spoolMagic)); at < length; {
		var head [blockHead]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return &DamageError{spoolName + partial, reason(err, "the block at byte %d is cut off", at)}
		}
		n := int64(binary.LittleEndian.Uint32(head[:]))
		if n > length-at-blockHead {
			return &DamageError{spoolName + partial, reason(nil, "the block at byte %d has %d bytes, and %d are left", at, n, length-at-blockHead)}
		}
		body = grow(body, int(n))
		if _, err := io.ReadFull(in, body); err != nil {
			return &DamageError{spoolName + partial, reason(err, "the block at byte %d is cut off", at)}
		}
		if crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(head[4:]) {
			return &DamageError{spoolName + partial, reason(nil, "the checksum of the block at byte %d does not match", at)}
		}
		if more, err := readBlock(body, at, series, yield); err != nil || !more {
			return err
		}
		at += blockHead + n
	}
	return nil
}

// grow returns a slice of n bytes, b if it is long enough.
func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

func readBlock(body []byte, at int64, series []*series, yield func(o *sim.Observation) (bool, error)) (more bool, err error) {
	r := reader{rest: body}
	var o sim.Observation
	for len(r.rest) > 0 {
		o = readObservation(&r, o.Time, series)
		if r.bad {
			return false, &DamageError{spoolName + partial, reason(nil, "an observation in the block at byte %d does not suit the model", at)}
		}
		if more, err := yield(&o); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// readObservation reads one that follows one at now.
func readObservation(r *reader, now sim.Time, series []*series) (o sim.Observation) {
	o.Series = uint16(r.integer(int64(len(series)))) - 1
	o.Time = now + sim.Time(r.integer(math.MaxInt64-int64(now)))
	if o.Series == sim.TraceSeries {
		o.Key, o.Seq, o.Entity, o.Kind = r.uvarint(), r.uvarint(), sim.EntityID(r.uvarint()), uint16(r.integer(math.MaxUint16))
		return o
	}
	s := series[o.Series]
	if s.info.Kind == sim.TableSeries {
		o.Op, o.Entity = sim.OpRow, sim.EntityID(r.uvarint())
		o.Row = r.bytes(s.size)
	} else {
		o.Op, o.Value = sim.Op(r.byte()), r.float()
	}
	if !r.bad && s.check(&o) != "" {
		r.fail()
	}
	return o
}
