package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const withTable = "model: tower\nparams: {plain: 1, airports: a.csv}\n"

func TestTableProblems(t *testing.T) {
	head := "iata,latitude,longitude,size\n"
	for _, c := range []struct {
		name, table string
		want        []string
	}{
		{"empty table", "", []string{"a.csv:1:1: params.airports: the table is empty; begin with a header: iata,latitude,longitude,size,note"}},
		{"without a named column", "iata,lattitude,longitude\nA,1,1\n",
			[]string{`a.csv:1:1: params.airports.latitude: the table has no column "latitude"; rename the column "lattitude"? columns there are: iata, lattitude, longitude`}},
		{"two columns of one name", "iata,latitude,longitude,iata\n", []string{"a.csv:1:25: params.airports.iata: two columns"}},
		{"coordinate out of range", head + "A,1,2,3\nB,90.5,-181,3\n", []string{
			`a.csv:3:3: params.airports.latitude: "90.5" is out of range; expected from -90 deg to 90 deg`,
			`a.csv:3:8: params.airports.longitude: "-181" is out of range; expected from -180 deg to 180 deg`}},
		{"duplicate airport", head + "A,1,2,3\nB,1,2,3\nA,5,5,5\n", []string{`a.csv:4:1: params.airports.iata: duplicate "A": lines 2 and 4`}},
		{"wrong cells", head + "A,x,,1.5\n,1,1,3000000000\n", []string{
			`a.csv:2:3: params.airports.latitude: "x" is not a number`,
			`a.csv:2:5: params.airports.longitude: the cell is empty; expected a number in deg`,
			`a.csv:2:6: params.airports.size: "1.5" is not a whole number`,
			`a.csv:3:1: params.airports.iata: the cell is empty`,
			`a.csv:3:6: params.airports.size: "3000000000" is out of range`}},
		{"wrong unit", head + "A,5 km,1e400,-1\n", []string{
			`a.csv:2:3: params.airports.latitude: "5 km" is a length, not an angle`,
			`a.csv:2:8: params.airports.longitude: "1e400" is too large`,
			`a.csv:2:14: params.airports.size: "-1" is out of range; expected at least 0`}},
		{"ragged rows", head + "A,1\nB,1,2,3,4\n", []string{
			"a.csv:2:1: params.airports: the row has 2 cells and the header has 4", "a.csv:3:1: params.airports: the row has 5 cells"}},
		{"bare quote", head + "A\"B,1,2,3\nC,x,2,3\n", []string{"a.csv:2:2: params.airports: a quote in the wrong place", "a.csv:3:3: params.airports.latitude: "}},
		{"open quote", head + "\"A,1,2,3\nC,1,2,3\n", []string{"a.csv:...params.airports: a quote in the wrong place"}},
		{"not UTF-8", head + "A\xff,1,2,3\n", []string{`a.csv:2:1: params.airports.iata: "A\xff" is not valid UTF-8`}},
		{"not a number", head + "A,NaN,Inf,3\n", []string{`a.csv:2:3: params.airports.latitude: "NaN" is not`, `a.csv:2:7: params.airports.longitude: "Inf" is not`}},
	} {
		t.Run(c.name, func(t *testing.T) { wantProblems(t, withTable, map[string]string{"a.csv": c.table}, nil, c.want...) })
	}
}

func TestTableListsTwentyProblems(t *testing.T) {
	table := "iata,latitude,longitude\n" + strings.Repeat("A,x,1\n", 100)
	_, err := loadText(t, withTable, map[string]string{"a.csv": table})
	var p Problems
	// Only 20 are listed of 100 bad cells and 99 duplicates.
	if !errors.As(err, &p) || len(p) != 21 || p[19].Line != 12 || !strings.Contains(p[20].Text, "and 179 more problems in this table") {
		t.Errorf("got %d problems:\n%v", len(p), err)
	}
}

func TestTableMissing(t *testing.T) {
	wantProblems(t, withTable, map[string]string{"aa.csv": ""}, nil,
		`s.yaml:2:30: params.airports: there is no file ...a.csv...did you mean "aa.csv"?...relative to the scenario`)
	wantProblems(t, "model: tower\nparams: {plain: 1, airports: [a.csv]}\n", nil, nil, "s.yaml:2:30: params.airports: expected a single value, not a list")
	wantProblems(t, "model: tower\nparams: {plain: 1, airports: /dev/zero}\n", nil, nil, `s.yaml:2:30: params.airports: "/dev/zero" is not a regular file`)
	wantProblems(t, "model: tower\nparams: {plain: 1, airports: \"a\\0b\"}\n", nil, nil, "s.yaml:2:30: params.airports: expected the name of a file")
}

func TestTableLongLine(t *testing.T) {
	dir := folder(t, map[string]string{"s.yaml": withTable, "a.csv": "iata,latitude,longitude\nA,1,1\n"})
	file, err := os.OpenFile(filepath.Join(dir, "a.csv"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(100 << 20); err != nil {
		t.Fatal(err)
	}
	_, err = Load(filepath.Join(dir, "s.yaml"), Options{Models: testModels()})
	if err == nil || !strings.Contains(err.Error(), "a row is longer than 1 MB") || len(err.Error()) > 1000 {
		t.Errorf("got %.300v", err)
	}
}

func TestTableForms(t *testing.T) {
	want := []airport{{"A", 1, 2, 7, ""}, {"B\nC", -1.5, 0.25, 1, "x, \"y\""}}
	for name, table := range map[string]string{
		"plain":           "iata,latitude,longitude,size,note\nA,1,2,7,\n\"B\nC\",-1.5,0.25,,\"x, \"\"y\"\"\"\n",
		"CRLF":            "iata,latitude,longitude,size,note\r\nA,1,2,7,\r\n\"B\r\nC\",-1.5,0.25,,\"x, \"\"y\"\"\"",
		"byte order mark": "\xef\xbb\xbfiata,latitude,longitude,size,note\nA,1,2,7,\n\"B\nC\",-1.5,0.25,,\"x, \"\"y\"\"\"\n",
		"other columns":   "note,z,longitude,latitude,size,iata\n,,2,1,7,A\n\"x, \"\"y\"\"\",1,0.25,-1.5,,\"B\nC\"\n",
		"spaces, units":   " iata , latitude,longitude ,size,note\nA, 1 ,2 deg,7,\n\"B\nC\",-1.5°, 0.25deg,,\"x, \"\"y\"\"\"\n",
	} {
		p := loadParams(t, withTable, map[string]string{"a.csv": table})
		if !reflect.DeepEqual(p.Airports, want) {
			t.Errorf("%s: got %+v", name, p.Airports)
		}
	}
}

func TestTableAbsolutePath(t *testing.T) {
	dir := folder(t, map[string]string{"b.csv": "iata,latitude,longitude\nA,1,2\n"})
	p := loadParams(t, "model: tower\nparams: {plain: 1, airports: "+filepath.Join(dir, "b.csv")+"}\n", nil)
	if len(p.Airports) != 1 {
		t.Errorf("got %+v", p.Airports)
	}
}

// TestDefaultNamesATable: a default table is found beside the scenario, and its problems have places.
func TestDefaultNamesATable(t *testing.T) {
	text := "model: strict\nend: 1 s\nparams: {need: 1 m}\n"
	mustLoad(t, text, map[string]string{"rows.csv": "n,from\n200,\n"})
	wantProblems(t, text, map[string]string{"rows.csv": "n,from\n201,x\n"}, nil, `rows.csv:2:1: params.table.n: "201" is out of range; expected at most 200`)
	wantProblems(t, text, nil, nil, "s.yaml:1:8: params.table: there is no file")
}

// TestTableProperty writes random rows in random column orders and reads them back.
func TestTableProperty(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.yaml")
	if err := os.WriteFile(path, []byte(withTable), 0o644); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		codes := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Z"', ]{1,5}x`), 0, 8, rapid.ID).Draw(t, "codes")
		var want []airport
		for _, code := range codes {
			want = append(want, airport{code, rapid.Float64Range(-90, 90).Draw(t, "lat"), rapid.Float64Range(-180, 180).Draw(t, "lon"),
				rapid.Int32Min(0).Draw(t, "size"), rapid.StringMatching(`[a-zé,"\n]{0,6}`).Draw(t, "note")})
		}
		columns := rapid.Permutation([]string{"iata", "latitude", "longitude", "size", "note", "extra"}).Draw(t, "columns")
		var b strings.Builder
		b.WriteString(strings.Join(columns, ",") + "\n")
		for _, a := range want {
			cells := map[string]string{"iata": a.Code, "latitude": fmt.Sprint(a.Lat), "longitude": fmt.Sprint(a.Lon), "size": fmt.Sprint(a.Size), "note": a.Note, "extra": "?"}
			row := make([]string, len(columns))
			for i, c := range columns {
				row[i] = `"` + strings.ReplaceAll(cells[c], `"`, `""`) + `"`
			}
			b.WriteString(strings.Join(row, ",") + "\n")
		}
		if err := os.WriteFile(filepath.Join(dir, "a.csv"), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		l := &loader{file: path, files: disk{path}, options: Options{Models: testModels()}, scenario: &Scenario{}}
		l.root = parseYAML(path, []byte(withTable), &l.report)
		l.run()
		if err := l.report.err(); err != nil {
			t.Fatal(err)
		}
		if got := l.params.(*towerParams).Airports; len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	})
}

// FuzzTable: any bytes as a table end in rows or in bounded problems.
func FuzzTable(f *testing.F) {
	f.Add([]byte("iata,latitude,longitude\nA,1,2\n"))
	f.Add([]byte("\xef\xbb\xbfiata,latitude,longitude,size,note\r\n\"A\"\"\n\",1 deg,2rad,3,\r\n"))
	f.Add([]byte("iata,latitude,longitude\n\"A,1,2\n"))
	f.Add([]byte("a,b\n1\n"))
	fields, err := paramFields(towerModel())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r report
		rows := newTableReader(fields[0], "params.airports", "a.csv", strings.NewReader(string(data)), &r).read()
		if len(r.list) > maxTableProblems+1 {
			t.Errorf("%d problems", len(r.list))
		}
		for _, p := range r.list {
			if p.Line < 1 || p.Column < 1 || len(p.String()) > 4000 {
				t.Errorf("problem %v", p)
			}
		}
		for _, a := range rows.Interface().([]airport) {
			if !(a.Lat >= -90 && a.Lat <= 90 && a.Lon >= -180 && a.Lon <= 180 && a.Size >= 0) {
				t.Errorf("row out of range: %+v", a)
			}
		}
	})
}

// A row that is too long is reported where it is, also behind a quoted cell of several lines.
func TestLongRowsAreReportedAtTheirLine(t *testing.T) {
	long := strings.Repeat("x", maxRow+1<<16)
	for name, c := range map[string]struct {
		table string
		line  int
	}{
		"header":      {long, 1},
		"first row":   {"iata,latitude,longitude,size\n" + long, 2},
		"after lines": {"iata,latitude,longitude,size\n\n\"A\nB\",1,2,3\n" + long, 5},
		"quoted":      {"iata,latitude,longitude,size\nA,1,2,3\n\"" + long, 3},
		"after a bad": {"iata,latitude,longitude,size\nA,x,2,3\nB,1\n" + long, 4},
	} {
		_, err := loadText(t, withTable, map[string]string{"a.csv": c.table})
		var p Problems
		if !errors.As(err, &p) || p[len(p)-1].Line != c.line || !strings.Contains(p[len(p)-1].Text, "a row is longer than 1 MB") {
			t.Errorf("%s: got %v, want line %d", name, err, c.line)
		}
	}
}
