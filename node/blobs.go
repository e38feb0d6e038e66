package node

import "github.com/simnode/simnode/sim"

// blobs holds the payloads that do not fit a message. A message names its payload by the first word of
// its body.
type blobs struct {
	data [][]byte
	free []uint32
	used int
}

func (b *blobs) put(data []byte) uint64 {
	b.used++
	if n := len(b.free); n > 0 {
		i := b.free[n-1]
		b.free = b.free[:n-1]
		b.data[i] = data
		return uint64(i)
	}
	b.data = append(b.data, data)
	return uint64(len(b.data) - 1)
}

// take removes a payload and returns it.
func (b *blobs) take(i uint64) []byte {
	data := b.data[i]
	b.data[i] = nil
	b.free = append(b.free, uint32(i))
	b.used--
	return data
}

// isLarge reports whether the payload of m is kept among the blobs.
func (r *region) isLarge(m *sim.Message) bool {
	e := int(m.Event())
	return e < len(r.world.prog.Events) && r.world.prog.Events[e].Size > sim.InlinePayload
}

// NewPayload implements sim.Engine.
func (r *region) NewPayload(b *sim.Body, size int) []byte {
	// Words, so that any payload is aligned.
	data := alignedBytes(size)
	b.A = r.blobs.put(data)
	return data
}

// Payload implements sim.Engine.
func (r *region) Payload(m *sim.Message) []byte { return r.blobs.data[m.Body.A] }

// freeBlob gives the payload of a handled message back.
func (r *region) freeBlob(m *sim.Message) {
	if r.blobs.used > 0 && r.isLarge(m) {
		r.blobs.take(m.Body.A)
	}
}

func (r *region) digestBlob(m *sim.Message) uint64 {
	return sim.DigestBytes(0, r.Payload(m))
}
