package airspace

import (
	"bytes"
	_ "embed" // for the outline
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	svg "github.com/ajstarks/svgo"

	"github.com/simnode/simnode/sim"
)

// The picture is drawn in tenths of a pixel, so that whole numbers are precise enough.
const (
	pictureWidth = 10000
	legendHeight = 620
	// maxTracks and maxConflicts bound the size of the picture.
	maxTracks    = 3000
	maxConflicts = 3000
)

func (m *airspace) pictures(f *sim.Final) ([]sim.Picture, error) {
	lines, err := readOutline()
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	d := drawing{m: m, frame: m.net.frame(pictureWidth), svg: svg.New(&buf)}
	d.draw(f, lines)
	return []sim.Picture{{
		Name:  "airspace",
		Title: "Traffic, radars and losses of separation",
		Caption: fmt.Sprintf("%d flights in %s; the stronger a line, the more flights on it. Equal-area map; coast and borders: Natural Earth.",
			int64(m.departures.Of(f).Last), sim.Duration(f.End)),
		SVG: buf.Bytes()[bytes.Index(buf.Bytes(), []byte("<svg")):],
	}}, nil
}

type drawing struct {
	m     *airspace
	frame frame
	svg   *svg.SVG
}

func (d *drawing) draw(f *sim.Final, lines []outlineLine) {
	s, w, h := d.svg, d.frame.width, d.frame.height
	s.Startraw(fmt.Sprintf(`viewBox="0 0 %d %d"`, w, h+legendHeight), `width="100%"`, `font-family="system-ui, sans-serif"`)
	s.Rect(0, 0, w, h+legendHeight, `fill="#ffffff"`)
	s.ClipPath(`id="airspace-frame"`)
	s.Rect(0, 0, w, h)
	s.ClipEnd()
	s.Group(`clip-path="url(#airspace-frame)"`, `stroke-linejoin="round"`, `stroke-linecap="round"`)
	s.Rect(0, 0, w, h, `fill="#dde8f0"`)
	d.land(lines)
	d.tracks(f)
	d.radarDiscs()
	d.regions(f.Regions)
	shown := d.conflicts(f)
	d.airports()
	s.Gend()
	s.Rect(0, 0, w, h, `fill="none"`, `stroke="#9aa7b0"`, `stroke-width="12"`)
	d.legend(f, shown)
	s.End()
}

// path returns the path through points, with moves relative to the point before; parts outside the
// picture are left out. It is empty if nothing is in the picture.
func (d *drawing) path(points []sim.Vec, close bool) string {
	var b strings.Builder
	type point struct {
		x, y int
		in   bool
	}
	at := make([]point, len(points))
	some := false
	for i, p := range points {
		x, y := d.frame.project(p)
		at[i] = point{int(math.Round(x)), int(math.Round(y)), close || d.frame.inside(x, y)}
		some = some || d.frame.inside(x, y)
	}
	if !some {
		return ""
	}
	down := false
	for i, p := range at {
		drawn := p.in || i > 0 && at[i-1].in || i+1 < len(at) && at[i+1].in
		switch {
		case !drawn:
			down = false
			continue
		case !down:
			fmt.Fprintf(&b, "M%d %dl", p.x, p.y)
			down = true
			continue
		}
		dx, dy := p.x-at[i-1].x, p.y-at[i-1].y
		if b.String()[b.Len()-1] != 'l' && dx >= 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(dx))
		if dy >= 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(dy))
	}
	if close {
		b.WriteByte('z')
	}
	return b.String()
}

func (d *drawing) land(lines []outlineLine) {
	var coast, border strings.Builder
	for _, l := range lines {
		if l.border {
			border.WriteString(d.path(l.points, false))
			continue
		}
		coast.WriteString(d.path(l.points, true))
	}
	d.svg.Path(coast.String(), `fill="#f8f7f3"`, `stroke="#a3adb3"`, `stroke-width="10"`)
	d.svg.Path(border.String(), `fill="none"`, `stroke="#a3adb3"`, `stroke-width="14"`, `stroke-dasharray="60 30 10 30"`)
}

func (d *drawing) regions(boxes []sim.Box) {
	if len(boxes) < 2 {
		return
	}
	var b strings.Builder
	for _, box := range boxes {
		b.WriteString(d.path(boxEdge(box), false))
	}
	d.svg.Path(b.String(), `fill="none"`, `stroke="#4a2a68"`, `stroke-width="18"`, `stroke-opacity="0.7"`)
}

// radarDiscs draws what each radar covers, as a circle on the sphere.
func (d *drawing) radarDiscs() {
	const corners = 48
	d.svg.Group(`fill="#0b8a7a"`, `fill-opacity="0.06"`, `stroke="#0b8a7a"`, `stroke-opacity="0.75"`, `stroke-width="9"`)
	for _, a := range d.m.radar {
		points := make([]sim.Vec, corners)
		for i := range points {
			course := float64(i) * 360 / corners
			points[i] = d.m.space.Position(sim.Motion{
				From: d.m.net.place(a), Vel: sim.Vec{X: course, Y: d.m.p.RadarRange}, Stop: sim.Time(sim.Second),
			}, sim.Time(sim.Second))
		}
		if p := d.path(points, true); p != "" {
			d.svg.Path(p)
		}
	}
	d.svg.Gend()
}

// track is a pair of airports, either way, with its flights.
type track struct {
	route   int32
	flights int
}

// countTracks counts the recorded flights by pair of airports, most flown first.
func (m *airspace) countTracks(f *sim.Final) []track {
	index := make(map[[2]code]int)
	var tracks []track
	for i := range m.net.routes {
		r := &m.net.routes[i]
		o, d := m.net.codes[r.origin], m.net.codes[r.destination]
		if _, ok := index[[2]code{d, o}]; ok {
			index[[2]code{o, d}] = index[[2]code{d, o}]
			continue
		}
		index[[2]code{o, d}] = len(tracks)
		tracks = append(tracks, track{route: int32(i)})
	}
	for _, row := range m.flightRows.Rows(f) {
		tracks[index[[2]code{row.Row.Origin, row.Row.Destination}]].flights++
	}
	tracks = slices.DeleteFunc(tracks, func(t track) bool { return t.flights == 0 })
	slices.SortStableFunc(tracks, func(a, b track) int { return b.flights - a.flights })
	return tracks[:min(len(tracks), maxTracks)]
}

// tracks draws the great circles that were flown, the busiest on top.
func (d *drawing) tracks(f *sim.Final) {
	const classes = 5
	tracks := d.m.countTracks(f)
	if len(tracks) == 0 {
		return
	}
	most := math.Log(float64(tracks[0].flights) + 1)
	last := -1
	for i := len(tracks) - 1; i >= 0; i-- {
		t := tracks[i]
		class := min(int(classes*math.Log(float64(t.flights)+1)/most), classes-1)
		if class != last {
			if last >= 0 {
				d.svg.Gend()
			}
			d.svg.Group(`fill="none"`, `stroke="#1d5fa6"`,
				fmt.Sprintf(`stroke-width="%d"`, 5+3*class), fmt.Sprintf(`stroke-opacity="%.2f"`, 0.12+0.05*float64(class)))
			last = class
		}
		if p := d.path(d.m.greatCircle(t.route), false); p != "" {
			d.svg.Path(p)
		}
	}
	d.svg.Gend()
}

// greatCircle returns points along a route, at most 250 km apart.
func (m *airspace) greatCircle(route int32) []sim.Vec {
	mo := m.net.routes[route].motion
	n := int(math.Ceil(mo.Vel.Y*mo.Stop.Seconds()/250e3)) + 1
	points := make([]sim.Vec, n+1)
	for i := range points {
		points[i] = m.space.Position(mo, mo.Stop/sim.Time(n)*sim.Time(i))
	}
	return points
}

// conflicts draws the first losses of separation and returns how many it drew.
func (d *drawing) conflicts(f *sim.Final) int {
	rows := d.m.conflictRows.Rows(f)
	rows = rows[:min(len(rows), maxConflicts)]
	d.svg.Group(`fill="#d62f3a"`, `fill-opacity="0.75"`)
	for _, r := range rows {
		x, y := d.frame.project(sim.Vec{X: r.Row.Longitude, Y: r.Row.Latitude})
		if d.frame.inside(x, y) {
			d.svg.Circle(int(x), int(y), 19)
		}
	}
	d.svg.Gend()
	return len(rows)
}

// airports marks the airports with a radar, the busiest first, and names those whose name has room.
func (d *drawing) airports() {
	const labelWidth, labelHeight = 340, 130
	var placed [][2]float64
	d.svg.Group(`font-size="120"`, `fill="#12343b"`, `stroke="#ffffff"`, `stroke-width="36"`, `paint-order="stroke"`, `font-weight="600"`)
	for _, a := range d.m.radar {
		x, y := d.frame.project(d.m.net.place(a))
		if !d.frame.inside(x, y) {
			continue
		}
		d.svg.Circle(int(x), int(y), 26, `stroke-width="10"`)
		room := !slices.ContainsFunc(placed, func(p [2]float64) bool {
			return math.Abs(p[0]-x) < labelWidth && math.Abs(p[1]-y) < labelHeight
		})
		if room {
			placed = append(placed, [2]float64{x, y})
			d.svg.Text(int(x)+40, int(y)-30, d.m.net.codes[a].String())
		}
	}
	d.svg.Gend()
}

func (d *drawing) legend(f *sim.Final, shown int) {
	s, y := d.svg, d.frame.height+190
	s.Group(`font-size="150"`, `fill="#22313a"`)
	s.Line(200, y, 520, y, `stroke="#1d5fa6"`, `stroke-width="24"`, `stroke-opacity="0.6"`)
	s.Text(600, y+50, fmt.Sprintf("flights on great circles (%d)", int64(d.m.departures.Of(f).Last)))
	s.Circle(360, y+240, 90, `fill="#0b8a7a"`, `fill-opacity="0.12"`, `stroke="#0b8a7a"`, `stroke-width="10"`)
	s.Text(600, y+290, fmt.Sprintf("radars, range %.0f km (%d)", d.m.p.RadarRange/1000, len(d.m.radar)))
	s.Circle(4060, y, 40, `fill="#d62f3a"`)
	total := d.m.conflictRows.Count(f)
	text := fmt.Sprintf("losses of separation (%d)", total)
	if int64(shown) < total {
		text = fmt.Sprintf("losses of separation (the first %d of %d)", shown, total)
	}
	s.Text(4260, y+50, text)
	if len(f.Regions) > 1 {
		s.Line(3900, y+240, 4200, y+240, `stroke="#4a2a68"`, `stroke-width="18"`, `stroke-opacity="0.7"`)
		s.Text(4260, y+290, fmt.Sprintf("borders of the %d regions", len(f.Regions)))
	}
	d.scale(y)
	s.Gend()
}

// scale draws a bar of a round length near a tenth of the width; the projection is true to scale at
// the centre and within two per cent at the edges of a continent.
func (d *drawing) scale(y int) {
	const earthRadius = 6371008.8
	metres := float64(pictureWidth) / 8 / d.frame.unit * earthRadius
	round := math.Pow(10, math.Floor(math.Log10(metres)))
	for _, f := range []float64{5, 2} {
		if f*round <= metres {
			round *= f
			break
		}
	}
	w := int(round / earthRadius * d.frame.unit)
	x := d.frame.width - 300 - w
	d.svg.Path(fmt.Sprintf("M%d %dv60h%dv-60", x, y, w), `fill="none"`, `stroke="#22313a"`, `stroke-width="14"`)
	d.svg.Text(x+w/2, y+260, fmt.Sprintf("%g km", round/1000), `text-anchor="middle"`)
}

//go:embed outline.csv
var outlineCSV string

// outlineLine is a coast (closed) or a border.
type outlineLine struct {
	border bool
	points []sim.Vec
}

func readOutline() ([]outlineLine, error) {
	rows, err := csv.NewReader(strings.NewReader(outlineCSV)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("outline.csv: %w", err)
	}
	var lines []outlineLine
	last := ""
	for i, r := range rows[1:] {
		lon, errLon := strconv.ParseFloat(r[2], 64)
		lat, errLat := strconv.ParseFloat(r[3], 64)
		if errLon != nil || errLat != nil {
			return nil, fmt.Errorf("outline.csv:%d: %s, %s is not a place", i+2, r[2], r[3])
		}
		if r[1] != last {
			lines = append(lines, outlineLine{border: r[0] == "border"})
			last = r[1]
		}
		l := &lines[len(lines)-1]
		l.points = append(l.points, sim.Vec{X: lon, Y: lat})
	}
	return lines, nil
}
