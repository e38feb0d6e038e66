package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/simnode/simnode/sim"
)

// cellType is the sort of a column's cells.
type cellType uint8

const (
	boolean cellType = iota
	integer
	unsigned
	float32s
	float64s
	text
)

// column of a file.
type column struct {
	name string
	typ  cellType
	// optional cells may be null.
	optional bool
}

// cell is one value on its way into a file. Its meaning follows its column.
type cell struct {
	bits uint64
	text []byte
	null bool
}

func intCell(v int64) cell     { return cell{bits: uint64(v)} }
func uintCell(v uint64) cell   { return cell{bits: v} }
func floatCell(v float64) cell { return cell{bits: math.Float64bits(v)} }
func textCell(v []byte) cell   { return cell{text: v} }

// floatOrNull makes NaN a null.
func floatOrNull(v float64) cell {
	if math.IsNaN(v) {
		return cell{null: true}
	}
	return floatCell(v)
}

// header joins a name and its unit to the name of a column. What a reader of CSV or Parquet would
// trip over becomes an underscore.
func header(name, unit string) string {
	if unit != "" && unit != "1" {
		name += "_" + unit
	}
	if name == "" {
		name = "column"
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(",;\"'`\\.", r) {
			return '_'
		}
		return r
	}, name)
}

// distinct numbers names that repeat: a, a_2, a_3.
func distinct(columns []column) []column {
	seen := make(map[string]bool)
	for i := range columns {
		base := columns[i].name
		for n := 2; seen[columns[i].name]; n++ {
			columns[i].name = fmt.Sprintf("%s_%d", base, n)
		}
		seen[columns[i].name] = true
	}
	return columns
}

// field reads one column of a table from the encoding of a row.
type field struct {
	name   string
	offset int
	size   int
	kind   reflect.Kind
}

// tableColumns returns the columns of a table's file and how to read them from a row.
func tableColumns(info *sim.SeriesInfo) ([]column, []field) {
	columns := []column{{name: "time_s", typ: float64s}, {name: "time_ns", typ: integer}, {name: "entity", typ: unsigned}}
	var fields []field
	for _, c := range info.Columns {
		unit := c.Unit
		if c.Type == reflect.TypeFor[sim.Time]() || c.Type == reflect.TypeFor[sim.Duration]() {
			unit = "ns"
		}
		f := field{name: c.Name, offset: c.Offset, size: int(c.Type.Size()), kind: c.Type.Kind()}
		columns = append(columns, column{name: header(c.Name, unit), typ: f.cellType()})
		fields = append(fields, f)
	}
	return distinct(columns), fields
}

// rowSize is the length of the encoding of a row.
func rowSize(fields []field) int {
	if len(fields) == 0 {
		return 0
	}
	last := fields[len(fields)-1]
	return last.offset + last.size
}

func (f field) cellType() cellType {
	switch f.kind {
	case reflect.Bool:
		return boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return integer
	case reflect.Float32:
		return float32s
	case reflect.Float64:
		return float64s
	case reflect.Array:
		return text
	}
	return unsigned
}

// cell reads the field from a row.
func (f field) cell(row []byte) cell {
	b := row[f.offset : f.offset+f.size]
	if f.kind == reflect.Array {
		return textCell(trimText(b))
	}
	v := littleEndian(b)
	if f.cellType() == integer {
		shift := 64 - 8*f.size
		return intCell(int64(v<<shift) >> shift)
	}
	return uintCell(v)
}

// trimText cuts text at its first zero byte.
func trimText(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

func littleEndian(b []byte) uint64 {
	var word [8]byte
	copy(word[:], b)
	return binary.LittleEndian.Uint64(word[:])
}
