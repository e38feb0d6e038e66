package record

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"hash/crc32"
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

// FuzzResume: no state makes Resume panic, and what it takes can be saved, resumed and finished.
func FuzzResume(f *testing.F) {
	for _, o := range []Options{{}, {Level: Raw, CSV: true, Parquet: true, Rebin: true, Dir: f.TempDir()}} {
		r, state := resumable(f, o)
		f.Add(state[stateHead : len(state)-stateSum])
		for i := range exactValues + 100 {
			if err := r.Observe([]sim.Observation{{Time: 9, Series: wait, Op: sim.OpSet, Value: float64(i%100) - 50}}); err != nil {
				f.Fatal(err)
			}
		}
		state, err := r.Save()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(state[stateHead : len(state)-stateSum])
		mustClose(f, r)
	}
	p := program(f, 100, 2, 50)
	f.Fuzz(func(t *testing.T, data []byte) {
		state := sealState(append(append([]byte(stateMagic), stateVersion), data...))
		for _, s := range [][]byte{data, state} {
			if _, err := Files(s); err != nil && err.Error() == "" {
				t.Fatal("an error that says nothing")
			}
		}
		if _, err := Resume(p, Options{}, data); err == nil {
			t.Fatal("a state without a head is taken")
		}
		r, err := Resume(p, Options{}, state)
		if err != nil {
			return
		}
		first, err := r.Save()
		if err != nil {
			t.Fatal(err)
		}
		if r, err = Resume(p, Options{}, first); err != nil {
			t.Fatal(err)
		}
		if second, err := r.Save(); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("saved %x and then %x: %v", first, second, err)
		}
		// Sums of any bits may be no numbers, times may have gone far: only panics count.
		_ = r.Observe([]sim.Observation{{Time: 99, Series: wait, Op: sim.OpSet, Value: 3}, {Time: 99, Series: airborne, Op: sim.OpSet, Value: 3}})
		if err := r.Finish(100); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzSpool: no spool makes the reader panic, and what it reads comes back when it is written again.
func FuzzSpool(f *testing.F) {
	r, _ := resumable(f, Options{Level: Raw, Parquet: true, Rebin: true, Dir: f.TempDir()})
	whole := make([]byte, r.spool.out.length)
	if _, err := r.spool.out.file.ReadAt(whole, 0); err != nil {
		f.Fatal(err)
	}
	mustClose(f, r)
	f.Add(whole)
	f.Add(whole[len(spoolMagic)+blockHead:])
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := readSpool(bytes.NewReader(data), int64(len(data)), r.series, func(*sim.Observation) (bool, error) { return true, nil }); err != nil && err.Error() == "" {
			t.Fatal("an error that says nothing")
		}
		block := binary.LittleEndian.AppendUint32([]byte(spoolMagic), uint32(len(data)))
		block = binary.LittleEndian.AppendUint32(block, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
		block = append(block, data...)
		again := newSpool(&output{out: &appender{}})
		write := func(o *sim.Observation) (bool, error) { return true, again.add(o) }
		if err := readSpool(bytes.NewReader(block), int64(len(block)), r.series, write); err != nil {
			return
		}
		if err := again.seal(); err != nil || len(data) >= spoolBlock {
			return
		}
		first := append([]byte(spoolMagic), again.out.buf...)
		again = newSpool(&output{out: &appender{}})
		if err := readSpool(bytes.NewReader(first), int64(len(first)), r.series, write); err != nil {
			t.Fatal(err)
		}
		if err := again.seal(); err != nil || !bytes.Equal(again.out.buf, first[len(spoolMagic):]) {
			t.Fatalf("read %x, then %x: %v", first, again.out.buf, err)
		}
	})
}
