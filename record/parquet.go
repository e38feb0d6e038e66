package record

import (
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
)

const (
	// batchRows are handed to the library at once.
	batchRows = 256
	// groupRows make a row group, which the library holds in memory until it is written.
	groupRows = 1 << 16
)

// parquetWriter writes rows as Parquet, compressed with Snappy. The bytes depend on the rows
// alone: batches are counted in rows and the file names no time and no version of a library.
type parquetWriter struct {
	out     *parquet.GenericWriter[any]
	columns []column
	rows    []parquet.Row
	// text of the rows waiting, which outlives the caller's.
	text []byte
}

func newParquet(w io.Writer, columns []column) *parquetWriter {
	schema := parquet.NewSchema("row", newRoot(columns))
	return &parquetWriter{columns: columns, out: parquet.NewGenericWriter[any](w, schema,
		parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(groupRows), parquet.CreatedBy("simnode", "1", ""))}
}

// root is a group whose fields stay in the order of the columns; parquet.Group sorts them by name.
type root struct {
	parquet.Group
	order []parquet.Field
}

// Fields returns the columns in their order.
func (r root) Fields() []parquet.Field { return r.order }

func newRoot(columns []column) root {
	r := root{Group: parquet.Group{}}
	for _, c := range columns {
		r.Group[c.name] = c.node()
	}
	byName := make(map[string]parquet.Field, len(columns))
	for _, f := range r.Group.Fields() {
		byName[f.Name()] = f
	}
	for _, c := range columns {
		r.order = append(r.order, byName[c.name])
	}
	return r
}

func (c column) node() (n parquet.Node) {
	switch c.typ {
	case boolean:
		n = parquet.Leaf(parquet.BooleanType)
	case integer:
		n = parquet.Encoded(parquet.Int(64), &parquet.DeltaBinaryPacked)
	case unsigned:
		n = parquet.Encoded(parquet.Uint(64), &parquet.DeltaBinaryPacked)
	case float32s:
		n = parquet.Leaf(parquet.FloatType)
	case float64s:
		n = parquet.Leaf(parquet.DoubleType)
	case text:
		n = parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
	}
	if c.optional {
		return parquet.Optional(n)
	}
	return n
}

func (p *parquetWriter) write(row []cell) error {
	n := len(p.rows)
	if n < cap(p.rows) {
		p.rows = p.rows[:n+1]
	} else {
		p.rows = append(p.rows, nil)
	}
	values := p.rows[n][:0]
	for i, v := range row {
		values = append(values, p.value(v, i))
	}
	p.rows[n] = values
	if len(p.rows) < batchRows {
		return nil
	}
	return p.flush()
}

func (p *parquetWriter) value(v cell, i int) parquet.Value {
	c := p.columns[i]
	defined := 0
	if c.optional && !v.null {
		defined = 1
	}
	return p.plain(v, c).Level(0, defined, i)
}

func (p *parquetWriter) plain(v cell, c column) parquet.Value {
	if v.null {
		return parquet.NullValue()
	}
	switch c.typ {
	case boolean:
		return parquet.BooleanValue(v.bits != 0)
	case integer, unsigned:
		return parquet.Int64Value(int64(v.bits))
	case float32s:
		return parquet.FloatValue(math.Float32frombits(uint32(v.bits)))
	case float64s:
		return parquet.DoubleValue(math.Float64frombits(v.bits))
	}
	at := len(p.text)
	p.text = append(p.text, v.text...)
	return parquet.ByteArrayValue(p.text[at:])
}

func (p *parquetWriter) flush() error {
	_, err := p.out.WriteRows(p.rows)
	p.rows, p.text = p.rows[:0], p.text[:0]
	return err
}

func (p *parquetWriter) close() error {
	if err := p.flush(); err != nil {
		return err
	}
	return p.out.Close()
}
