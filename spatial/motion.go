package spatial

import (
	"math"

	"github.com/simnode/simnode/sim"
)

// track is a motion made ready for evaluation at many times. Positions come from here alone, so that
// whoever evaluates a motion gets the same bits.
type track struct {
	m sim.Motion // From is canonical
	// On the earth: the unit vector of From, the unit tangent of the course, radians per second.
	p0, d0 vec3
	omega  float64
}

func (s *Space) track(m sim.Motion) track {
	m.From = s.Wrap(m.From)
	k := track{m: m}
	if s.spec.Kind != sim.Earth {
		return k
	}
	var east, north vec3
	k.p0, east, north = frame(m.From.X, m.From.Y)
	sin, cos := sincosDegrees(m.Vel.X)
	k.d0 = vec3{sin*east.x + cos*north.x, sin*east.y + cos*north.y, sin*east.z + cos*north.z}
	k.omega = m.Vel.Y / EarthRadius
	return k
}

// elapsed returns how many seconds of movement lie behind at t.
func (k *track) elapsed(t sim.Time) float64 {
	t = min(t, k.m.Stop)
	if t <= k.m.Start {
		return 0
	}
	return t.Sub(k.m.Start).Seconds()
}

// direction returns the unit vector of the position after dt seconds, on the earth.
func (k *track) direction(dt float64) vec3 {
	if dt == 0 || k.omega == 0 {
		return k.p0
	}
	sin, cos := math.Sincos(k.omega * dt)
	return vec3{
		k.p0.x*cos + k.d0.x*sin,
		k.p0.y*cos + k.d0.y*sin,
		k.p0.z*cos + k.d0.z*sin,
	}
}

func (s *Space) position(k *track, t sim.Time) sim.Vec {
	dt := k.elapsed(t)
	if s.spec.Kind == sim.Earth {
		return earthPosition(k, dt, k.direction(dt))
	}
	p := k.m.From
	if dt == 0 {
		return p
	}
	p.X += k.m.Vel.X * dt
	p.Y += k.m.Vel.Y * dt
	if s.spec.Dims == 3 {
		p.Z += k.m.Vel.Z * dt
	}
	return s.Wrap(p)
}

// earthPosition returns the position after dt seconds, given the direction there.
func earthPosition(k *track, dt float64, up vec3) sim.Vec {
	p := k.m.From
	if dt == 0 {
		return p
	}
	p.Z += k.m.Vel.Z * dt
	if k.omega != 0 {
		p.X, p.Y = lonLat(up)
	}
	return p
}

// Position returns where a motion is at time t, in canonical form (dead reckoning): at From until
// Start, and after Stop where it was at Stop. On the earth it follows the great circle from From with
// the initial course Vel.X at the ground speed Vel.Y, while the altitude changes by Vel.Z a second.
func (s *Space) Position(m sim.Motion, t sim.Time) sim.Vec {
	k := s.track(m)
	return s.position(&k, t)
}

// Velocity returns the velocity at time t in the form of sim.Motion; on the earth X is the course at
// t in [0, 360). It is zero before Start, and from Stop on.
func (s *Space) Velocity(m sim.Motion, t sim.Time) sim.Vec {
	if t < m.Start || t >= m.Stop || !m.Moving() {
		return sim.Vec{}
	}
	if s.spec.Kind != sim.Earth || m.Vel.Y == 0 {
		return m.Vel
	}
	k := s.track(m)
	dt := k.elapsed(t)
	p := s.position(&k, t)
	sin, cos := math.Sincos(k.omega * dt)
	d := vec3{k.d0.x*cos - k.p0.x*sin, k.d0.y*cos - k.p0.y*sin, k.d0.z*cos - k.p0.z*sin}
	_, east, north := frame(p.X, p.Y)
	return sim.Vec{X: bearing(dot(d, east), dot(d, north)), Y: m.Vel.Y, Z: m.Vel.Z}
}

// bearing returns the course in [0, 360) degrees of a horizontal direction.
func bearing(east, north float64) float64 {
	c := math.Atan2(east, north) * radian
	if c < 0 {
		c += 360
	}
	if c >= 360 {
		return 0
	}
	return c
}

// Speed returns the speed of a motion in metres per second while it lasts: over the used axes, on
// the earth over ground. It says nothing of Start and Stop.
func (s *Space) Speed(m sim.Motion) float64 {
	if s.spec.Kind == sim.Earth {
		return math.Abs(m.Vel.Y)
	}
	return s.norm(m.Vel.X, m.Vel.Y, m.Vel.Z)
}

// Toward returns the motion that leaves from at start and stops at to: straight on a plane, the short
// way on a torus, along the great circle on the earth with a steady climb. Speed is in metres per
// second (on the earth over ground; straight up or down if to lies right above or below). Stop is the arrival,
// rounded up to a tick, so it may overshoot by the way of one tick. Without a positive speed it
// stands at from for ever.
func (s *Space) Toward(from, to sim.Vec, speed float64, start sim.Time) sim.Motion {
	from, to = s.Wrap(from), s.Wrap(to)
	m := sim.Motion{Start: start, Stop: start, From: from}
	if s.spec.Kind == sim.Earth {
		return s.towardEarth(m, to, speed)
	}
	var way sim.Vec
	for i := range s.spec.Dims {
		set(&way, i, s.axes[i].way(at(from, i), at(to, i)))
	}
	length := s.norm(way.X, way.Y, way.Z)
	if length == 0 {
		return m
	}
	m.Stop = arrival(start, length, speed)
	if speed > 0 {
		f := speed / length
		m.Vel = sim.Vec{X: way.X * f, Y: way.Y * f, Z: way.Z * f}
	}
	return m
}

// way returns the signed way from x to y, the short way round on a circle, upwards if both are equal.
func (a *axis) way(x, y float64) float64 {
	d := y - x
	if !a.periodic {
		return d
	}
	if d > a.period/2 {
		return d - a.period
	}
	if d <= -a.period/2 {
		return d + a.period
	}
	return d
}

func (s *Space) towardEarth(m sim.Motion, to sim.Vec, speed float64) sim.Motion {
	length, climb := s.Distance(m.From, to), to.Z-m.From.Z
	if length == 0 {
		if climb == 0 {
			return m
		}
		m.Stop = arrival(m.Start, math.Abs(climb), speed)
		if speed > 0 {
			m.Vel.Z = math.Copysign(speed, climb)
		}
		return m
	}
	m.Stop = arrival(m.Start, length, speed)
	if speed > 0 {
		m.Vel = sim.Vec{X: courseTo(m.From, to), Y: speed, Z: climb / m.Stop.Sub(m.Start).Seconds()}
	}
	return m
}

// courseTo returns the initial course of the great circle from a to b. The northward part is written
// as a sum of small terms, so that it is accurate for close points too.
func courseTo(a, b sim.Vec) float64 {
	sinA, _ := sincosDegrees(a.Y)
	cosB := cosLatitude(b.Y)
	half, _ := sincosDegrees((b.X - a.X) / 2)
	sinLon, _ := sincosDegrees(b.X - a.X)
	sinLat, _ := sincosDegrees(b.Y - a.Y)
	return bearing(sinLon*cosB, sinLat+2*sinA*cosB*half*half)
}

func arrival(start sim.Time, length, speed float64) sim.Time {
	if !(speed > 0) {
		return sim.Never
	}
	return start.Add(ticks(math.Ceil(length / speed * float64(sim.Second))))
}

// ticks converts a number of ticks, saturating.
func ticks(x float64) sim.Duration {
	if x < math.MaxInt64 && x > math.MinInt64 {
		return sim.Duration(x)
	}
	if x < 0 {
		return math.MinInt64
	}
	return sim.Forever
}
