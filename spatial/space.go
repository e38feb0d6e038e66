package spatial

import (
	"fmt"
	"math"

	"github.com/simnode/simnode/sim"
)

// EarthRadius is the mean radius of the earth in metres (IUGG, R1 of the GRS 80 ellipsoid; H. Moritz,
// "Geodetic Reference System 1980").
const EarthRadius = 6371008.8

// Space computes in one sim.Space. It is immutable and safe for concurrent use.
type Space struct {
	spec sim.Space
	axes [3]axis
}

// axis is one coordinate: a line, or a circle of circumference period that starts at lo.
type axis struct {
	used     bool
	periodic bool
	lo, hi   float64
	period   float64
}

// Error is a fault in the description of a space, a position or a range.
type Error struct {
	// Field is what is wrong, such as "bounds.x", "y" or "range".
	Field string
	// Reason says what was found and what is allowed.
	Reason string
}

func (e *Error) Error() string { return e.Field + ": " + e.Reason }

func fault(field, format string, args ...any) error {
	return &Error{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// New checks the description of a space and returns its behaviour. The error is an *Error.
func New(s sim.Space) (*Space, error) {
	switch s.Kind {
	case sim.Plane, sim.Torus, sim.Earth:
	default:
		return nil, fault("kind", "unknown kind %d: use plane, torus or earth", s.Kind)
	}
	if s.Dims != 2 && s.Dims != 3 {
		return nil, fault("dims", "%d axes: use 2 or 3", s.Dims)
	}
	if s.Kind == sim.Earth && s.Dims != 3 {
		return nil, fault("dims", "%d axes on the earth: use 3 (longitude, latitude, altitude)", s.Dims)
	}
	if err := checkBounds(s); err != nil {
		return nil, err
	}
	if err := checkPeriodic(s); err != nil {
		return nil, err
	}
	sp := &Space{spec: s}
	for i := range sp.axes {
		sp.axes[i] = axisOf(s, i)
	}
	return sp, nil
}

func axisOf(s sim.Space, i int) axis {
	if s.Kind == sim.Earth {
		return [3]axis{
			{used: true, periodic: true, lo: -180, hi: 180, period: 360},
			{used: true, lo: -90, hi: 90},
			{used: true, lo: math.Inf(-1), hi: math.Inf(1)},
		}[i]
	}
	a := axis{used: i < s.Dims, lo: at(s.Bounds.Min, i), hi: at(s.Bounds.Max, i)}
	a.periodic = a.used && s.Kind == sim.Torus && s.Periodic[i]
	a.period = a.hi - a.lo
	return a
}

func checkBounds(s sim.Space) error {
	for i := range s.Dims {
		field := "bounds." + axisName(i)
		lo, hi := at(s.Bounds.Min, i), at(s.Bounds.Max, i)
		if s.Kind == sim.Earth && i == 2 {
			break
		}
		if !finite(lo) || !finite(hi) || math.IsInf(hi-lo, 0) {
			return fault(field, "from %v to %v: both ends must be finite numbers", lo, hi)
		}
		if s.Kind == sim.Earth {
			if err := checkEarthBounds(field, i, lo, hi); err != nil {
				return err
			}
			continue
		}
		if lo >= hi {
			return fault(field, "from %v to %v: the lower end must be below the upper end", lo, hi)
		}
	}
	return nil
}

func checkEarthBounds(field string, i int, lo, hi float64) error {
	limit, name := 180.0, "longitude"
	if i == 1 {
		limit, name = 90, "latitude"
	}
	for _, x := range []float64{lo, hi} {
		if math.Abs(x) > limit {
			return fault(field, "%s %v: allowed is %v to %v degrees", name, x, -limit, limit)
		}
	}
	if i == 1 && lo >= hi {
		return fault(field, "from %v to %v: the southern end must be below the northern end", lo, hi)
	}
	if lo == hi {
		return fault(field, "from %v to %v: the ends must differ; the whole circle is -180 to 180", lo, hi)
	}
	return nil
}

func checkPeriodic(s sim.Space) error {
	some := false
	for i, p := range s.Periodic {
		if !p {
			continue
		}
		some = true
		if s.Kind != sim.Torus {
			return fault("periodic", "axis %s: only a torus has periodic axes", axisName(i))
		}
		if i >= s.Dims {
			return fault("periodic", "axis %s is not used: the space has %d axes", axisName(i), s.Dims)
		}
	}
	if s.Kind == sim.Torus && !some {
		return fault("periodic", "a torus needs at least one periodic axis; without one it is a plane")
	}
	return nil
}

// Spec returns the description that the space was made from.
func (s *Space) Spec() sim.Space { return s.spec }

// CheckPosition tells whether p can be a position: finite in every used axis, and on the earth a
// latitude in [-90, 90] and a longitude in [-180, 180], where 180 is the same as -180. The error is an
// *Error that names the axis.
func (s *Space) CheckPosition(p sim.Vec) error {
	for i := range s.axes {
		if x := at(p, i); s.axes[i].used && !finite(x) {
			return fault(s.axisLabel(i), "%v: a position must be a finite number", x)
		}
	}
	if s.spec.Kind != sim.Earth {
		return nil
	}
	if math.Abs(p.X) > 180 {
		return fault("longitude", "%v: allowed is -180 to 180 degrees", p.X)
	}
	if math.Abs(p.Y) > 90 {
		return fault("latitude", "%v: allowed is -90 to 90 degrees", p.Y)
	}
	return nil
}

// CheckMotion tells whether m can be a motion: it starts at a position that CheckPosition allows and
// its velocity is finite. The error is an *Error.
func (s *Space) CheckMotion(m sim.Motion) error {
	if err := s.CheckPosition(m.From); err != nil {
		return err
	}
	for i := range s.axes {
		if v := at(m.Vel, i); s.axes[i].used && !finite(v) {
			return fault("velocity."+axisName(i), "%v: a velocity must be a finite number", v)
		}
	}
	return nil
}

// CheckRange tells whether r metres can be the range of a model: finite, not negative, and on a
// torus no more than half of each period, so that nothing is in range twice. The error is an *Error.
func (s *Space) CheckRange(r float64) error {
	if !finite(r) || r < 0 {
		return fault("range", "%v m: a range must be a finite number of metres, 0 or more", r)
	}
	if s.spec.Kind != sim.Torus {
		return nil
	}
	for i, a := range s.axes {
		if a.periodic && r > a.period/2 {
			return fault("range", "range larger than half a torus: %v m on axis %s of period %v m; use at most %v m",
				r, axisName(i), a.period, a.period/2)
		}
	}
	return nil
}

// Everywhere returns the box that holds every position, with infinite sides where the space has no
// end.
func (s *Space) Everywhere() sim.Box {
	inf := math.Inf(1)
	b := sim.Box{Min: sim.Vec{X: -inf, Y: -inf, Z: -inf}, Max: sim.Vec{X: inf, Y: inf, Z: inf}}
	for i, a := range s.axes {
		if a.periodic || s.spec.Kind == sim.Earth && i == 1 {
			set(&b.Min, i, a.lo)
			set(&b.Max, i, a.hi)
		}
	}
	return b
}

// Wrap returns the canonical form of a position: on a torus each periodic coordinate in [min, max),
// on the earth a longitude in [-180, 180) and a latitude in [-90, 90], folded over the pole. What is
// not finite stays as it is or becomes NaN.
func (s *Space) Wrap(p sim.Vec) sim.Vec {
	switch s.spec.Kind {
	case sim.Torus:
		p.X = s.axes[0].wrap(p.X)
		p.Y = s.axes[1].wrap(p.Y)
		p.Z = s.axes[2].wrap(p.Z)
	case sim.Earth:
		p.X, p.Y = wrapEarth(p.X, p.Y)
	}
	return p
}

func (a *axis) wrap(x float64) float64 {
	if !a.periodic || x >= a.lo && x < a.hi {
		return x
	}
	if a.lo == -a.hi { // exact, as for longitudes
		if r := math.Remainder(x, a.period); r != a.hi {
			return r
		}
		return a.lo
	}
	r := math.Mod(x-a.lo, a.period)
	if r < 0 {
		r += a.period
	}
	// Rounding may reach the upper end, which is the lower end again.
	if y := a.lo + r; y < a.hi || y != y {
		return y
	}
	return a.lo
}

func wrapEarth(lon, lat float64) (float64, float64) {
	if lat > 90 || lat < -90 {
		lat = math.Remainder(lat, 360)
		if lat > 90 {
			lon, lat = lon+180, 180-lat
		} else if lat < -90 {
			lon, lat = lon+180, -180-lat
		}
	}
	if lon >= 180 || lon < -180 {
		lon = math.Remainder(lon, 360)
		if lon == 180 {
			lon = -180
		}
	}
	return lon, lat
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func (s *Space) finiteMotion(m *sim.Motion) bool {
	for i := range s.spec.Dims {
		if !finite(at(m.From, i)) || !finite(at(m.Vel, i)) {
			return false
		}
	}
	return true
}

func axisName(i int) string { return [3]string{"x", "y", "z"}[i] }

func (s *Space) axisLabel(i int) string {
	if s.spec.Kind == sim.Earth {
		return [3]string{"longitude", "latitude", "altitude"}[i]
	}
	return axisName(i)
}

func at(v sim.Vec, i int) float64 {
	switch i {
	case 0:
		return v.X
	case 1:
		return v.Y
	}
	return v.Z
}

func set(v *sim.Vec, i int, x float64) {
	switch i {
	case 0:
		v.X = x
	case 1:
		v.Y = x
	default:
		v.Z = x
	}
}
