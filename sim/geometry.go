package sim

// EntityID names an entity for the whole run. Entities of the scenario are numbered from 1 in the
// order in which the model added them; the id of a spawned entity derives from its parent's id and
// the parent's own sequence, so that it is the same for any number of regions. 0 is no entity.
type EntityID uint64

// Vec is a point or a displacement.
//
// On a plane or torus: metres along x, y and z. On the earth a point is X = longitude in degrees
// east, Y = latitude in degrees north, Z = altitude in metres above the sphere.
type Vec struct{ X, Y, Z float64 }

// Box is the half-open set Min <= p < Max in every used axis.
//
// On the earth Min.X may be larger than Max.X: such a box crosses the antimeridian.
type Box struct{ Min, Max Vec }

// SpaceKind is the sort of space that a run takes place in.
type SpaceKind uint8

// The kinds of space. NoSpace is for models whose entities have no place: they are cut into
// regions by id.
const (
	NoSpace SpaceKind = iota
	Plane
	Torus
	Earth
)

// Space describes the space of a run; package spatial computes in it.
type Space struct {
	Kind SpaceKind
	// Dims is 2 or 3: how many axes are used. On the earth it is 3 and Z is the altitude, which
	// no region border cuts.
	Dims int
	// Bounds hold every position at the start. On the plane they only guide the first cut into
	// regions: entities may leave them. On a torus they are the period of each periodic axis. On
	// the earth they guide the cut, as on the plane.
	Bounds Box
	// Periodic tells which axes of a torus wrap around.
	Periodic [3]bool
}

// Motion is a segment of movement: where something is at any time from Start to Stop, with no
// message needed in between (dead reckoning). Before Start it is taken to be at From, after Stop it
// stays where it was at Stop.
type Motion struct {
	// Start is when the segment begins, at From.
	Start Time
	// Stop is when the movement ends; Never if it goes on.
	Stop Time
	// From is the position at Start.
	From Vec
	// Vel is the velocity. On a plane or torus: metres per second along each axis. On the earth
	// X is the initial course in degrees clockwise from north, Y the speed over ground in metres
	// per second along the great circle, Z the climb in metres per second.
	Vel Vec
}

// At returns the motion of something that stands still at p.
func At(p Vec) Motion { return Motion{Stop: Never, From: p} }

// Moving reports whether the position changes at all.
func (m Motion) Moving() bool { return m.Vel != Vec{} && m.Stop > m.Start }
