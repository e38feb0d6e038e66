package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/simnode/simnode/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func wave(n int, scale float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = scale * (1 + math.Sin(float64(i)/20))
	}
	return v
}

func full() Report {
	gaps := wave(288, 5)
	gaps[0], gaps[7], gaps[8], gaps[287] = math.NaN(), math.NaN(), math.Inf(1), math.NaN()
	return Report{
		Title: "A day", Model: "airspace", Scenario: "us.yaml", End: sim.Time(sim.Day),
		Facts:   []Fact{{"events", "34,000"}, {"seed", "1"}},
		Results: map[string]any{"flights": 19203, "radars": []map[string]any{{"airport": "ATL", "detections": 12345}}},
		Series: []Series{
			{Name: "airborne", Unit: "aircraft", Doc: "In the air.", Kind: sim.GaugeSeries, Stats: sim.Stats{Count: 3, Mean: 1126.4, Variance: 4, Bins: wave(288, 1000)}},
			{Name: "delay", Unit: "s", Kind: sim.SampleSeries, Stats: sim.Stats{Count: 2, Mean: 1.5, Bins: gaps}},
			{Name: "departures", Unit: "flights", Kind: sim.CounterSeries, Stats: sim.Stats{Count: 2, Sum: 2, Bins: wave(288, 60)}},
			{Name: "conflicts", Kind: sim.TableSeries, Stats: sim.Stats{Count: 2, Bins: make([]float64, 288)}},
		},
		Rate: wave(288, 400), Load: [][]float64{wave(288, 100), wave(288, 90)}, RegionEvents: []uint64{1200, 800}, RegionBusy: []float64{1.5, 1.25},
		Map:      "+---+---+\n| 0 | 1 |\n+---+---+",
		Pictures: []sim.Picture{{Name: "map", Title: "Traffic", Caption: "All of it.", SVG: []byte(`<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path d="M0 0L9 9"/></svg>`)}},
	}
}

func write(t testing.TB, r Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// svgs returns the drawings of a page.
func svgs(page string) []string {
	return regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
}

func wellFormed(svg string) error {
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// check holds for every page.
func check(t testing.TB, page string) {
	t.Helper()
	for _, bad := range []string{"http:", "https:", "<script", "<link", "@import", "ZgotmplZ", "NaN", "Inf"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	for _, svg := range svgs(page) {
		if err := wellFormed(svg); err != nil {
			t.Errorf("%v in %.200s", err, svg)
		}
		if len(svg) > 200_000 {
			t.Errorf("a drawing of %d bytes", len(svg))
		}
	}
}

func TestWholePage(t *testing.T) {
	page := write(t, full())
	check(t, page)
	if n := len(svgs(page)); n != 1+1+4+2 {
		t.Errorf("%d drawings", n)
	}
	for _, want := range []string{
		"<title>A day</title>", "Model airspace · Scenario us.yaml", "<dt>events</dt><dd>34,000</dd>", ">Traffic<", "All of it.",
		">19,203<", ">12,345<", "simulated time (h)", "aircraft (average)", "s (mean)", "flights per 5m", "rows per 5m",
		"events per simulated second", ">60.0 %<", ">1.25 s<", "| 0 | 1 |", `title="In the air."`, ">1,126.4<", "region 1", "prefers-color-scheme: dark",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	order := []string{`class="facts"`, ">Pictures<", ">Results<", ">Over simulated time<", ">Series<", ">Regions<"}
	at := -1
	for _, part := range order {
		i := strings.Index(page, part)
		if i <= at {
			t.Errorf("%s stands at %d, after a part at %d", part, i, at)
		}
		at = i
	}
	if page != write(t, full()) {
		t.Error("the same report gives another page")
	}
}

func TestEmptyRun(t *testing.T) {
	page := write(t, Report{Title: "nothing"})
	check(t, page)
	if strings.Contains(page, "<h2>") || len(svgs(page)) != 0 {
		t.Errorf("an empty report has parts:\n%s", page)
	}
	r := full()
	r.End = 0
	for i := range r.Series {
		r.Series[i].Stats = sim.Stats{}
	}
	r.Rate, r.Load, r.RegionEvents, r.Results = []float64{math.NaN()}, [][]float64{{}, {}}, []uint64{0, 0}, map[string]any{}
	check(t, write(t, r))
}

func TestSingleRegion(t *testing.T) {
	r := full()
	r.Load, r.RegionEvents, r.RegionBusy = r.Load[:1], []uint64{7}, nil
	page := write(t, r)
	check(t, page)
	if strings.Contains(page, "Events by region") || !strings.Contains(page, "100.0 %") {
		t.Error("a single region needs a row and no chart")
	}
}

func TestManyRegions(t *testing.T) {
	for _, n := range []int{9, 16, 1000, maxBars + 1} {
		r := full()
		r.Load, r.RegionEvents = nil, nil
		for i := range n {
			r.Load, r.RegionEvents = append(r.Load, wave(288, float64(i))), append(r.RegionEvents, uint64(i))
		}
		page := write(t, r)
		check(t, page)
		if !strings.Contains(page, "largest") || strings.Contains(page, "There is no plot") != (n > maxBars) {
			t.Errorf("%d regions", n)
		}
	}
}

func TestHostileText(t *testing.T) {
	const evil = "<script>alert(1)</script>\"'&\x00\xff\u202e]]>-->"
	r := full()
	r.Title, r.Model, r.Scenario, r.Map = evil, evil, evil, evil
	r.Facts = []Fact{{evil, evil}}
	r.Results = map[string]any{evil: evil, "list": []any{evil, map[string]any{evil: 1}, nil}}
	for i := range r.Series {
		r.Series[i].Name, r.Series[i].Unit, r.Series[i].Doc = evil, evil, evil
	}
	r.Pictures = []sim.Picture{{Name: evil, Title: evil, Caption: evil, SVG: []byte(evil)}}
	page := write(t, r)
	check(t, page)
	if n := strings.Count(page, "&lt;script&gt;alert(1)&lt;/script&gt;"); n < 15 {
		t.Errorf("the text is shown %d times", n)
	}
}

func FuzzText(f *testing.F) {
	f.Add("<script>", "m/s")
	f.Add("{{.}}", "\x00\x1f\ufffe")
	f.Add(strings.Repeat("long ", 100), "\u0301")
	f.Fuzz(func(t *testing.T, name, unit string) {
		svg, err := PlotSeries(Series{Name: name, Unit: unit, Kind: sim.GaugeSeries, Stats: sim.Stats{Bins: []float64{1, 2}}}, 10)
		if err != nil || wellFormed(string(svg)) != nil {
			t.Fatalf("%v %v", err, wellFormed(string(svg)))
		}
		page := write(t, Report{Title: name, Map: unit, Facts: []Fact{{name, unit}}, Results: map[string]any{name: unit}})
		if strings.Contains(page, "<script") {
			t.Fatal("text became an element")
		}
	})
}

// TestAnyValues: no value, length of run or number of bins breaks a plot.
func TestAnyValues(t *testing.T) {
	value := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, -1, 1e-300, 1e16, 1e199, -1e199, math.NaN(), math.Inf(1), math.Inf(-1)}))
	rapid.Check(t, func(rt *rapid.T) {
		values := rapid.SliceOfN(value, 0, 30).Draw(rt, "values")
		end := sim.Time(rapid.Int64Min(0).Draw(rt, "end"))
		for _, kind := range []sim.SeriesKind{sim.CounterSeries, sim.GaugeSeries, sim.SampleSeries, sim.TableSeries} {
			svg, err := PlotSeries(Series{Kind: kind, Unit: "m", Stats: sim.Stats{Bins: values}}, end)
			if (err == nil) != drawable(values) {
				rt.Fatalf("error %v", err)
			}
			if err == nil && (wellFormed(string(svg)) != nil || strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf")) {
				rt.Fatalf("%s", svg)
			}
		}
	})
}

func TestManyBinsStaySmall(t *testing.T) {
	svg, err := PlotLine(Line{Values: wave(100_000, 1)}, sim.Time(sim.Day), "x", true)
	if err != nil || len(svg) > 60_000 {
		t.Errorf("%d bytes, %v", len(svg), err)
	}
	if got := thin([]float64{1, 3}); !slices.Equal(got, []float64{1, 3}) {
		t.Errorf("few values are changed: %v", got)
	}
	many := make([]float64, 2*maxSteps)
	for i := range many {
		many[i] = float64(i % 2)
	}
	for _, v := range thin(many) {
		if v != 0.5 {
			t.Fatalf("mean of 0 and 1 is %g", v)
		}
	}
}

func TestResultsThatCannotBeShown(t *testing.T) {
	page := write(t, Report{Results: map[string]any{"x": math.Inf(1)}})
	if !strings.Contains(page, "The results cannot be shown: json: unsupported value") {
		t.Error("no note")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriterFails(t *testing.T) {
	if err := Write(broken{}, full()); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("error %v", err)
	}
}

func TestResultsTree(t *testing.T) {
	long := make([]int, shownRows+5)
	page := write(t, Report{Results: map[string]any{
		"at": map[string]int{"1103": 116, "100": 121, "x": 1}, "long": long, "none": nil, "empty": []int{}, "nothing": map[string]int{},
		"yes": true, "big": 12345678901234567, "mixed": []any{1, []int{2}, "a"}, "rows": []map[string]any{{"a": 1}, {"b": 2.5}},
	}})
	check(t, page)
	for _, want := range []string{"and 5 more", ">true<", "12,345,678,901,234,567", "1, [2], a", "<th>a</th><th>b</th>", "<td>1</td><td>–</td>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if a, b := strings.Index(page, ">100<"), strings.Index(page, ">1103<"); a < 0 || b < a {
		t.Error("numbers as names are out of order")
	}
}

func TestPictures(t *testing.T) {
	good := map[string]string{
		`<!-- c --><svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"><use xlink:href="#a"/></svg>`: `<svg><use xlink:href="#a"></use></svg>`,
		`<svg><text x="1">a &lt;b&gt; &amp; c</text></svg>`:                                                                         `<svg><text x="1">a &lt;b&gt; &amp; c</text></svg>`,
		`<svg><title><![CDATA[<img src=x>]]></title></svg>`:                                                                         `<svg><title>&lt;img src=x&gt;</title></svg>`,
		`<svg><rect fill="url(#g)" style='clip-path:url("#c")'/></svg>`:                                                             `<svg><rect fill="url(#g)" style="clip-path:url(&#34;#c&#34;)"></rect></svg>`,
		`<svg><image href="data:image/png;base64,AA"/></svg>`:                                                                       `<svg><image href="data:image/png;base64,AA"></image></svg>`,
		"\ufeff<?xml version=\"1.0\"?>\n<!DOCTYPE svg>\n<svg viewBox=\"0 0 1 1\"></svg>\n":                                          `<svg viewBox="0 0 1 1"></svg>`,
	}
	for in, want := range good {
		if got, err := inline([]byte(in)); err != nil || got != want {
			t.Errorf("%s gives %s (%v)", in, got, err)
		}
	}
	for _, bad := range []string{
		"", "text", "<svg>", "<svg></g></svg>", "<svg/><svg/>", "<html/>", "</svg>", "<svg><g></svg></g>", "<svg a=1/>", "<svg>&bomb;</svg>",
		`<svg><script/></svg>`, `<svg><SCRIPT/></svg>`, `<svg><x:script/></svg>`, `<svg><foreignObject/></svg>`, `<svg><animate/></svg>`, `<svg><img/></svg>`,
		`<svg onload="x"/>`, `<svg><g OnClick="x"/></svg>`, `<svg><use href="//host/x"/></svg>`, `<svg><image xlink:href="file.png"/></svg>`,
		`<svg><image href="data:image/svg+xml;base64,AA"/></svg>`, `<svg><style>@IMPORT "x"</style></svg>`, `<svg><rect fill="URL(x)"/></svg>`,
		`<svg><rect fill="url(#a) url( x)"/></svg>`, `<svg><style>a{b:u\72l(x)}</style></svg>`, `<svg><a href="#x"/></svg>`,
	} {
		if got, err := inline([]byte(bad)); err == nil {
			t.Errorf("%s is taken as %s", bad, got)
		}
	}
}

func FuzzPicture(f *testing.F) {
	f.Add([]byte(`<svg><g a="b">x</g></svg>`))
	f.Add([]byte(`<svg xmlns:a="b"><style>a{}</style></svg>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := inline(data)
		if err != nil {
			return
		}
		if err := wellFormed(strings.ReplaceAll(out, "xmlns", "x")); err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		again, err := inline([]byte(out))
		if err != nil || again != out {
			t.Fatalf("%q gives %q (%v)", out, again, err)
		}
	})
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1234567: "1,234,567", -1234.5: "-1,234.5", 0.1: "0.1", 1126.43210: "1,126.43", 1e15: "1e+15",
		1.23456789e-7: "1.23457e-07", 999999.96: "1,000,000", 0.00012345678: "0.000123457", math.Inf(1): "+Inf", math.Pi: "3.14159"} {
		if got := number(v); got != want {
			t.Errorf("%v is printed %s, want %s", v, got, want)
		}
	}
	if number(math.NaN()) != "–" || number(math.Copysign(0, -1)) != "0" {
		t.Errorf("NaN %s, -0 %s", number(math.NaN()), number(math.Copysign(0, -1)))
	}
}

func TestTimeAxis(t *testing.T) {
	for end, want := range map[sim.Time]string{
		sim.Time(sim.Day): "h: 0 3 6 9 12 15 18 21 24 ", sim.Time(10 * sim.Day): "d: 0 2 4 6 8 10 ", sim.Time(sim.Hour): "min: 0 10 20 30 40 50 60 ",
		sim.Time(60 * sim.Second): "s: 0 10 20 30 40 50 60 ", sim.Time(sim.Second): "ms: 0 200 400 600 800 1,000 ", 1: "ns: 0 0.2 0.4 0.6 0.8 1.0 ",
	} {
		u := timeUnitOf(end)
		got := u.name + ": "
		for _, tick := range u.ticker().Ticks(0, end.Seconds()/u.seconds) {
			got += tick.Label + " "
		}
		if got != want {
			t.Errorf("%v: %q, want %q", end, got, want)
		}
	}
}

func TestTicksAreInRange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		low := rapid.Float64Range(-1e12, 1e12).Draw(rt, "low")
		high := low + rapid.Float64Range(1e-3, 1e12).Draw(rt, "span")
		step := niceStep((high - low) / 6)
		got := ticks(low, high, step)
		if len(got) < 2 || len(got) > 8 {
			rt.Fatalf("%d ticks in [%g, %g]", len(got), low, high)
		}
		for _, tick := range got {
			if tick.Value < low-step*1e-6 || tick.Value > high+step*1e-6 || tick.Label == "" {
				rt.Fatalf("tick %+v outside [%g, %g]", tick, low, high)
			}
		}
	})
}

func TestPathsBreakBetweenTheirParts(t *testing.T) {
	var b bytes.Buffer
	err := Write(&b, Report{Scenario: "a/<b>/c.yaml", Facts: []Fact{{"scenario", "x/<y>/z"}}, Results: map[string]any{"file": "p/<q>/r"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Scenario a/<wbr>&lt;b&gt;/<wbr>c.yaml", "<dd>x/<wbr>&lt;y&gt;/<wbr>z</dd>", "<td>p/<wbr>&lt;q&gt;/<wbr>r</td>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}
