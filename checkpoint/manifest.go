package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/simnode/simnode/sim"
)

// Format is the version of what is stored. A folder or file of another version is refused.
const Format = 1

// maxIndex is the largest number of a region and of a part.
const maxIndex = 1<<16 - 1

// A Part is what one member stores of a checkpoint: its regions. Equal content has an equal Root, wherever it is.
type Part struct {
	Number uint64 `json:"number"`
	Part   int    `json:"part"`
	// Chain names the older increments that this part builds on, oldest first, none below the least base of its
	// regions.
	Chain []Link `json:"chain,omitempty"`
	// Regions are in ascending order.
	Regions []RegionPart `json:"regions"`
	// Root is the SHA-256, in hex, over all of the above.
	Root string `json:"root"`
}

// A Link names the part of an older checkpoint with the same part number.
type Link struct {
	Number uint64 `json:"number"`
	Root   string `json:"root"`
}

// A RegionPart is what a part holds of one region.
type RegionPart struct {
	Region int `json:"region"`
	// Chunks and Bytes count what this checkpoint wrote of the region; Root is the SHA-256, in hex, over the kind,
	// length and hash of each chunk in order. The Writer fills them in.
	Chunks int    `json:"chunks"`
	Bytes  uint64 `json:"bytes"`
	Root   string `json:"root"`
	// Base is the oldest checkpoint whose increment the region needs; the rest is the caller's.
	Base     uint64 `json:"base"`
	Entities uint64 `json:"entities"`
	Events   uint64 `json:"events"`
	Digest   uint64 `json:"digest"`
}

// A PartRef names a part in a manifest.
type PartRef struct {
	Part   int    `json:"part"`
	Root   string `json:"root"`
	Base   uint64 `json:"base"`
	Chunks int    `json:"chunks"`
	Bytes  uint64 `json:"bytes"`
	// Holders are the nodes that store it.
	Holders []string `json:"holders,omitempty"`
}

// A Manifest makes parts a checkpoint. All but Number, Parts and Chain mean nothing to the store.
type Manifest struct {
	Format int `json:"format"`
	// Number is that of the checkpoint, Parent that of the one it came after (0: none), Epoch the cluster's.
	Number uint64 `json:"number"`
	Parent uint64 `json:"parent"`
	Epoch  uint64 `json:"epoch"`
	// Chain are the increments that it needs, ascending, its own last.
	Chain []uint64 `json:"chain"`
	// At is the simulated time of the cut: every event before it has run, and none other.
	At sim.Time `json:"at"`
	// Scenario and Model are hashes or names, Arch the machine's architecture, as the caller gives them.
	Scenario string `json:"scenario"`
	Model    string `json:"model"`
	Seed     string `json:"seed"`
	Arch     string `json:"arch"`
	// Parts are in ascending order.
	Parts []PartRef `json:"parts"`
	// Written is the wall time of the commit; it is shown and never used.
	Written time.Time `json:"written"`
	// Meta is the caller's: regions, nodes, positions in files.
	Meta json.RawMessage `json:"meta,omitempty"`
}

// Ref returns what a manifest says of the part.
func (p *Part) Ref(holders ...string) PartRef {
	r := PartRef{Part: p.Part, Root: p.Root, Base: p.base(), Holders: holders}
	for _, g := range p.Regions {
		r.Chunks += g.Chunks
		r.Bytes += g.Bytes
	}
	return r
}

// Region returns what the part holds of a region.
func (p *Part) Region(region int) (RegionPart, bool) {
	i, ok := slices.BinarySearchFunc(p.Regions, region, func(g RegionPart, r int) int { return g.Region - r })
	if !ok {
		return RegionPart{}, false
	}
	return p.Regions[i], true
}

// base is the oldest increment that the part needs.
func (p *Part) base() uint64 {
	b := p.Number
	for _, g := range p.Regions {
		b = min(b, g.Base)
	}
	return b
}

func (p *Part) bytes() uint64 { return p.Ref().Bytes }

func (p *Part) increment() increment { return increment{p.Number, p.Part} }

// root computes Root.
func (p *Part) root() string {
	h := sha256.New()
	u := func(v uint64) {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], v)
		h.Write(b[:])
	}
	text := func(s string) {
		u(uint64(len(s)))
		h.Write([]byte(s))
	}
	u(Format)
	u(p.Number)
	u(uint64(p.Part))
	u(uint64(len(p.Chain)))
	for _, l := range p.Chain {
		u(l.Number)
		text(l.Root)
	}
	u(uint64(len(p.Regions)))
	for _, g := range p.Regions {
		for _, v := range []uint64{uint64(g.Region), uint64(g.Chunks), g.Bytes, g.Base, g.Entities, g.Events, g.Digest} {
			u(v)
		}
		text(g.Root)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// check says what is wrong with a part that was read or is to be stored.
func (p *Part) check() error {
	if p.Number == 0 || p.Number > maxNumber || p.Part < 0 || p.Part > maxIndex {
		return fmt.Errorf("checkpoint %d, part %d: numbers are from 1 and parts from 0 to %d", p.Number, p.Part, maxIndex)
	}
	if p.Root != p.root() {
		return errors.New("the list of regions does not have the root that stands beside it")
	}
	for i, l := range p.Chain {
		if l.Number >= p.Number || i > 0 && l.Number <= p.Chain[i-1].Number || l.Number == 0 {
			return errors.New("the chain does not ascend to the checkpoint")
		}
	}
	for i, g := range p.Regions {
		if g.Region < 0 || g.Region > maxIndex || i > 0 && g.Region <= p.Regions[i-1].Region {
			return errors.New("the regions do not ascend")
		}
		if g.Chunks < 0 || !p.has(g.Base) {
			return fmt.Errorf("region %d: base %d is not in the chain", g.Region, g.Base)
		}
	}
	return nil
}

// has reports whether the part builds on the increment of number n, or is it.
func (p *Part) has(n uint64) bool {
	if n == p.Number {
		return true
	}
	_, ok := slices.BinarySearchFunc(p.Chain, n, func(l Link, n uint64) int {
		if l.Number < n {
			return -1
		} else if l.Number > n {
			return 1
		}
		return 0
	})
	return ok
}

// Check says what is wrong with a manifest.
func (m *Manifest) Check() error {
	if m.Format != Format {
		return fmt.Errorf("checkpoint %d has format %d; this program reads and writes format %d", m.Number, m.Format, Format)
	}
	if m.Number == 0 || m.Number > maxNumber {
		return fmt.Errorf("a checkpoint has number %d; numbers are from 1 to %d", m.Number, uint64(maxNumber))
	}
	if m.Parent >= m.Number {
		return fmt.Errorf("checkpoint %d names %d as its parent, which is not older", m.Number, m.Parent)
	}
	if n := len(m.Chain); n == 0 || m.Chain[n-1] != m.Number {
		return fmt.Errorf("checkpoint %d: the chain must end with its own number", m.Number)
	}
	for i, c := range m.Chain {
		if i > 0 && c <= m.Chain[i-1] || c == 0 {
			return fmt.Errorf("checkpoint %d: the chain does not ascend at %d", m.Number, c)
		}
	}
	for i, p := range m.Parts {
		if p.Part < 0 || p.Part > maxIndex || i > 0 && p.Part <= m.Parts[i-1].Part {
			return fmt.Errorf("checkpoint %d: the parts do not ascend at %d", m.Number, p.Part)
		}
		if !slices.Contains(m.Chain, p.Base) {
			return fmt.Errorf("checkpoint %d: part %d needs %d, which is not in the chain", m.Number, p.Part, p.Base)
		}
	}
	return nil
}

// Part returns what the manifest says of a part.
func (m *Manifest) Part(part int) (PartRef, bool) {
	i, ok := slices.BinarySearchFunc(m.Parts, part, func(p PartRef, n int) int { return p.Part - n })
	if !ok {
		return PartRef{}, false
	}
	return m.Parts[i], true
}

// stored is a manifest as one store keeps it, with the parts of it that it holds.
type stored struct {
	Manifest *Manifest `json:"manifest"`
	Held     []int     `json:"held"`
}

// encodeRecord returns v as JSON behind its SHA-256.
func encodeRecord(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	return append(sum[:], body...), nil
}

func decodeRecord(data []byte, v any) error {
	if len(data) < sha256.Size {
		return errors.New("the record is too short")
	}
	if sha256.Sum256(data[sha256.Size:]) != [sha256.Size]byte(data[:sha256.Size]) {
		return errors.New("the record does not have the checksum that stands before it")
	}
	return json.Unmarshal(data[sha256.Size:], v)
}

func decodePart(data []byte) (*Part, error) {
	p := new(Part)
	if err := decodeRecord(data, p); err != nil {
		return nil, err
	}
	return p, p.check()
}

func decodeManifest(data []byte) (*stored, error) {
	s := new(stored)
	if err := decodeRecord(data, s); err != nil {
		return nil, err
	}
	if s.Manifest == nil {
		return nil, errors.New("the record has no manifest")
	}
	return s, s.Manifest.Check()
}
