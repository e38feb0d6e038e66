package chaos

import (
	"fmt"
	"slices"

	"github.com/simnode/simnode/sim"
)

// platter is a node's disk as far as checkpoints go. It outlives the node's processes. What was not synced is
// lost when the process is killed, or torn.
type platter struct {
	parts map[partKey]*storedPart // keys give the order where it is iterated
	keys  []partKey
	// full counts what makes writing fail.
	full int
	// hurt says that something on it was lost or altered, which it cannot be blamed for.
	hurt bool
}

// partKey names a part of a checkpoint of a job.
type partKey struct {
	job    string
	number uint64
	part   int
}

// storedPart is the increment of a part.
type storedPart struct {
	chunks []storedChunk
	base   uint64
	// tape is how many observations were recorded up to the checkpoint, -1 where the member does not record.
	tape   int
	root   string
	synced bool
}

type storedChunk struct {
	region int
	kind   byte
	data   []byte
}

func newPlatter() *platter { return &platter{parts: map[partKey]*storedPart{}} }

// begin makes room for a part, in place of what was there of it.
func (d *platter) begin(k partKey) *storedPart {
	if d.parts[k] == nil {
		d.keys = append(d.keys, k)
	}
	p := &storedPart{tape: -1}
	d.parts[k] = p
	return p
}

func (d *platter) remove(k partKey) {
	delete(d.parts, k)
	d.keys = slices.DeleteFunc(d.keys, func(x partKey) bool { return x == k })
}

// prune removes what a job does not need of its checkpoints up to a number.
func (d *platter) prune(job string, upTo uint64, needed []uint64) {
	for _, k := range slices.Clone(d.keys) {
		if k.job == job && k.number <= upTo && !slices.Contains(needed, k.number) {
			d.remove(k)
		}
	}
}

// crash loses what is not synced, or leaves some of it.
func (d *platter) crash(r *stream) {
	for _, k := range slices.Clone(d.keys) {
		p := d.parts[k]
		switch {
		case p.synced:
		case r.Bernoulli(0.5):
			d.remove(k)
		default:
			p.chunks = p.chunks[:r.n(len(p.chunks)+1)]
			p.synced = true // what is left stays
		}
	}
}

// copy returns what the disk holds now, as a copy that is put back later.
func (d *platter) copy() *platter {
	c := newPlatter()
	c.hurt = true
	for _, k := range d.keys {
		if p := *d.parts[k]; p.synced {
			p.chunks = slices.Clone(p.chunks)
			c.parts[k], c.keys = &p, append(c.keys, k)
		}
	}
	return c
}

// wipe loses everything.
func (d *platter) wipe() {
	*d = *newPlatter()
	d.hurt = true
}

// flip alters a bit of something that is stored; it reports whether there was anything.
func (d *platter) flip(r *stream) bool {
	var full []*storedPart
	for _, k := range d.keys {
		if p := d.parts[k]; p.synced && len(p.chunks) > 0 {
			full = append(full, p)
		}
	}
	if len(full) == 0 {
		return false
	}
	p := full[r.n(len(full))]
	c := &p.chunks[r.n(len(p.chunks))]
	c.data = slices.Clone(c.data) // others may hold the same bytes
	c.data[r.n(len(c.data))] ^= 1 << r.n(8)
	d.hurt = true
	return true
}

// sum is a hash over all of the part.
func (p *storedPart) sum() string {
	h := sim.Digest(p.base, uint64(p.tape+1), uint64(len(p.chunks)))
	for i := range p.chunks {
		c := &p.chunks[i]
		h = sim.DigestBytes(sim.Digest(h, uint64(c.region), uint64(c.kind)), c.data)
	}
	return fmt.Sprintf("%016x", h)
}

// good reports whether the part with a root is there as it was written, with all the increments that it needs:
// those of chain from its base on.
func (d *platter) good(k partKey, root string, chain []uint64) error {
	p := d.parts[k]
	switch {
	case p == nil:
		return fmt.Errorf("it is not there")
	case p.root != root:
		return fmt.Errorf("its root is %s instead of %s", p.root, root)
	}
	for _, n := range chain {
		if n < p.base {
			continue
		}
		x := d.parts[partKey{k.job, n, k.part}]
		if x == nil {
			return fmt.Errorf("the increment of checkpoint %d is not there", n)
		}
		if x.sum() != x.root {
			return fmt.Errorf("the increment of checkpoint %d is damaged", n)
		}
	}
	return nil
}
