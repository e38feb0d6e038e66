package record

import (
	"bytes"
	"io"
	"math"
	"strconv"
)

// csvWriter writes rows as CSV (RFC 4180, lines end in a line feed). It is a writer of its own
// because encoding/csv takes strings only, which would cost an allocation for each number.
type csvWriter struct {
	out     io.Writer
	columns []column
	line    []byte
}

// newCSV begins a file with its header. The writer does not buffer.
func newCSV(w io.Writer, columns []column) (*csvWriter, error) {
	c := &csvWriter{out: w, columns: columns}
	for i, col := range columns {
		c.separate(i)
		c.line = appendText(c.line, []byte(col.name))
	}
	return c, c.endLine()
}

func (c *csvWriter) separate(i int) {
	if i > 0 {
		c.line = append(c.line, ',')
	}
}

func (c *csvWriter) endLine() error {
	_, err := c.out.Write(append(c.line, '\n'))
	c.line = c.line[:0]
	return err
}

func (c *csvWriter) write(row []cell) error {
	for i, v := range row {
		c.separate(i)
		if !v.null {
			c.line = v.appendCSV(c.line, c.columns[i].typ)
		}
	}
	return c.endLine()
}

func (c *csvWriter) close() error { return nil }

func (v cell) appendCSV(dst []byte, t cellType) []byte {
	switch t {
	case boolean:
		return strconv.AppendBool(dst, v.bits != 0)
	case integer:
		return strconv.AppendInt(dst, int64(v.bits), 10)
	case unsigned:
		return strconv.AppendUint(dst, v.bits, 10)
	case float32s:
		return strconv.AppendFloat(dst, float64(math.Float32frombits(uint32(v.bits))), 'g', -1, 32)
	case float64s:
		return strconv.AppendFloat(dst, math.Float64frombits(v.bits), 'g', -1, 64)
	}
	return appendText(dst, v.text)
}

// appendText quotes text that a reader would otherwise take apart; empty text is quoted so that it
// is not taken for a missing value.
func appendText(dst, s []byte) []byte {
	if len(s) > 0 && !bytes.ContainsAny(s, ",\"\r\n") && s[0] != ' ' && s[len(s)-1] != ' ' {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	for _, b := range s {
		if b == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, b)
	}
	return append(dst, '"')
}
