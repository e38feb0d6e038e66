package transport

import (
	"net"

	"github.com/simnode/simnode/cluster/link"
)

// batch gathers frames so that they are written at once: small ones are copied together, large ones are
// written from where they are.
type batch struct {
	c *connection
	// vectors says that pieces can be written at once; not so if the connection encrypts.
	vectors bool
	small   []byte
	pieces  [][]byte
	from    int // of small that is not in pieces yet
	size    int
	writing net.Buffers
}

func newBatch(c *connection) *batch {
	_, tcp := c.Conn.(*net.TCPConn)
	return &batch{c: c, vectors: tcp}
}

func (b *batch) add(f *link.Frame) {
	b.size += f.Len()
	b.small = append(b.small, f.Head()...)
	body := f.Body()
	if len(body) <= copied {
		b.small = append(b.small, body...)
		return
	}
	b.cut()
	b.pieces = append(b.pieces, body)
}

// cut makes what was copied since the last cut a piece. Later growth of small may move it, but then the
// piece keeps the old memory.
func (b *batch) cut() {
	if b.from < len(b.small) {
		b.pieces = append(b.pieces, b.small[b.from:])
		b.from = len(b.small)
	}
}

// flush writes all and empties the batch.
func (b *batch) flush() error {
	b.cut()
	err := b.write()
	clear(b.pieces)
	b.small, b.pieces, b.from, b.size = b.small[:0], b.pieces[:0], 0, 0
	return err
}

func (b *batch) write() error {
	if b.vectors {
		b.writing = b.pieces
		_, err := b.writing.WriteTo(b.c.Conn)
		return err
	}
	for _, piece := range b.pieces {
		if _, err := b.c.Write(piece); err != nil {
			return err
		}
	}
	return nil
}
