package sim

import (
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// The digest of a run is compared between releases and machines: these values never change.
func TestDigestKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"Digest(0,0,0)", Digest(0, 0, 0), 0x1ff5c2923a788d2c},
		{"Digest(1,2,3)", Digest(1, 2, 3), 0x6800f630eea3e436},
		{"Digest(max,max,max)", Digest(^uint64(0), ^uint64(0), ^uint64(0)), 0x200672a2c4899376},
		{"DigestBytes(0,nil)", DigestBytes(0, nil), 0xbcc475f024624a08},
		{"DigestBytes(1,simnode)", DigestBytes(1, []byte("simnode")), 0xb03046ae453338ab},
		{"DigestBytes(1,16 bytes)", DigestBytes(1, []byte("0123456789abcdef")), 0xdd71c3e77cb1936d},
		{"DigestBytes(1,17 bytes)", DigestBytes(1, []byte("0123456789abcdefg")), 0x49c5d742b0613b82},
		{"Finish(0,0)", Finish(0, 0), 0x0},
		{"Finish(7,42)", Finish(7, 42), 0xec82485eec5d3ee6},
		{"ChildID(1,0)", uint64(ChildID(1, 0)), 0x1e220a8397b1dcda},
		{"ChildID(1,1)", uint64(ChildID(1, 1)), 0x107776f161bd8ea2},
		{"ChildID(2,0)", uint64(ChildID(2, 0)), 0x16e789e6aa1b965f},
	} {
		if c.got != c.want {
			t.Errorf("%s = %#x, not %#x", c.name, c.got, c.want)
		}
	}
}

// Digest by 128-bit arithmetic written out in 32-bit halves.
func TestDigestFoldsTheFullProduct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, a, b := rapid.Uint64().Draw(t, "h"), rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		x, y := h^a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db
		x0, x1, y0, y1 := x&0xffffffff, x>>32, y&0xffffffff, y>>32
		mid := x1*y0 + x0*y0>>32
		mid2 := x0*y1 + mid&0xffffffff
		hi, lo := x1*y1+mid>>32+mid2>>32, x*y
		if got := Digest(h, a, b); got != hi^lo^h<<1 {
			t.Fatalf("Digest(%#x, %#x, %#x) = %#x", h, a, b, got)
		}
	})
}

func TestDigestAvalanche(t *testing.T) {
	r := NewRand(1, 1)
	for word := range 3 {
		flips := 0
		for range 200 {
			in := [3]uint64{r.Uint64(), r.Uint64(), r.Uint64()}
			before := Finish(Digest(in[0], in[1], in[2]), 1)
			for bit := range 64 {
				out := in
				out[word] ^= 1 << bit
				after := Finish(Digest(out[0], out[1], out[2]), 1)
				if after == before {
					t.Fatalf("bit %d of word %d of %x changes nothing", bit, word, in)
				}
				flips += bits.OnesCount64(before ^ after)
			}
		}
		// 12,800 flips of 64 bits: the mean is 32 with a deviation of 4/sqrt(12800) = 0.035.
		if mean := float64(flips) / (200 * 64); mean < 31.8 || mean > 32.2 {
			t.Errorf("a bit of word %d flips %.2f bits of the digest on average, not 32", word, mean)
		}
	}
}

func TestDigestBytesTellsLengthsOfZerosApart(t *testing.T) {
	seen := map[uint64]int{}
	for n := range 1025 {
		h := DigestBytes(0, make([]byte, n))
		if m, ok := seen[h]; ok {
			t.Fatalf("%d and %d zero bytes have one digest", m, n)
		}
		seen[h] = n
	}
}

func TestDigestBytesSeesEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, data := rapid.Uint64().Draw(t, "h"), rapid.SliceOfN(rapid.Byte(), 1, 80).Draw(t, "data")
		before := DigestBytes(h, data)
		i := rapid.IntRange(0, len(data)-1).Draw(t, "byte")
		data[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if DigestBytes(h, data) == before {
			t.Fatalf("byte %d of %d changes nothing", i, len(data))
		}
		if DigestBytes(h+1, data) == DigestBytes(h, data) {
			t.Fatal("what was digested before changes nothing")
		}
	})
}

func TestDigestDependsOnOrder(t *testing.T) {
	r := NewRand(2, 2)
	for range 1000 {
		a, b, c, d := r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()
		if Digest(Digest(0, a, b), c, d) == Digest(Digest(0, c, d), a, b) {
			t.Fatal("two steps of a digest can be swapped")
		}
		if Digest(0, a, b) == Digest(0, b, a) {
			t.Fatal("two words of a digest can be swapped")
		}
	}
}

// Ids of spawned entities are 60 hashed bits: among a million none collide with these seeds, and
// none is the id of an entity of the scenario.
func TestChildIDsDoNotCollide(t *testing.T) {
	seen := make(map[EntityID]struct{}, 300_000)
	add := func(id EntityID) {
		if id>>60 != 1 {
			t.Fatalf("id %#x: the top bit of an id must be set and none above it", id)
		}
		if _, ok := seen[id]; ok {
			t.Fatalf("id %#x comes twice", id)
		}
		seen[id] = struct{}{}
	}
	for parent := EntityID(1); parent <= 300; parent++ {
		for seq := range uint64(500) {
			add(ChildID(parent, seq))
		}
	}
	line := EntityID(1000)
	for range 100_000 {
		line = ChildID(line, 0)
		add(line)
	}
}

func TestMessageOrderIsTimePrioritySourceSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (Time, Priority, EntityID, uint64) {
			return Time(rapid.Int64Range(0, 2).Draw(t, name+" time")),
				Priority(rapid.IntRange(0, int(Statistics)).Draw(t, name+" priority")),
				EntityID(rapid.SampledFrom([]uint64{0, 1, 2, 1<<61 - 1, 1 << 60}).Draw(t, name+" source")),
				rapid.SampledFrom([]uint64{0, 1, 2, 1<<48 - 1}).Draw(t, name+" sequence")
		}
		at, ap, as, aq := draw("a")
		bt, bp, bs, bq := draw("b")
		a := Message{Time: at, Key: MakeKey(ap, as), Seq: aq<<16 | 9}
		b := Message{Time: bt, Key: MakeKey(bp, bs), Seq: bq<<16 | 9}
		if a.Priority() != ap || a.Source() != as || a.Event() != 9 {
			t.Fatalf("packed (%v, %d), read (%v, %d)", ap, as, a.Priority(), a.Source())
		}
		want := aq < bq
		switch {
		case at != bt:
			want = at < bt
		case ap != bp:
			want = ap < bp
		case as != bs:
			want = as < bs
		}
		if a.Before(&b) != want {
			t.Fatalf("%+v before %+v: %v", a, b, !want)
		}
	})
}
