package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

const (
	headSize = 8  // CRC and length
	bodyMin  = 29 // body without extensions and data
	// MaxRecord is the largest body of a record in bytes.
	MaxRecord = 128 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendRecord appends an entry as it stands in a segment.
func appendRecord(to []byte, l *raft.Log) ([]byte, error) {
	body := bodyMin + len(l.Extensions) + len(l.Data)
	if body > MaxRecord {
		return to, fmt.Errorf("entry %d has %d bytes; at most %d are stored", l.Index, body, MaxRecord)
	}
	start := len(to)
	var at int64
	if !l.AppendedAt.IsZero() {
		at = l.AppendedAt.UnixNano()
	}
	to = binary.LittleEndian.AppendUint32(to, 0)
	to = binary.LittleEndian.AppendUint32(to, uint32(body))
	to = binary.LittleEndian.AppendUint64(to, l.Index)
	to = binary.LittleEndian.AppendUint64(to, l.Term)
	to = append(to, byte(l.Type))
	to = binary.LittleEndian.AppendUint64(to, uint64(at))
	to = binary.LittleEndian.AppendUint32(to, uint32(len(l.Extensions)))
	to = append(to, l.Extensions...)
	to = append(to, l.Data...)
	binary.LittleEndian.PutUint32(to[start:], crc32.Checksum(to[start+4:], castagnoli))
	return to, nil
}

// bodySize reads the length of a record from its head; room is how many bytes the record may have.
func bodySize(head []byte, room int64) (int, error) {
	n := binary.LittleEndian.Uint32(head[4:])
	if n < bodyMin || n > MaxRecord || headSize+int64(n) > room {
		return 0, fmt.Errorf("a record claims %d bytes where %d to %d are possible", n, bodyMin, min(MaxRecord, room-headSize))
	}
	return int(n), nil
}

var errChecksum = errors.New("the checksum does not match")

// parseRecord reads a whole record into l, which keeps no part of it.
func parseRecord(record []byte, index uint64, l *raft.Log) error {
	if len(record) < headSize+bodyMin {
		return fmt.Errorf("a record of %d bytes is cut off", len(record))
	}
	if n := int64(binary.LittleEndian.Uint32(record[4:])); headSize+n != int64(len(record)) {
		return fmt.Errorf("a record of %d bytes claims %d", len(record), headSize+n)
	}
	if crc32.Checksum(record[4:], castagnoli) != binary.LittleEndian.Uint32(record) {
		return errChecksum
	}
	body := record[headSize:]
	if got := binary.LittleEndian.Uint64(body); got != index {
		return fmt.Errorf("entry %d stands where entry %d belongs", got, index)
	}
	ext := int64(binary.LittleEndian.Uint32(body[25:]))
	if bodyMin+ext > int64(len(body)) {
		return fmt.Errorf("extensions of %d bytes in a record of %d", ext, len(record))
	}
	*l = raft.Log{
		Index: index,
		Term:  binary.LittleEndian.Uint64(body[8:]),
		Type:  raft.LogType(body[16]),
	}
	if at := int64(binary.LittleEndian.Uint64(body[17:])); at != 0 {
		l.AppendedAt = time.Unix(0, at)
	}
	rest := body[bodyMin:]
	if ext > 0 {
		l.Extensions = append([]byte(nil), rest[:ext]...)
	}
	if int64(len(rest)) > ext {
		l.Data = append([]byte(nil), rest[ext:]...)
	}
	return nil
}
