package partition

import (
	"fmt"
	"strings"

	"github.com/simnode/simnode/sim"
)

// The size of the picture in characters.
const (
	columns = 72
	rows    = 20
)

// String returns a picture of the map over the bounds of the space, north or +y up, cut at the
// middle of z, and a line for each region. Regions are drawn as 0-9, a-z, A-Z and again from 0.
func (m *Map) String() string {
	bounds := m.space.Spec().Bounds
	width := bounds.Max.X - bounds.Min.X
	if width < 0 {
		width += 360
	}
	var b strings.Builder
	fmt.Fprintf(&b, "map version %d, %d regions\n", m.version, m.Len())
	for r := range rows {
		for c := range columns {
			p := sim.Vec{
				X: bounds.Min.X + (float64(c)+0.5)/columns*width,
				Y: bounds.Max.Y - (float64(r)+0.5)/rows*(bounds.Max.Y-bounds.Min.Y),
				Z: bounds.Min.Z/2 + bounds.Max.Z/2,
			}
			b.WriteByte(letter(m.Region(p)))
		}
		b.WriteByte('\n')
	}
	for i := range m.boxes {
		fmt.Fprintf(&b, "%c region %d: %s\n", letter(i), i, m.sides(i))
	}
	return b.String()
}

func (m *Map) sides(i int) string {
	box, spec := m.boxes[i], m.space.Spec()
	if spec.Kind == sim.Earth {
		return fmt.Sprintf("longitude %.6g to %.6g, latitude %.6g to %.6g",
			box.Min.X, box.Max.X, box.Min.Y, box.Max.Y)
	}
	parts := make([]string, 0, 3)
	for a := range spec.Dims {
		parts = append(parts, fmt.Sprintf("%s %.6g to %.6g m", [3]string{"x", "y", "z"}[a],
			coordinate(box.Min, a), coordinate(box.Max, a)))
	}
	return strings.Join(parts, ", ")
}

func letter(i int) byte {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return letters[i%len(letters)]
}
