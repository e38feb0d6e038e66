package scenario

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/spatial"
)

func spaceKinds() []string { return []string{"plane", "torus", "earth"} }

func spaceKeys(kind string) []string {
	switch kind {
	case "plane":
		return []string{"kind", "min", "max"}
	case "torus":
		return []string{"kind", "size", "min", "periodic"}
	}
	return []string{"kind", "west", "east", "south", "north"}
}

// readSpace reads the space of the file, if it gives one.
func (l *loader) readSpace() {
	before := l.count
	n := l.section("space")
	if len(n.entries) == 0 {
		return
	}
	e := n.get("kind")
	if e == nil {
		l.add(n.at, "space.kind", faultf(choose("", "kinds", spaceKinds()), "missing"))
		return
	}
	kind, ok := l.text(e, "space.kind")
	if !ok {
		return
	}
	if !contains(spaceKinds(), kind) {
		l.add(e.value.at, "space.kind", faultf(choose(kind, "kinds", spaceKinds()), "unknown kind of space %s", quote(kind)))
		return
	}
	l.knownKeys(n, "space", spaceKeys(kind))
	switch kind {
	case "plane":
		l.readPlane(n)
	case "torus":
		l.readTorus(n)
	default:
		l.readEarth(n)
	}
	if l.count == before {
		l.checkSpace(l.space)
	}
}

// checkSpace reports what package spatial finds wrong with a space.
func (l *loader) checkSpace(s sim.Space) *spatial.Space {
	sp, err := spatial.New(s)
	if err != nil {
		path, reason := spaceFault(s, err)
		l.add(l.place(path), path, faultf("", "%s", reason))
	}
	return sp
}

// spaceFault finds the key of a scenario that a fault of package spatial is about.
func spaceFault(s sim.Space, err error) (path, reason string) {
	var e *spatial.Error
	if !errors.As(err, &e) {
		return "space", err.Error()
	}
	switch {
	case e.Field == "periodic":
		return "space.periodic", e.Reason
	case s.Kind == sim.Earth && e.Field == "bounds.x":
		return "space.west", e.Reason
	case s.Kind == sim.Earth && e.Field == "bounds.y":
		return "space.south", e.Reason
	case s.Kind == sim.Torus:
		return "space.size", e.Error()
	case s.Kind == sim.Plane:
		return "space.max", e.Error()
	}
	return "space", e.Error()
}

// lengths reads a list of two or three lengths below the space; nil if it is missing or wrong.
func (l *loader) lengths(n *node, key string, required bool) []float64 {
	path := "space." + key
	e := n.get(key)
	if e == nil {
		if required {
			l.add(n.at, path, faultf("expected two or three lengths, such as [100 km, 100 km]", "missing"))
		}
		return nil
	}
	before := l.count
	var list []float64
	f := field{kind: listField, typ: reflect.TypeFor[[]float64](), elem: lengthField()}
	l.bind(&f, path, e.value, reflect.ValueOf(&list).Elem())
	if l.count != before {
		return nil
	}
	if len(list) != 2 && len(list) != 3 {
		l.add(e.value.at, path, faultf("expected two or three, such as [100 km, 100 km]", "%d lengths", len(list)))
		return nil
	}
	return list
}

func lengthField() *field {
	return &field{kind: floatField, typ: reflect.TypeFor[float64](), measure: newMeasure("m")}
}

// corner reads space.min, which has as many axes as its opposite.
func (l *loader) corner(n *node, dims int) (sim.Vec, bool) {
	if n.get("min") == nil {
		return sim.Vec{}, true
	}
	low := l.lengths(n, "min", false)
	if low == nil {
		return sim.Vec{}, false
	}
	if len(low) != dims {
		l.add(l.place("space.min"), "space.min", faultf(fmt.Sprintf("give %d", dims), "%d lengths, and the space has %d axes", len(low), dims))
		return sim.Vec{}, false
	}
	return vec(low), true
}

func vec(x []float64) sim.Vec {
	v := sim.Vec{X: x[0], Y: x[1]}
	if len(x) == 3 {
		v.Z = x[2]
	}
	return v
}

func (l *loader) readPlane(n *node) {
	high := l.lengths(n, "max", true)
	if high == nil {
		l.lengths(n, "min", false)
		return
	}
	low, ok := l.corner(n, len(high))
	if ok {
		l.space = sim.Space{Kind: sim.Plane, Dims: len(high), Bounds: sim.Box{Min: low, Max: vec(high)}}
	}
}

func (l *loader) readTorus(n *node) {
	length := l.lengths(n, "size", true)
	if length == nil {
		l.lengths(n, "min", false)
		return
	}
	dims := len(length)
	low, ok := l.corner(n, dims)
	periodic, ok2 := l.periodic(n, dims)
	if !ok || !ok2 {
		return
	}
	s := vec(length)
	l.space = sim.Space{Kind: sim.Torus, Dims: dims, Periodic: periodic,
		Bounds: sim.Box{Min: low, Max: sim.Vec{X: low.X + s.X, Y: low.Y + s.Y, Z: low.Z + s.Z}}}
}

// periodic reads which axes wrap around; by default all.
func (l *loader) periodic(n *node, dims int) (p [3]bool, ok bool) {
	e := n.get("periodic")
	if e == nil {
		for i := range dims {
			p[i] = true
		}
		return p, true
	}
	before := l.count
	axes := []string{"x", "y", "z"}[:dims]
	var list []string
	f := field{kind: listField, typ: reflect.TypeFor[[]string](),
		elem: &field{kind: textField, typ: reflect.TypeFor[string](), enum: axes}}
	l.bind(&f, "space.periodic", e.value, reflect.ValueOf(&list).Elem())
	if l.count != before {
		return p, false
	}
	for i, axis := range axes {
		p[i] = contains(list, axis)
	}
	return p, true
}

func (l *loader) readEarth(n *node) {
	before := l.count
	box := sim.Box{}
	longitude := [2]*limit{{"-180", -180}, {"180", 180}}
	latitude := [2]*limit{{"-90", -90}, {"90", 90}}
	for _, side := range []struct {
		key     string
		to      *float64
		whole   float64
		allowed [2]*limit
	}{
		{"west", &box.Min.X, -180, longitude}, {"east", &box.Max.X, 180, longitude},
		{"south", &box.Min.Y, -90, latitude}, {"north", &box.Max.Y, 90, latitude},
	} {
		*side.to = side.whole
		e := n.get(side.key)
		if e == nil {
			continue
		}
		f := field{kind: floatField, typ: reflect.TypeFor[float64](), measure: newMeasure("deg"),
			min: side.allowed[0], max: side.allowed[1]}
		l.bind(&f, "space."+side.key, e.value, reflect.ValueOf(side.to).Elem())
	}
	if l.count == before {
		l.space = sim.Space{Kind: sim.Earth, Dims: 3, Bounds: box}
	}
}
