package partition

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/spatial"
	"pgregory.net/rapid"
)

var inf = math.Inf(1)

func vec(x, y, z float64) sim.Vec { return sim.Vec{X: x, Y: y, Z: z} }

func specs() map[string]sim.Space {
	b := func(x0, y0, z0, x1, y1, z1 float64) sim.Box {
		return sim.Box{Min: vec(x0, y0, z0), Max: vec(x1, y1, z1)}
	}
	return map[string]sim.Space{
		"plane2":  {Kind: sim.Plane, Dims: 2, Bounds: b(-50, 0, 0, 50, 80, 0)},
		"plane3":  {Kind: sim.Plane, Dims: 3, Bounds: b(-50, 0, 10, 50, 80, 170)},
		"torus2":  {Kind: sim.Torus, Dims: 2, Bounds: b(-50, 3, 0, 50, 83, 0), Periodic: [3]bool{true, true}},
		"torusYZ": {Kind: sim.Torus, Dims: 3, Bounds: b(0.1, -7, 0, 90.3, 60, 33), Periodic: [3]bool{false, true, true}},
		"earth":   {Kind: sim.Earth, Dims: 3, Bounds: b(-180, -90, 0, 180, 90, 0)},
		"pacific": {Kind: sim.Earth, Dims: 3, Bounds: b(120, -60, 0, -80, 60, 0)},
	}
}

func space(t testing.TB, name string) *spatial.Space {
	t.Helper()
	s, err := spatial.New(specs()[name])
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustBuild(t interface{ Fatal(...any) }, s *spatial.Space, points []Point, regions int) *Map {
	m, err := Build(s, points, regions)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// position draws a point of the space, with a liking for edges and for places drawn before.
func position(t *rapid.T, s *spatial.Space) sim.Vec {
	spec := s.Spec()
	span := func(lo, hi float64) float64 {
		return rapid.OneOf(rapid.Float64Range(lo, hi), rapid.SampledFrom([]float64{lo, hi, (lo + hi) / 2}),
			rapid.Map(rapid.IntRange(0, 4), func(k int) float64 { return lo + (hi-lo)*float64(k)/4 })).Draw(t, "at")
	}
	if spec.Kind == sim.Earth {
		return s.Wrap(vec(span(-180, 180), span(-90, 90), 0))
	}
	b := spec.Bounds
	p := vec(span(b.Min.X, b.Max.X), span(b.Min.Y, b.Max.Y), span(b.Min.Z, b.Max.Z))
	if spec.Kind == sim.Plane && rapid.IntRange(0, 9).Draw(t, "outside") == 0 {
		p.X *= 1e6
	}
	return s.Wrap(p)
}

func drawPoints(t *rapid.T, s *spatial.Space) []Point {
	var points []Point
	for range rapid.IntRange(0, 60).Draw(t, "points") {
		w := rapid.OneOf(rapid.Just(0.0), rapid.Just(1.0), rapid.Float64Range(0, 10)).Draw(t, "weight")
		points = append(points, Point{position(t, s), w})
	}
	return points
}

func everywhere(t *testing.T, property func(t *rapid.T, s *spatial.Space)) {
	for name := range specs() {
		t.Run(name, func(t *testing.T) {
			s := space(t, name)
			rapid.Check(t, func(rt *rapid.T) { property(rt, s) })
		})
	}
}

func drawMap(t *rapid.T, s *spatial.Space) *Map {
	return mustBuild(t, s, drawPoints(t, s), rapid.IntRange(1, 20).Draw(t, "regions"))
}

func TestEveryPositionHasOneRegion(t *testing.T) {
	everywhere(t, func(t *rapid.T, s *spatial.Space) {
		m := drawMap(t, s)
		p := position(t, s)
		own := m.Region(p)
		for i := range m.Len() {
			if in := s.Contains(m.Box(i), p); in != (i == own) {
				t.Fatalf("%v: region %d, but box %d %v contains it: %v", p, own, i, m.Box(i), in)
			}
			d := m.DrawBox(i)
			if b := s.Spec().Bounds; b.Min.X < b.Max.X && (d.Min.X < b.Min.X || d.Max.X > b.Max.X) || d.Min.X > d.Max.X {
				t.Fatalf("picture of %v is %v", m.Box(i), d)
			}
		}
	})
}

func TestOrderOfPointsDoesNotMatter(t *testing.T) {
	everywhere(t, func(t *rapid.T, s *spatial.Space) {
		points := drawPoints(t, s)
		n := rapid.IntRange(1, 20).Draw(t, "regions")
		a := mustBuild(t, s, points, n)
		b := mustBuild(t, s, rapid.Permutation(points).Draw(t, "order"), n)
		x, _ := a.MarshalBinary()
		y, _ := b.MarshalBinary()
		if !bytes.Equal(x, y) {
			t.Fatalf("another order, another map:\n%v\n%v", a, b)
		}
	})
}

func TestGapIsALowerBound(t *testing.T) {
	everywhere(t, func(t *rapid.T, s *spatial.Space) {
		m := drawMap(t, s)
		p, q := position(t, s), position(t, s)
		i, j := m.Region(p), m.Region(q)
		if g := m.Gap(i, j); g > s.Distance(p, q) || g != m.Gap(j, i) || i == j && g != 0 {
			t.Fatalf("gap of %d and %d is %v, points are %v apart", i, j, g, s.Distance(p, q))
		}
		for k := range m.Len() {
			if k != i && (m.Gap(i, k) == 0) != slices.Contains(m.Neighbours(i), k) {
				t.Fatalf("gap of %d and %d is %v, neighbours %v", i, k, m.Gap(i, k), m.Neighbours(i))
			}
		}
	})
}

func TestNearEqualsBruteForce(t *testing.T) {
	everywhere(t, func(t *rapid.T, s *spatial.Space) {
		m := drawMap(t, s)
		p := position(t, s)
		r := rapid.OneOf(rapid.Float64Range(0, 100), rapid.Float64Range(0, 2e7), rapid.Just(0.0)).Draw(t, "r")
		got := m.Near(p, r, nil)
		if !slices.IsSorted(got) || !slices.Contains(got, m.Region(p)) {
			t.Fatalf("near %v: %v, own %d", p, got, m.Region(p))
		}
		for i := range m.Len() {
			if want := s.BoxDistance(p, m.Box(i)) <= r; want != slices.Contains(got, i) {
				t.Fatalf("near %v, %v m: %v; region %d is %v m away", p, r, got, i, s.BoxDistance(p, m.Box(i)))
			}
		}
		if q := position(t, s); s.Distance(p, q) <= r && !slices.Contains(got, m.Region(q)) {
			t.Fatalf("near %v, %v m: %v; misses region %d of %v", p, r, got, m.Region(q), q)
		}
	})
}

func TestTouchingEqualsSampling(t *testing.T) {
	everywhere(t, func(t *rapid.T, s *spatial.Space) {
		m := drawMap(t, s)
		p := position(t, s)
		size := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 60)).Draw(t, "size")
		b := sim.Box{Min: vec(p.X-size, p.Y-size/2, p.Z-size), Max: vec(p.X+size, p.Y+size/2, p.Z+size)}
		got := m.Touching(b, nil)
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("touching %v: %v", b, got)
		}
		if !slices.Contains(got, m.Region(p)) || size == 0 && len(got) != 1 {
			t.Fatalf("touching %v: %v, misses its middle in %d", b, got, m.Region(p))
		}
		f := func() float64 { return rapid.Float64Range(0, 1).Draw(t, "part") }
		q := vec(b.Min.X+(b.Max.X-b.Min.X)*f(), b.Min.Y+(b.Max.Y-b.Min.Y)*f(), b.Min.Z+(b.Max.Z-b.Min.Z)*f())
		if !slices.Contains(got, m.Region(q)) {
			t.Fatalf("touching %v: %v, misses region %d of %v", b, got, m.Region(q), q)
		}
		if s.Spec().Kind == sim.Plane {
			for i := range m.Len() {
				if want := touch(b, m.Box(i)); want != slices.Contains(got, i) {
					t.Fatalf("touching %v: %v, %d %v: %v", b, got, i, m.Box(i), want)
				}
			}
		}
	})
}

// touch tells whether a closed box meets a region, half-open.
func touch(b, region sim.Box) bool {
	return region.Min.X <= b.Max.X && b.Min.X < region.Max.X && region.Min.Y <= b.Max.Y && b.Min.Y < region.Max.Y &&
		region.Min.Z <= b.Max.Z && b.Min.Z < region.Max.Z
}

func TestWeightsAreShared(t *testing.T) {
	for name := range specs() {
		s := space(t, name)
		r := rand.New(rand.NewPCG(1, 2))
		var points []Point
		for range 6_000 {
			b := s.Spec().Bounds
			if b.Min.X > b.Max.X {
				b.Max.X += 360
			}
			u := r.Float64()
			p := vec(b.Min.X+(b.Max.X-b.Min.X)*u*u, b.Min.Y+(b.Max.Y-b.Min.Y)*r.Float64(), b.Min.Z+(b.Max.Z-b.Min.Z)*r.Float64())
			points = append(points, Point{s.Wrap(p), 0.5 + r.Float64()})
		}
		for _, n := range []int{1, 2, 3, 5, 7, 8, 16, 31, 64} {
			m := mustBuild(t, s, points, n)
			load, total := make([]float64, n), 0.0
			for _, p := range points {
				load[m.Region(p.Pos)] += p.Weight
				total += p.Weight
			}
			if hi, lo := slices.Max(load)*float64(n)/total, slices.Min(load)*float64(n)/total; hi > 1.05 || lo < 0.95 {
				t.Errorf("%s, %d regions: %.3f to %.3f of the mean", name, n, lo, hi)
			}
		}
	}
}

func TestCutLiesBetweenPoints(t *testing.T) {
	s := space(t, "plane2")
	m := mustBuild(t, s, []Point{{vec(0, 0, 0), 1}, {vec(1, 0, 0), 1}, {vec(1, 0, 0), 1}, {vec(9, 1, 0), 1}}, 2)
	if b := m.Box(0); b.Max.X != 0.5 && b.Max.X != 5 {
		t.Errorf("cut at %v", b.Max.X)
	}
	// A column of points is cut across, though another point makes the other side longest.
	column := []Point{{vec(40, 5, 0), 1}}
	for i := range 20 {
		column = append(column, Point{vec(0, float64(i)/2, 0), 1})
	}
	if b := mustBuild(t, s, column, 2).Box(0); b.Max.Y > 10 {
		t.Errorf("column is cut as %v", b)
	}
	// On the earth a degree of longitude counts by its length.
	e := space(t, "earth")
	m = mustBuild(t, e, []Point{{vec(0, 79, 0), 1}, {vec(15, 79, 0), 1}, {vec(0, 84, 0), 1}, {vec(15, 84, 0), 1}}, 2)
	if m.Box(0).Max.Y != 81.5 {
		t.Errorf("cut across the short side: %v", m.Box(0))
	}
}

func TestCaseCoincident(t *testing.T) {
	for name := range specs() {
		s := space(t, name)
		var points []Point
		for range 50 {
			points = append(points, Point{vec(1, 10, 12), 1})
		}
		m := mustBuild(t, s, points, 16)
		if m.Len() != 16 {
			t.Fatalf("%s: %d regions", name, m.Len())
		}
		owner := m.Region(points[0].Pos)
		for i := range 16 {
			if s.Contains(m.Box(i), points[0].Pos) != (i == owner) {
				t.Errorf("%s: not one owner", name)
			}
		}
	}
	// Two at the corner of four regions: one owner, and all four are near.
	s := space(t, "plane2")
	m := mustBuild(t, s, []Point{{vec(-1, 39, 0), 1}, {vec(1, 39, 0), 1}, {vec(-1, 41, 0), 1}, {vec(1, 41, 0), 1}}, 4)
	if near := m.Near(vec(0, 40, 0), 0.5, nil); len(near) != 4 {
		t.Errorf("near the corner: %v\n%v", near, m)
	}
}

func TestCaseMoreRegionsThanPoints(t *testing.T) {
	for name := range specs() {
		s := space(t, name)
		for points := range 4 {
			m := mustBuild(t, s, []Point{{vec(1, 10, 12), 1}, {vec(2, 30, 12), 1}, {vec(2, 30, 13), 1}}[:points], 8)
			if m.Len() != 8 {
				t.Errorf("%s: %d points, %d regions", name, points, m.Len())
			}
		}
	}
}

func TestCaseBalancerInputAllZero(t *testing.T) {
	s := space(t, "plane2")
	var zero, one []Point
	for i := range 100 {
		p := vec(float64(i%10), float64(i/10), 0)
		zero, one = append(zero, Point{p, 0}), append(one, Point{p, 1})
	}
	a, b := mustBuild(t, s, zero, 7), mustBuild(t, s, one, 7)
	for i := range 7 {
		if a.Box(i) != b.Box(i) || math.IsNaN(a.Box(i).Min.X) {
			t.Errorf("region %d: %v with zero weights, %v with equal ones", i, a.Box(i), b.Box(i))
		}
	}
}

func TestCaseThinRegions(t *testing.T) {
	s, err := spatial.New(sim.Space{Kind: sim.Plane, Dims: 2, Bounds: sim.Box{Max: vec(10, 10, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	var points []Point
	for i := range 100 {
		points = append(points, Point{vec(4.9+0.2*float64(i)/99, 5, 0), 1})
	}
	m := mustBuild(t, s, points, 8)
	counts := make([]int, 8)
	for _, p := range points {
		counts[m.Region(p.Pos)]++
		if near := m.Near(p.Pos, 1, nil); len(near) != 8 {
			t.Fatalf("%v is near %v only: a ghost belongs in all 8, not in neighbours alone", p.Pos, near)
		}
	}
	if slices.Max(counts) > 13 || slices.Min(counts) < 12 {
		t.Errorf("counts %v", counts)
	}
	if n := m.Neighbours(3); !slices.Equal(n, []int{2, 4}) {
		t.Errorf("neighbours of a thin region: %v", n)
	}
}

func TestCaseCornerOverTwoSeams(t *testing.T) {
	s, err := spatial.New(sim.Space{Kind: sim.Torus, Dims: 2, Bounds: sim.Box{Max: vec(1, 1, 0)}, Periodic: [3]bool{true, true}})
	if err != nil {
		t.Fatal(err)
	}
	m := mustBuild(t, s, []Point{{vec(.25, .25, 0), 1}, {vec(.75, .25, 0), 1}, {vec(.25, .75, 0), 1}, {vec(.75, .75, 0), 1}}, 4)
	p := vec(0.1, 0.1, 0)
	if near := m.Near(p, 0.2, nil); !slices.Equal(near, []int{0, 1, 2, 3}) || m.Region(p) != 0 {
		t.Errorf("near: %v, own %d", near, m.Region(p))
	}
	if touched := m.Touching(sim.Box{Min: vec(-.1, -.1, 0), Max: vec(.3, .3, 0)}, nil); !slices.Equal(touched, []int{0, 1, 2, 3}) {
		t.Errorf("touching: %v", touched)
	}
	if n := m.Neighbours(0); len(n) != 3 {
		t.Errorf("neighbours %v", n)
	}
}

func TestCaseRoundingAtTheWrap(t *testing.T) {
	s, err := spatial.New(sim.Space{Kind: sim.Torus, Dims: 2, Bounds: sim.Box{Max: vec(1, 1, 0)}, Periodic: [3]bool{true, true}})
	if err != nil {
		t.Fatal(err)
	}
	m := mustBuild(t, s, nil, 4)
	if r := m.Region(vec(-1e-9, -1e-18, 0)); r != m.Region(s.Wrap(vec(-1e-9, -1e-18, 0))) {
		t.Errorf("region %d", r)
	}
	// Walkers in small steps over the seams: each has one owner after each step.
	walkers := make([]sim.Vec, 10)
	for step := range 30_000 {
		for i := range walkers {
			walkers[i] = s.Wrap(vec(walkers[i].X-1e-4*float64(i+1), walkers[i].Y+1e-5+1e-17*float64(i), 0))
			owners := 0
			for r := range 4 {
				if s.Contains(m.Box(r), walkers[i]) {
					owners++
				}
			}
			if owners != 1 {
				t.Fatalf("step %d: walker %d at %v has %d owners", step, i, walkers[i], owners)
			}
		}
	}
}

func TestEarthPole(t *testing.T) {
	s := space(t, "earth")
	m := mustBuild(t, s, []Point{{vec(0, 88, 0), 1}, {vec(90, 88, 0), 1}, {vec(-90, 88, 0), 1}, {vec(179, 88, 0), 1}}, 4)
	if near := m.Near(vec(0, 90, 0), 1, nil); len(near) != 4 {
		t.Errorf("at the pole: %v\n%v", near, m)
	}
	if touched := m.Touching(sim.Box{Min: vec(0, 89, 0), Max: vec(1, 91, 0)}, nil); len(touched) != 4 {
		t.Errorf("over the pole: %v", touched)
	}
}

func TestBuildRefuses(t *testing.T) {
	s := space(t, "earth")
	for _, c := range []struct {
		points  []Point
		regions int
		want    string
	}{
		{nil, 0, "0 regions: allowed is 1 to 65536"},
		{nil, -1, "allowed is 1 to 65536"},
		{nil, MaxRegions + 1, "allowed is 1 to 65536"},
		{[]Point{{vec(0, 0, 0), 1}, {vec(200, 0, 0), 1}}, 2, "point 1: longitude: 200"},
		{[]Point{{vec(0, math.NaN(), 0), 1}}, 2, "point 0: latitude: NaN"},
		{[]Point{{vec(0, 0, 0), -1}}, 2, "point 0: weight -1"},
		{[]Point{{vec(0, 0, 0), math.NaN()}}, 2, "point 0: weight NaN"},
		{[]Point{{vec(0, 0, 0), inf}}, 2, "point 0: weight +Inf"},
		{[]Point{{vec(0, 0, 0), 1e308}, {vec(0, 0, 0), 1e308}}, 2, "sum of the weights"},
	} {
		if m, err := Build(s, c.points, c.regions); err == nil || m != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %d regions: %v, want %q", c.points, c.regions, err, c.want)
		}
	}
	narrow, err := spatial.New(sim.Space{Kind: sim.Torus, Dims: 2, Bounds: sim.Box{Min: vec(1, 1, 0), Max: vec(1+1e-15, 1+1e-15, 0)}, Periodic: [3]bool{true, true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Build(narrow, nil, 4096); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("4,096 regions in a few roundings: %v", err)
	}
}

func TestNotANumber(t *testing.T) {
	m := mustBuild(t, space(t, "torus2"), nil, 4)
	p := vec(math.NaN(), 1, 0)
	if near := m.Near(p, 1, nil); !slices.Equal(near, []int{m.Region(p)}) {
		t.Errorf("near nowhere: %v", near)
	}
}

func TestManyRegions(t *testing.T) {
	for name := range specs() {
		m := mustBuild(t, space(t, name), nil, 1000)
		if n := m.Neighbours(500); m.Len() != 1000 || len(n) < 4 || len(n) > 60 {
			t.Errorf("%s: %d regions, neighbours %v", name, m.Len(), n)
		}
	}
}

func TestString(t *testing.T) {
	m := mustBuild(t, space(t, "plane2"), nil, 2)
	got := m.String()
	row := strings.Repeat("0", 36) + strings.Repeat("1", 36) + "\n"
	want := "map version 1, 2 regions\n" + strings.Repeat(row, 20) +
		"0 region 0: x -Inf to 0 m, y -Inf to +Inf m\n1 region 1: x 0 to +Inf m, y -Inf to +Inf m\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for name := range specs() {
		if s := mustBuild(t, space(t, name), nil, 70).String(); strings.Count(s, "\n") != 91 {
			t.Errorf("%s:\n%s", name, s)
		}
	}
}

func TestEncodingRoundTrip(t *testing.T) {
	everywhere(t, func(t *rapid.T, s *spatial.Space) {
		m := drawMap(t, s).WithVersion(rapid.Uint64().Draw(t, "version"))
		data, err := m.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var back Map
		if err := back.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		if back.Version() != m.Version() || back.Len() != m.Len() || back.String() != m.String() || back.Space().Spec() != s.Spec() {
			t.Fatalf("came back as\n%v\nwas\n%v", &back, m)
		}
		p := position(t, s)
		if back.Region(p) != m.Region(p) || back.Box(0) != m.Box(0) {
			t.Fatalf("%v lies elsewhere", p)
		}
		if cut := data[:rapid.IntRange(0, len(data)-1).Draw(t, "cut")]; back.UnmarshalBinary(cut) == nil {
			t.Fatalf("%d of %d bytes are read", len(cut), len(data))
		}
		if back.Len() != m.Len() {
			t.Fatal("a failed read changed the map")
		}
		if err := back.UnmarshalBinary(append(data, 0)); !errors.Is(err, ErrEncoding) {
			t.Fatalf("a byte too many: %v", err)
		}
	})
}

// FuzzUnmarshal: any bytes give an error or a map that answers and encodes to the same bytes.
func FuzzUnmarshal(f *testing.F) {
	for name := range specs() {
		for _, n := range []int{1, 2, 7} {
			data, err := mustBuild(f, space(f, name), nil, n).MarshalBinary()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m Map
		if err := m.UnmarshalBinary(data); err != nil {
			if !errors.Is(err, ErrEncoding) || m.Len() != 0 {
				t.Fatalf("error %v, %d regions", err, m.Len())
			}
			return
		}
		again, err := m.MarshalBinary()
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("read %x, wrote %x (%v)", data, again, err)
		}
		p := vec(1, 2, 3)
		if r := m.Region(p); r < 0 || r >= m.Len() || !slices.Contains(m.Near(p, 10, nil), r) {
			t.Fatalf("region %d of %d", r, m.Len())
		}
		_ = m.String()
	})
}

func BenchmarkNear(b *testing.B) {
	s := space(b, "earth")
	for _, regions := range []int{8, 64} {
		b.Run(fmt.Sprint(regions), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			var points []Point
			for range 1000 {
				points = append(points, Point{vec(-120+50*r.Float64(), 25+20*r.Float64(), 0), 1})
			}
			m := mustBuild(b, s, points, regions)
			var out []int
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				out = m.Near(points[i%len(points)].Pos, 100e3, out[:0])
			}
		})
	}
}
