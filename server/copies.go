package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/simnode/simnode/checkpoint"
)

// Each part of a checkpoint is copied to a partner while it is written. A copy is a row of messages over the link
// between the two nodes, of which at most copyWindow are not answered: it must not crowd out events.
//
// A message is: what it is, epoch, number of the checkpoint, part, number of the message, and the rest by what it is.
const (
	// copyBegin: JSON of copyStart.
	copyBegin byte = iota + 1
	// copyChunks: region (2 bytes), kind (1), length (4), data; as often as there is room.
	copyChunks
	// copyFile: length of JSON of copyPiece (4), that, bytes of a file of the recording.
	copyFile
	// copyEnd: JSON of copySum.
	copyEnd
	// copyAnswer: JSON of copyReply; it goes back, with the number of the message that it answers.
	copyAnswer
)

const (
	copyHead   = 1 + 8 + 8 + 2 + 4
	copyWindow = 8
	// copyPieceSize is from how many bytes on a message is sent.
	copyPieceSize = 256 << 10
)

type copyStart struct {
	Chain    []uint64 `json:"chain,omitempty"`
	Estimate int64    `json:"estimate,omitempty"`
}

type copyPiece struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset"`
}

type copySum struct {
	Regions []checkpoint.RegionPart `json:"regions"`
	Root    string                  `json:"root"`
}

type copyReply struct {
	Error string `json:"error,omitempty"`
}

// copyID names a copy.
type copyID struct {
	epoch, number uint64
	part          int
}

func (id copyID) head(op byte, serial uint32) []byte {
	b := append(make([]byte, 0, copyHead+64), payloadCopy, op)
	b = binary.LittleEndian.AppendUint64(b, id.epoch)
	b = binary.LittleEndian.AppendUint64(b, id.number)
	b = binary.LittleEndian.AppendUint16(b, uint16(id.part))
	return binary.LittleEndian.AppendUint32(b, serial)
}

// copyMessage is a message without its payload byte.
type copyMessage struct {
	copyID
	op     byte
	serial uint32
	rest   []byte
}

func parseCopy(b []byte) (m copyMessage, err error) {
	if len(b) < copyHead || b[0] < copyBegin || b[0] > copyAnswer {
		return m, fmt.Errorf("a message of a copy of %d bytes is malformed", len(b))
	}
	return copyMessage{
		copyID: copyID{binary.LittleEndian.Uint64(b[1:]), binary.LittleEndian.Uint64(b[9:]), int(binary.LittleEndian.Uint16(b[17:]))},
		op:     b[0], serial: binary.LittleEndian.Uint32(b[19:]), rest: b[copyHead:],
	}, nil
}

// eachChunk reads the rest of a copyChunks.
func eachChunk(b []byte, f func(region int, kind byte, data []byte) error) error {
	for len(b) > 0 {
		if len(b) < 7 {
			return errors.New("a chunk of a copy is cut short")
		}
		n := binary.LittleEndian.Uint32(b[3:])
		if uint64(n) > uint64(len(b)-7) {
			return fmt.Errorf("a chunk of a copy claims %d bytes, %d are there", n, len(b)-7)
		}
		if err := f(int(binary.LittleEndian.Uint16(b)), b[2], b[7:7+n]); err != nil {
			return err
		}
		b = b[7+n:]
	}
	return nil
}

// copier sends one copy.
type copier struct {
	id   copyID
	to   string
	send func(ctx context.Context, to string, payload []byte) error
	buf  []byte

	serial uint32
	open   chan struct{} // one element for each message that is not answered
	failed chan struct{}
	once   sync.Once
	err    error
}

func newCopier(id copyID, to string, send func(context.Context, string, []byte) error) *copier {
	return &copier{id: id, to: to, send: send, open: make(chan struct{}, copyWindow), failed: make(chan struct{})}
}

// answer takes an answer of the other side in.
func (c *copier) answer(r copyReply) {
	if r.Error != "" {
		c.once.Do(func() {
			c.err = fmt.Errorf("node %s: %s", c.to, r.Error)
			close(c.failed)
		})
	}
	select {
	case <-c.open:
	default:
	}
}

// post sends a message when there is room in the window.
func (c *copier) post(ctx context.Context, op byte, rest ...[]byte) error {
	select {
	case c.open <- struct{}{}:
	case <-c.failed:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
	c.serial++
	payload := c.id.head(op, c.serial)
	for _, b := range rest {
		payload = append(payload, b...)
	}
	return c.send(ctx, c.to, payload)
}

func (c *copier) postJSON(ctx context.Context, op byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.post(ctx, op, data)
}

// put sends a chunk, in its time.
func (c *copier) put(ctx context.Context, region int, kind byte, data []byte) error {
	c.buf = binary.LittleEndian.AppendUint16(c.buf, uint16(region))
	c.buf = append(c.buf, kind)
	c.buf = binary.LittleEndian.AppendUint32(c.buf, uint32(len(data)))
	c.buf = append(c.buf, data...)
	if len(c.buf) < copyPieceSize {
		return nil
	}
	return c.flush(ctx)
}

func (c *copier) flush(ctx context.Context) error {
	if len(c.buf) == 0 {
		return nil
	}
	err := c.post(ctx, copyChunks, c.buf)
	c.buf = c.buf[:0]
	return err
}

// file sends bytes of a file of the recording, from an offset up to a length.
func (c *copier) file(ctx context.Context, dir, name string, from, to int64) error {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	for begun := false; from < to || !begun; begun = true {
		piece := make([]byte, min(to-from, copyPieceSize))
		if len(piece) > 0 {
			if _, err := f.ReadAt(piece, from); err != nil {
				return fmt.Errorf("copying %s: %w", name, err)
			}
		}
		head, err := json.Marshal(copyPiece{name, from})
		if err != nil {
			return err
		}
		if err := c.post(ctx, copyFile, binary.LittleEndian.AppendUint32(nil, uint32(len(head))), head, piece); err != nil {
			return err
		}
		from += int64(len(piece))
	}
	return nil
}

// end sends the sum and waits until everything is durable on the other side.
func (c *copier) end(ctx context.Context, sum copySum) error {
	if err := c.flush(ctx); err != nil {
		return err
	}
	if err := c.postJSON(ctx, copyEnd, sum); err != nil {
		return err
	}
	for range copyWindow { // the window is empty when it can be filled
		select {
		case c.open <- struct{}{}:
		case <-c.failed:
			return c.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case <-c.failed:
		return c.err
	default:
		return nil
	}
}
