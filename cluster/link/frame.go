package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Sizes on the wire.
const (
	// PrefixSize is the size in bytes of what stands before the part of a frame that its length counts:
	// the length and the checksum.
	PrefixSize = 8
	// MaxFrame is the largest frame in bytes, prefix included.
	MaxFrame = 4 << 20

	kindAt   = PrefixSize
	headSize = PrefixSize + 1 + 3*8
	// frameCost is what a queued frame counts for beyond its bytes, so that empty messages are bounded.
	frameCost = 64
)

// kind of a frame.
type kind byte

const (
	kindHello kind = iota + 1
	// kindData ends a message, kindPacked one that is compressed, kindPart does not end one.
	kindData
	kindPacked
	kindPart
	kindAck
	kindPulse
	kindRefusal
)

// Errors of frames and sessions. Those returned wrap one of these and tell more.
var (
	// ErrFrame is a frame that no correct peer sends. The connection it came on is worth nothing.
	ErrFrame = errors.New("malformed frame")
	// ErrCluster is a peer of another cluster.
	ErrCluster = errors.New("other cluster")
	// ErrVersion is a peer that speaks another version of the protocol.
	ErrVersion = errors.New("other protocol version")
	// ErrName is a peer that has another name than expected, or that takes us for another node.
	ErrName = errors.New("other node")
	// ErrStale is a frame from or for a process that is not, or no longer, the one at this end.
	ErrStale = errors.New("frame from or for another process of that name")
	// ErrFull says that the window is full: try again when Backlog has fallen.
	ErrFull = errors.New("link is full: too much is not acknowledged yet")
	// ErrTooLarge is a message larger than Config.MaxMessage.
	ErrTooLarge = errors.New("message too large for a link")
)

// castagnoli has hardware support. The table is never changed.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Frame is a frame to be transmitted. It stays valid, and must not be changed.
type Frame struct {
	head head
	n    int
	body []byte
}

// Len returns the size in bytes.
func (f *Frame) Len() int { return f.n + len(f.body) }

// Head returns what comes before Body on the wire. It aliases f.
func (f *Frame) Head() []byte { return f.head[:f.n] }

// Body returns what comes after Head; it may be empty. It aliases the message that it is a part of.
func (f *Frame) Body() []byte { return f.body }

// AppendTo appends the whole frame.
func (f *Frame) AppendTo(dst []byte) []byte { return append(append(dst, f.head[:f.n]...), f.body...) }

// head is where heads are made: what crc32 is given is allocated otherwise.
type head [headSize]byte

// seal fills in length and checksum of a head of n bytes; bodySum is the checksum of the body. The body
// goes into the checksum first, so that a head that changes does not ask for another pass over the body.
func (h *head) seal(n int, body []byte, bodySum uint32) Frame {
	binary.LittleEndian.PutUint32(h[:], uint32(n+len(body)-PrefixSize))
	binary.LittleEndian.PutUint32(h[4:], crc32.Update(bodySum, castagnoli, h[kindAt:n]))
	return Frame{head: *h, n: n, body: body}
}

// numbered makes a frame with a sequence number.
func (h *head) numbered(k kind, token, seq, ack uint64, body []byte, bodySum uint32) Frame {
	h[kindAt] = byte(k)
	binary.LittleEndian.PutUint64(h[kindAt+1:], token)
	binary.LittleEndian.PutUint64(h[kindAt+9:], seq)
	binary.LittleEndian.PutUint64(h[kindAt+17:], ack)
	return h.seal(headSize, body, bodySum)
}

// plain makes a frame that has a kind and a body only.
func plain(k kind, body []byte) Frame {
	h := head{kindAt: byte(k)}
	return h.seal(kindAt+1, body, checksum(body))
}

// Pulse returns a frame that only shows that a connection carries. Sessions ignore it.
func Pulse() Frame { return plain(kindPulse, nil) }

// Refusal returns a frame that tells a peer why it is refused. Text beyond 1 KiB is cut off.
func Refusal(text string) Frame { return plain(kindRefusal, []byte(text[:min(len(text), maxRefusal)])) }

const maxRefusal = 1 << 10

// Length returns the size of the whole frame that begins with prefix, of PrefixSize bytes, or an error if
// it is more than limit (MaxFrame if 0).
func Length(prefix []byte, limit int) (int, error) {
	if limit == 0 {
		limit = MaxFrame
	}
	if len(prefix) < PrefixSize {
		return 0, fmt.Errorf("%w: %d bytes, a frame begins with %d", ErrFrame, len(prefix), PrefixSize)
	}
	n := uint64(binary.LittleEndian.Uint32(prefix)) + PrefixSize
	if n > uint64(limit) || n <= PrefixSize {
		return 0, fmt.Errorf("%w: a size of %d bytes, between %d and %d are allowed", ErrFrame, n, PrefixSize+1, limit)
	}
	return int(n), nil
}

// received is a frame taken apart; body aliases the frame.
type received struct {
	kind            kind
	token, seq, ack uint64
	body            []byte
}

// parse checks the length and the checksum of a frame and takes it apart.
func parse(frame []byte) (received, error) {
	n, err := Length(frame, 0)
	if err != nil {
		return received{}, err
	}
	if n != len(frame) {
		return received{}, fmt.Errorf("%w: %d bytes, its length says %d", ErrFrame, len(frame), n)
	}
	r := received{kind: kind(frame[kindAt])}
	head := kindAt + 1
	switch r.kind {
	case kindData, kindPacked, kindPart, kindAck:
		head = headSize
	case kindHello, kindPulse, kindRefusal:
	default:
		return received{}, fmt.Errorf("%w: unknown kind %d", ErrFrame, r.kind)
	}
	if n < head {
		return received{}, fmt.Errorf("%w: %d bytes, at least %d expected", ErrFrame, n, head)
	}
	r.body = frame[head:]
	sum := crc32.Update(checksum(r.body), castagnoli, frame[kindAt:head])
	if want := binary.LittleEndian.Uint32(frame[4:]); sum != want {
		return received{}, fmt.Errorf("%w: checksum %08x, computed %08x", ErrFrame, want, sum)
	}
	if head == headSize {
		r.token = binary.LittleEndian.Uint64(frame[kindAt+1:])
		r.seq = binary.LittleEndian.Uint64(frame[kindAt+9:])
		r.ack = binary.LittleEndian.Uint64(frame[kindAt+17:])
	}
	return r, nil
}

// Signal tells what a frame is that no Session needs to see: a pulse, or a refusal with its text. Both are
// false for any other frame, malformed ones included.
func Signal(frame []byte) (pulse, refusal bool, text string) {
	if len(frame) <= kindAt || frame[kindAt] != byte(kindPulse) && frame[kindAt] != byte(kindRefusal) {
		return false, false, ""
	}
	r, err := parse(frame)
	if err != nil {
		return false, false, ""
	}
	if r.kind == kindPulse {
		return true, false, ""
	}
	return false, true, string(r.body[:min(len(r.body), maxRefusal)])
}
