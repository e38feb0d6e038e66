package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/simnode/simnode/sim"
)

// Frames between members are little-endian and hold numbers of fixed size, since most of what they hold
// are events, whose times, keys and sequences rarely fit fewer bytes. Every length is checked against
// what is left of the frame before anything is allocated.

// errFrame is wrapped by every error of a frame that cannot be read.
var errFrame = errors.New("malformed frame of another member")

// reader reads a frame; after the first thing that is wrong it returns zeros and keeps the error.
type reader struct {
	data []byte
	err  error
}

func (d *reader) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errFrame, fmt.Sprintf(format, args...))
	}
	d.data = nil
}

// take returns the next n bytes of the frame.
func (d *reader) take(n int) []byte {
	if n < 0 || n > len(d.data) {
		d.fail("%d bytes expected, %d left", n, len(d.data))
		return nil
	}
	part := d.data[:n:n]
	d.data = d.data[n:]
	return part
}

func (d *reader) u64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *reader) u32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *reader) u16() uint16 {
	if b := d.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (d *reader) u8() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

// time reads a time, which is never negative.
func (d *reader) time() sim.Time {
	t := sim.Time(d.u64())
	if t < 0 {
		d.fail("negative time")
	}
	return t
}

func (d *reader) float() float64 { return math.Float64frombits(d.u64()) }

func (d *reader) vec() sim.Vec { return sim.Vec{X: d.float(), Y: d.float(), Z: d.float()} }

// count reads how many items of at least size bytes follow.
func (d *reader) count(size int) int {
	n := int(d.u32())
	if n > len(d.data)/size {
		d.fail("%d items of %d bytes announced, %d bytes left", n, size, len(d.data))
		return 0
	}
	return n
}

// bytes reads bytes with their length before them; they are part of the frame.
func (d *reader) bytes() []byte { return d.take(d.count(1)) }

// done returns the error of the frame; what is left over is one too.
func (d *reader) done() error {
	if d.err == nil && len(d.data) > 0 {
		d.fail("%d bytes too many", len(d.data))
	}
	return d.err
}

var le = binary.LittleEndian

func appendVec(dst []byte, v sim.Vec) []byte {
	for _, x := range [...]float64{v.X, v.Y, v.Z} {
		dst = le.AppendUint64(dst, math.Float64bits(x))
	}
	return dst
}

func appendBytes(dst, data []byte) []byte {
	return append(le.AppendUint32(dst, uint32(len(data))), data...)
}

func appendMotion(dst []byte, m *sim.Motion) []byte {
	dst = le.AppendUint64(dst, uint64(m.Start))
	dst = le.AppendUint64(dst, uint64(m.Stop))
	return appendVec(appendVec(dst, m.From), m.Vel)
}

func (d *reader) motion() sim.Motion {
	// The start of a motion may lie before 0: models compute with it.
	return sim.Motion{Start: sim.Time(d.u64()), Stop: sim.Time(d.u64()), From: d.vec(), Vel: d.vec()}
}

// A message takes 33 bytes and 8 for each word of its body that is not zero. The first byte tells which
// words follow, and whether it has a payload elsewhere or was cancelled.
const (
	leastMessage = 33
	maskWords    = 1<<4 - 1
	maskLarge    = 1 << 4
	maskDead     = 1 << 5
)

// appendMessage appends m, whose Dst is the id of its receiver; blob is its payload if that is large.
func appendMessage(dst []byte, m *sim.Message, blob []byte, cancelled bool) []byte {
	var b [leastMessage + 32]byte
	le.PutUint64(b[1:], uint64(m.Time))
	le.PutUint64(b[9:], m.Key)
	le.PutUint64(b[17:], m.Seq)
	le.PutUint64(b[25:], m.Dst)
	n := leastMessage
	if blob != nil {
		b[0] = maskLarge
	} else {
		for i, x := range [...]uint64{m.Body.A, m.Body.B, m.Body.C, m.Body.D} {
			if x != 0 {
				b[0] |= 1 << i
				le.PutUint64(b[n:], x)
				n += 8
			}
		}
	}
	if cancelled {
		b[0] |= maskDead
	}
	dst = append(dst, b[:n]...)
	if blob != nil {
		dst = appendBytes(dst, blob)
	}
	return dst
}

// message reads a message; blob is part of the frame.
func (d *reader) message(m *sim.Message) (blob []byte, cancelled bool) {
	mask := d.u8()
	b := d.take(leastMessage - 1)
	if b == nil {
		return nil, false
	}
	m.Time = sim.Time(le.Uint64(b))
	m.Key, m.Seq, m.Dst = le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:])
	if m.Time < 0 || mask&^(maskWords|maskLarge|maskDead) != 0 || mask&maskLarge != 0 && mask&maskWords != 0 {
		d.fail("event at %v with mark %#x", m.Time, mask)
		return nil, false
	}
	m.Body = sim.Body{}
	for i, x := range [...]*uint64{&m.Body.A, &m.Body.B, &m.Body.C, &m.Body.D} {
		if mask&(1<<i) != 0 {
			*x = d.u64()
		}
	}
	if mask&maskLarge != 0 {
		blob = d.bytes()
	}
	return blob, mask&maskDead != 0
}

// checkBlob refuses a payload of another size than that of the message's event.
func (w *world) checkBlob(m *sim.Message, blob []byte) error {
	size := 0
	if e := int(m.Event()); e < len(w.prog.Events) && w.prog.Events[e].Size > sim.InlinePayload {
		size = w.prog.Events[e].Size
	}
	if len(blob) != size {
		return fmt.Errorf("%w: event %s with a payload of %d bytes outside, %d expected", errFrame, w.prog.EventName(m.Event()), len(blob), size)
	}
	return nil
}

const publicationSize = 8 + 8 + 8 + 8*8 + 32 + 2 + 1

func appendPublication(dst []byte, p *publication) []byte {
	dst = le.AppendUint64(dst, uint64(p.visible))
	dst = le.AppendUint64(dst, uint64(p.id))
	dst = le.AppendUint64(dst, p.seq)
	dst = appendMotion(dst, &p.motion)
	dst = appendBody(dst, &p.public)
	dst = le.AppendUint16(dst, p.kind)
	flags := byte(0)
	if p.hide {
		flags |= 1
	}
	if p.final {
		flags |= 2
	}
	return append(dst, flags)
}

func (d *reader) publication(kinds int) publication {
	p := publication{visible: d.time(), id: sim.EntityID(d.u64()), seq: d.u64(), motion: d.motion(), public: d.body(), kind: d.kind(kinds)}
	flags := d.u8()
	if flags > 3 {
		d.fail("publication of entity %d with mark %#x", p.id, flags)
	}
	p.hide, p.final = flags&1 != 0, flags&2 != 0
	return p
}

func appendBody(dst []byte, b *sim.Body) []byte {
	for _, x := range [...]uint64{b.A, b.B, b.C, b.D} {
		dst = le.AppendUint64(dst, x)
	}
	return dst
}

func (d *reader) body() sim.Body { return sim.Body{A: d.u64(), B: d.u64(), C: d.u64(), D: d.u64()} }

// kind reads a kind, one of so many.
func (d *reader) kind(kinds int) uint16 {
	k := d.u16()
	if int(k) >= kinds && d.err == nil {
		d.fail("kind %d of %d", k, kinds)
	}
	if d.err != nil {
		return 0
	}
	return k
}

// region reads a region's number, one of so many.
func (d *reader) region(regions int) int {
	r := int(d.u16())
	if r >= regions && d.err == nil {
		d.fail("region %d of %d", r, regions)
	}
	if d.err != nil {
		return 0
	}
	return r
}
