package record

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/simnode/simnode/sim"
)

// FuzzText: any text comes back from a CSV file as it was (a reader takes CR LF for LF).
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a,b", `"`, "a\r\nb", "\r", " a ", "\xff", "=1+2", "é"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var b bytes.Buffer
		w, err := newCSV(&b, []column{{name: "x", typ: text}, {name: "y", typ: text}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.write([]cell{textCell(data), textCell([]byte("end"))}); err != nil {
			t.Fatal(err)
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		records, err := csv.NewReader(&b).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(string(data), "\r\n", "\n")
		if len(records) != 2 || records[1][0] != want || records[1][1] != "end" {
			t.Fatalf("read %q, want %q", records, want)
		}
	})
}

// FuzzRow: any bytes of the right length are a row, read as encoding/binary reads them.
func FuzzRow(f *testing.F) {
	f.Add(encode(f, contact{Call: [8]byte{'A'}}))
	f.Add(bytes.Repeat([]byte{0xff}, 80))
	f.Add([]byte("000000000000000000\x80\xff0000000000000000000000000\x0000000000000000")) // a signalling NaN
	f.Add([]byte{})
	p := program(f, 10)
	size := rowSize(mustFields(p))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := New(p, Options{Bins: 1})
		if err != nil {
			t.Fatal(err)
		}
		failed := r.Observe([]sim.Observation{{Series: contacts, Op: sim.OpRow, Row: data}})
		if err := r.Finish(10); err != nil {
			t.Fatal(err)
		}
		if len(data) != size {
			if failed == nil {
				t.Fatalf("no error for %d bytes", len(data))
			}
			return
		}
		data = bytes.Clone(data)
		data[0] &= 1
		var want contact
		if err := binary.Read(bytes.NewReader(data), binary.LittleEndian, &want); err != nil {
			t.Fatal(err)
		}
		if name := trimText(want.Call[:]); !utf8.Valid(name) {
			if failed == nil {
				t.Fatalf("no error for %q", name)
			}
			return
		}
		if failed != nil {
			t.Fatal(failed)
		}
		checkRow(t, mustFields(p), data, want)
	})
}

func mustFields(p *sim.Program) []field {
	_, fields := tableColumns(p.Series[contacts])
	return fields
}

func checkRow(t *testing.T, fields []field, data []byte, want contact) {
	t.Helper()
	var got []cell
	for _, f := range fields {
		got = append(got, f.cell(data))
	}
	if (got[0].bits != 0) != want.Seen || int64(got[1].bits) != int64(want.Small) || int64(got[2].bits) != int64(want.Level) ||
		got[3].bits != uint64(want.Mode) || got[4].bits != math.Float64bits(want.Distance) ||
		!sameFloat32(uint32(got[5].bits), want.Snr) || int64(got[6].bits) != int64(want.Since) ||
		int64(got[7].bits) != int64(want.Held) || got[8].bits != uint64(want.Other) ||
		string(got[9].text) != string(trimText(want.Call[:])) || got[10].bits != want.Entity {
		t.Fatalf("cells %+v, want %+v", got, want)
	}
}

// sameFloat32 compares bits, but for NaNs: on the way through binary.Read a signalling one becomes quiet.
func sameFloat32(bits uint32, want float32) bool {
	got := math.Float32frombits(bits)
	return bits == math.Float32bits(want) || got != got && want != want
}
