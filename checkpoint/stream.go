package checkpoint

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/cespare/xxhash/v2"
)

// A stream is a line that says what it is, and records: kind, length and hash of what follows, 13 bytes, then that.
// The hash covers kind and length too. The last record holds the SHA-256 of all before it.

const streamMagic = "simnode exported checkpoint\n"

const (
	recordHeader   = 'h'
	recordPart     = 'p'
	recordChunk    = 'c'
	recordManifest = 'm'
	recordEnd      = 'e'
)

// maxRecord is the most that a record holds, in bytes.
const maxRecord = MaxChunk + 1

type streamWriter struct {
	w   *bufio.Writer
	sum hash.Hash
	err error
}

func newStreamWriter(w io.Writer) *streamWriter {
	out := &streamWriter{w: bufio.NewWriterSize(w, 1<<16), sum: sha256.New()}
	out.write([]byte(streamMagic))
	return out
}

func (out *streamWriter) write(b []byte) {
	out.sum.Write(b)
	if out.err == nil {
		_, out.err = out.w.Write(b)
	}
}

func (out *streamWriter) record(kind byte, pieces ...[]byte) error {
	n := 0
	for _, p := range pieces {
		n += len(p)
	}
	if n > maxRecord {
		return fmt.Errorf("a record of %d bytes is too long to be exported", n)
	}
	var head [13]byte
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(n))
	binary.BigEndian.PutUint64(head[5:], recordHash(head[:5], pieces...))
	out.write(head[:])
	for _, p := range pieces {
		out.write(p)
	}
	return out.err
}

func recordHash(head []byte, pieces ...[]byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(head)
	for _, p := range pieces {
		_, _ = d.Write(p)
	}
	return d.Sum64()
}

func (out *streamWriter) json(kind byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return out.record(kind, text)
}

func (out *streamWriter) chunk(kind byte, data []byte) error {
	return out.record(recordChunk, []byte{kind}, data)
}

func (out *streamWriter) close() error {
	if err := out.record(recordEnd, out.sum.Sum(nil)); err != nil {
		return err
	}
	return out.w.Flush()
}

type streamReader struct {
	r    *bufio.Reader
	name string
	sum  hash.Hash
	at   int64 // offset of the current record
	read int64 // offset behind it
	data []byte
	buf  bytes.Buffer
}

func newStreamReader(r io.Reader, name string) (*streamReader, error) {
	in := &streamReader{r: bufio.NewReaderSize(r, 1<<16), name: name, sum: sha256.New()}
	magic := make([]byte, len(streamMagic))
	if _, err := io.ReadFull(in.r, magic); err != nil || string(magic) != streamMagic {
		return nil, in.damage("it is not an exported checkpoint")
	}
	in.sum.Write(magic)
	in.read = int64(len(magic))
	return in, nil
}

func (in *streamReader) damage(format string, a ...any) error {
	e := damaged(in.name, "", format, a...)
	e.Offset = in.at
	return e
}

// next reads the next record into data and returns its kind.
func (in *streamReader) next() (byte, error) {
	in.at = in.read
	var head [13]byte
	if _, err := io.ReadFull(in.r, head[:]); err != nil {
		return 0, in.short(err)
	}
	n := int64(binary.BigEndian.Uint32(head[1:]))
	if n > maxRecord {
		return 0, in.damage("a record has an impossible length of %d bytes", n)
	}
	in.buf.Reset() // it grows with what is there, whatever the length says
	if got, err := io.CopyN(&in.buf, in.r, n); err != nil || got != n {
		return 0, in.short(err)
	}
	in.data = in.buf.Bytes()
	if recordHash(head[:5], in.data) != binary.BigEndian.Uint64(head[5:]) {
		return 0, in.damage("a record does not have the hash that stands before it")
	}
	if head[0] != recordEnd {
		in.sum.Write(head[:])
		in.sum.Write(in.data)
	}
	in.read += int64(len(head)) + n
	return head[0], nil
}

func (in *streamReader) short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return in.damage("the file ends before its end")
	}
	return in.damage("cannot be read: %v", err)
}

// json reads the next record, which must be of a kind, into v.
func (in *streamReader) json(kind byte, v any) error {
	got, err := in.next()
	if err != nil {
		return err
	}
	if got != kind {
		return in.damage("a record of kind %q is out of place", got)
	}
	return in.decode(v)
}

func (in *streamReader) decode(v any) error {
	if err := json.Unmarshal(in.data, v); err != nil {
		return in.damage("%v", err)
	}
	return nil
}

// close reads the end.
func (in *streamReader) close() error {
	want := in.sum.Sum(nil)
	kind, err := in.next()
	if err != nil {
		return err
	}
	if kind != recordEnd || !bytes.Equal(in.data, want) {
		return in.damage("the file does not have the SHA-256 at its end")
	}
	if _, err := in.r.ReadByte(); !errors.Is(err, io.EOF) {
		in.at = in.read
		return in.damage("something follows the end")
	}
	return nil
}
