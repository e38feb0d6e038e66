package partition

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/spatial"
)

// ErrEncoding is wrapped by every error of UnmarshalBinary.
var ErrEncoding = errors.New("not a partition map")

const (
	magic      = "snmap\x01"
	headerSize = len(magic) + 8 + 3 + 6*8 + 4
)

// MarshalBinary returns the map in a form that UnmarshalBinary reads: a header of fixed size with
// the space, then the nodes in the order of the tree, one byte for a region, nine for a cut. Numbers
// are little-endian.
func (m *Map) MarshalBinary() ([]byte, error) {
	s := m.space.Spec()
	out := append(make([]byte, 0, headerSize+9*len(m.nodes)), magic...)
	out = binary.LittleEndian.AppendUint64(out, m.version)
	periodic := byte(0)
	for i, p := range s.Periodic {
		if p {
			periodic |= 1 << i
		}
	}
	out = append(out, byte(s.Kind), byte(s.Dims), periodic)
	for _, v := range [...]sim.Vec{s.Bounds.Min, s.Bounds.Max} {
		for _, x := range [...]float64{v.X, v.Y, v.Z} {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
		}
	}
	out = binary.LittleEndian.AppendUint32(out, uint32(len(m.nodes)))
	for _, n := range m.nodes {
		out = append(out, byte(n.axis+1))
		if n.axis != leaf {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(n.cut))
		}
	}
	return out, nil
}

// UnmarshalBinary reads what MarshalBinary wrote into a new Map. On an error, which wraps
// ErrEncoding, the map stays as it was.
func (m *Map) UnmarshalBinary(data []byte) error {
	read, err := decode(data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	*m = *read
	return nil
}

func decode(data []byte) (*Map, error) {
	if len(data) < headerSize || string(data[:len(magic)]) != magic {
		return nil, fmt.Errorf("%d bytes do not start with a header", len(data))
	}
	data = data[len(magic):]
	m := &Map{version: binary.LittleEndian.Uint64(data)}
	spec := sim.Space{Kind: sim.SpaceKind(data[8]), Dims: int(data[9])}
	for i := range spec.Periodic {
		spec.Periodic[i] = data[10]>>i&1 == 1
	}
	if data[10] > 7 {
		return nil, fmt.Errorf("periodic axes %#x: at most three", data[10])
	}
	data = data[11:]
	for _, x := range [...]*float64{
		&spec.Bounds.Min.X, &spec.Bounds.Min.Y, &spec.Bounds.Min.Z,
		&spec.Bounds.Max.X, &spec.Bounds.Max.Y, &spec.Bounds.Max.Z,
	} {
		*x, data = math.Float64frombits(binary.LittleEndian.Uint64(data)), data[8:]
	}
	var err error
	if m.space, err = spatial.New(spec); err != nil {
		return nil, err
	}
	if m.nodes, err = decodeNodes(data, spec); err != nil {
		return nil, err
	}
	return m, m.finish()
}

func decodeNodes(data []byte, spec sim.Space) ([]node, error) {
	count := int(binary.LittleEndian.Uint32(data))
	data = data[4:]
	if count < 1 || count > 2*MaxRegions-1 || count > len(data) {
		return nil, fmt.Errorf("%d nodes in %d bytes: allowed is 1 to %d", count, len(data), 2*MaxRegions-1)
	}
	axes := spec.Dims
	if spec.Kind == sim.Earth {
		axes = 2
	}
	nodes := make([]node, count)
	for i := range nodes {
		if len(data) == 0 {
			return nil, fmt.Errorf("the data end before node %d of %d", i, count)
		}
		axis := int(data[0]) - 1
		data = data[1:]
		nodes[i].axis = int8(axis)
		if axis == leaf {
			continue
		}
		if axis >= axes || len(data) < 8 {
			return nil, fmt.Errorf("node %d: axis %d, %d bytes left: %d axes can be cut", i, axis, len(data), axes)
		}
		nodes[i].cut, data = math.Float64frombits(binary.LittleEndian.Uint64(data)), data[8:]
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("%d bytes after the last node", len(data))
	}
	return nodes, nil
}
