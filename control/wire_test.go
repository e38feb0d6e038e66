package control

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"runtime"
	"testing"

	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
	"pgregory.net/rapid"
)

// drawMessage draws any message; lists are nil where they are empty, as Parse gives them.
func drawMessage(t *rapid.T) Message {
	u := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 300))
	number := func() uint64 { return u.Draw(t, "number") }
	tm := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Just(int64(sim.Never)), rapid.Int64Min(0))
	moment := func() sim.Time { return sim.Time(tm.Draw(t, "time")) }
	span := func() sim.Duration { return sim.Duration(moment()) }
	flag := func() bool { return rapid.Bool().Draw(t, "flag") }
	region := func() int { return rapid.IntRange(0, MaxRegions-1).Draw(t, "region") }
	count := func() int { return rapid.IntRange(0, 4).Draw(t, "count") }
	text := func() string { return rapid.String().Draw(t, "text") }
	data := func() []byte {
		if b := rapid.SliceOf(rapid.Byte()).Draw(t, "data"); len(b) > 0 {
			return b
		}
		return nil
	}
	frames := func() (list []uint64) {
		for range count() {
			list = append(list, number())
		}
		return list
	}
	asides := func() Asides {
		a := Asides{StopAsked: flag(), Backlog: flag(), Observed: number(), Events: number()}
		if flag() {
			a.Failure = &Failure{moment(), number(), number(), text()}
		}
		return a
	}
	h := Header{number(), number()}
	finish := func() *Finish {
		return &Finish{h, moment(), Ending(rapid.IntRange(1, 4).Draw(t, "how")), text()}
	}
	switch rapid.ByteRange(kindAssume, kindRestored).Draw(t, "kind") {
	case kindAssume:
		return &Assume{h}
	case kindSettle:
		return &Settle{h, frames(), flag()}
	case kindGrants:
		m := &Grants{Header: h, Serial: number(), Cut: number()}
		for range count() {
			g := lbts.Grant{Region: region(), Bound: moment()}
			for range count() {
				g.Needs = append(g.Needs, lbts.Need{From: region(), Batch: number()})
			}
			m.Grants = append(m.Grants, g)
		}
		return m
	case kindCut:
		return &Cut{h, number(), moment(), Saving{number(), number()}}
	case kindRetrieve:
		return &Retrieve{h}
	case kindRetrieved:
		return &Retrieved{h}
	case kindAbandon:
		return &Abandon{h, number()}
	case kindUnfit:
		return &Unfit{h, number(), region(), text()}
	case kindStored:
		m := &Stored{Header: h, Number: number(), Err: text()}
		m.Part = CheckpointPart{Member: text(), Boot: text(), Partner: text(), Archived: flag(), Root: text(), Base: number(), Chunks: count(),
			Bytes: number(), Entities: number(), Events: number(), Digest: number()}
		for range count() {
			m.Part.Regions = append(m.Part.Regions, region())
		}
		return m
	case kindRestored:
		return &Restored{h, data(), flag()}
	case kindFloor:
		return &Floor{h, moment(), frames()}
	case kindFinish:
		return finish()
	case kindPing:
		return &Ping{h}
	case kindFrozen:
		m := &Frozen{Header: h, Sent: frames(), Observed: number(), CutNumber: number(), CutAt: moment(), CutDone: flag(),
			CutSaving: Saving{number(), number()}, Save: number(), SaveAt: moment(), SaveGivenUp: flag(), Restored: flag()}
		if flag() {
			m.Finishing = finish()
		}
		return m
	case kindFull:
		m := &Full{Header: h, Shape: Shape{End: moment(), CutEvery: span(), StopEvery: span(), Digest: number()}, Asides: asides()}
		for range count() {
			m.Regions = append(m.Regions, RegionState{region(), moment(), moment()})
		}
		for range count() {
			m.Shape.Lookahead = append(m.Shape.Lookahead, span())
		}
		return m
	case kindReport:
		m := &Report{Header: h, Asides: asides()}
		for range count() {
			r := lbts.Report{Region: region(), Next: moment()}
			for range count() {
				r.Sent = append(r.Sent, lbts.Sent{To: region(), Batch: number(), Least: moment()})
			}
			for range count() {
				r.Received = append(r.Received, lbts.Received{From: region(), Batch: number()})
			}
			m.Regions = append(m.Regions, r)
		}
		return m
	case kindCutDone:
		m := &CutDone{Header: h, Number: number(), Asides: asides()}
		for range count() {
			m.Next = append(m.Next, moment())
		}
		return m
	case kindRecorded:
		return &Recorded{h, data()}
	case kindBroken:
		return &Broken{h, text(), flag()}
	case kindPong:
		return &Pong{h, text()}
	case kindBatch:
		return &Batch{h, number(), data()}
	case kindParcel:
		return &Parcel{h, number(), moment(), Saving{number(), number()}, data()}
	case kindObserved:
		return &Observed{h, number(), data()}
	}
	return &Final{h, data(), flag()}
}

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		data := Append([]byte("before"), m)[6:]
		got, err := Parse(data)
		if err != nil {
			t.Fatalf("%#v: %v", m, err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Fatalf("got %#v\nwant %#v", got, m)
		}
		// No part of a message is a message, nor is one with more after it.
		cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut")
		for _, wrong := range [][]byte{data[:cut], append(bytes.Clone(data), 0)} {
			var malformed *Malformed
			if got, err := Parse(wrong); !errors.As(err, &malformed) {
				t.Fatalf("%x was read as %#v", wrong, got)
			}
		}
	})
}

// TestFault32MalformedMessages: a message that claims to be huge is refused without room for it.
func TestFault32MalformedMessages(t *testing.T) {
	huge := binary.AppendUvarint(nil, 1<<32)
	for kind := byte(0); kind < 40; kind++ {
		for _, tail := range [][]byte{nil, huge, bytes.Repeat(huge, 3), bytes.Repeat([]byte{0xff}, 40), bytes.Repeat([]byte{0x80}, 12)} {
			data := append([]byte{kind, 1, 1}, tail...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			m, err := Parse(data)
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 1<<16 {
				t.Errorf("kind %d: %d bytes were allocated for a message of %d", kind, got, len(data))
			}
			if err == nil && !bytes.Equal(Append(nil, m), data) {
				t.Errorf("%x was read as %#v", data, m)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, m := range []Message{
		&Assume{Header{1, 2}}, &Settle{Header{1, 2}, []uint64{1, 2}, true},
		&Grants{Header{1, 2}, 3, 1, []lbts.Grant{{Region: 1, Bound: 5, Needs: []lbts.Need{{From: 0, Batch: 4}}}}},
		&Report{Header{1, 2}, []lbts.Report{{Region: 1, Next: 4, Sent: []lbts.Sent{{To: 0, Batch: 1, Least: 9}}, Received: []lbts.Received{{From: 2, Batch: 7}}}}, Asides{Failure: &Failure{1, 2, 3, "x"}}},
		&Frozen{Header: Header{1, 2}, Sent: []uint64{0, 4}, Finishing: &Finish{Header{1, 1}, 9, EndFailed, "why"}},
		&Full{Header: Header{1, 2}, Regions: []RegionState{{1, 2, 3}}, Shape: Shape{End: 9, Lookahead: []sim.Duration{4}}},
		&CutDone{Header: Header{1, 2}, Number: 2, Next: []sim.Time{sim.Never}}, &Batch{Header{1, 0}, 4, []byte("data")}, &Final{Header{1, 0}, nil, true},
		&Finish{Header{1, 2}, 7, EndStopped, ""}, &Parcel{Header{1, 0}, 1, 5, Saving{4, 3}, []byte("p")},
		&Cut{Header{1, 2}, 3, 50, Saving{4, 3}}, &Retrieve{Header{1, 2}}, &Retrieved{Header{1, 2}}, &Abandon{Header{1, 2}, 4}, &Unfit{Header{1, 2}, 4, 1, "why"},
		&Stored{Header{1, 2}, 4, CheckpointPart{Member: "a", Regions: []int{0, 1}, Root: "ab", Base: 3, Digest: 7}, ""}, &Restored{Header{1, 0}, []byte("x"), true},
	} {
		f.Add(Append(nil, m))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		if again := Append(nil, m); !bytes.Equal(again, data) {
			t.Fatalf("%x was read as %#v, which is written as %x", data, m, again)
		}
	})
}

// TestMessagesOfAnyKindNeverPanic feeds both machines messages that nobody would send.
func TestMessagesOfAnyKindNeverPanic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &toyModel{seed: 1, entities: 3, regions: 2, ahead: 2, end: 30, cutEvery: 10, stopper: -1, first: []toyEvent{{1, 0, 1, 1, 5}}}
		c := newToyCluster(m, []string{"a", "b"}, []Role{Both, Both}, patient())
		c.submit(Spec{Regions: 2, Nodes: 2})
		c.lead(0)
		steps := rapid.IntRange(0, 120).Draw(t, "steps")
		k := 0
		pick := func(n int) int { k++; return (k * 7919) % n }
		for range steps {
			if list := c.actions(3); len(list) > 0 {
				list[pick(len(list))].do()
			}
		}
		for range 5 {
			x := drawMessage(t)
			h := header(x)
			h.Epoch, h.Term = rapid.Uint64Range(0, 2).Draw(t, "epoch"), rapid.Uint64Range(0, 2).Draw(t, "term")
			if safeForToy(x) {
				c.give(rapid.IntRange(0, 1).Draw(t, "to"), Heard{rapid.SampledFrom([]string{"a", "b", "z"}).Draw(t, "from"), "1", x})
			}
		}
	})
}

// safeForToy leaves out payloads, which the toy does not check.
func safeForToy(m Message) bool {
	switch m := m.(type) {
	case *Batch, *Parcel, *Observed, *Final, *Restored, *Retrieve, *Abandon:
		return false
	case *Cut:
		return m.Save == 0
	case *Grants:
		return len(m.Grants) == 0
	case *Floor:
		return len(m.Frames) == 2
	}
	return true
}
