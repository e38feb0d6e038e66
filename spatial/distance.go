package spatial

import (
	"math"

	"github.com/simnode/simnode/sim"
)

const (
	degree = math.Pi / 180
	radian = 180 / math.Pi
)

// Distance returns the distance between two positions in metres. On a plane or torus it is Euclid's
// over the used axes, the short way round each periodic axis. On the earth it is the great-circle
// distance over the ground; altitude does not count. It is symmetric bit for bit, and accurate for
// close and for antipodal points.
func (s *Space) Distance(a, b sim.Vec) float64 {
	a, b = s.Wrap(a), s.Wrap(b)
	switch s.spec.Kind {
	case sim.Earth:
		return earthDistance(a, cosLatitude(a.Y), b, cosLatitude(b.Y))
	case sim.Torus:
		return s.norm(s.axes[0].apart(a.X, b.X), s.axes[1].apart(a.Y, b.Y), s.axes[2].apart(a.Z, b.Z))
	}
	return s.norm(a.X-b.X, a.Y-b.Y, a.Z-b.Z)
}

func (s *Space) norm(x, y, z float64) float64 {
	if s.spec.Dims == 2 {
		return math.Sqrt(x*x + y*y)
	}
	return math.Sqrt(x*x + y*y + z*z)
}

// apart returns how far two canonical coordinates are apart, the short way round on a circle.
func (a *axis) apart(x, y float64) float64 {
	d := math.Abs(x - y)
	if !a.periodic {
		return d
	}
	return min(d, a.period-d)
}

// cosLatitude is measured from the pole, so that it is exactly 0 there and accurate nearby.
func cosLatitude(lat float64) float64 { return math.Sin((90 - math.Abs(lat)) * degree) }

// earthDistance takes the cosines of the latitudes too, so that a query computes its own once.
func earthDistance(a sim.Vec, cosA float64, b sim.Vec, cosB float64) float64 {
	dlon := math.Abs(a.X - b.X)
	if dlon > 180 {
		dlon = 360 - dlon
	}
	return arc(a.Y, cosA, b.Y, cosB, dlon)
}

// arc returns the great-circle distance in metres of two latitudes dlon degrees of longitude apart:
// the haversine formula (R. W. Sinnott, "Virtues of the haversine", 1984), and beyond a quarter of
// the circle the same formula for the antipode, which is accurate where the first is not.
func arc(latA, cosA, latB, cosB, dlon float64) float64 {
	h := math.Sin((latA - latB) * (degree / 2))
	v := math.Sin(dlon * (degree / 2))
	hav := h*h + cosA*cosB*(v*v)
	if hav <= 0.5 {
		return 2 * EarthRadius * math.Asin(math.Sqrt(hav))
	}
	h = math.Sin((latA + latB) * (degree / 2))
	v = math.Sin((180 - dlon) * (degree / 2))
	rest := h*h + cosA*cosB*(v*v)
	return 2 * EarthRadius * (math.Pi/2 - math.Asin(math.Sqrt(min(rest, 1))))
}

// vec3 is a vector from the centre of the earth; z points to the north pole, x to longitude 0.
type vec3 struct{ x, y, z float64 }

func dot(a, b vec3) float64 { return a.x*b.x + a.y*b.y + a.z*b.z }

// sincosDegrees is exact at multiples of 90 degrees.
func sincosDegrees(d float64) (sin, cos float64) {
	d = math.Remainder(d, 360)
	quarter := math.Round(d / 90)
	sin, cos = math.Sincos((d - 90*quarter) * degree)
	switch quarter {
	case 1:
		return cos, -sin
	case -1:
		return -cos, sin
	case 2, -2:
		return -sin, -cos
	}
	return sin, cos
}

// frame returns the unit vectors up, east and north at a position on the earth.
func frame(lon, lat float64) (up, east, north vec3) {
	sinLon, cosLon := sincosDegrees(lon)
	sinLat, cosLat := sincosDegrees(lat)
	up = vec3{cosLat * cosLon, cosLat * sinLon, sinLat}
	east = vec3{-sinLon, cosLon, 0}
	north = vec3{-sinLat * cosLon, -sinLat * sinLon, cosLat}
	return up, east, north
}

// lonLat returns the canonical longitude and latitude of a direction.
func lonLat(p vec3) (lon, lat float64) {
	lat = math.Atan2(p.z, math.Sqrt(p.x*p.x+p.y*p.y)) * radian
	lon = math.Atan2(p.y, p.x) * radian
	return wrapEarth(lon, lat)
}
