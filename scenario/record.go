package scenario

import (
	"fmt"
	"reflect"
)

// Record says what of a run is kept.
type Record struct {
	// Level is how much: off, summary, statistical or raw (every event).
	Level string
	// Formats of the files: csv, parquet.
	Formats []string
	// Report asks for report.html.
	Report bool
}

func recordKeys() []string    { return []string{"level", "formats", "report"} }
func recordLevels() []string  { return []string{"off", "summary", "statistical", "raw"} }
func recordFormats() []string { return []string{"csv", "parquet"} }

func (l *loader) readRecord() {
	r := Record{Level: "statistical", Formats: []string{"csv"}, Report: true}
	n := l.section("record")
	l.knownKeys(n, "record", recordKeys())
	text := reflect.TypeFor[string]()
	level := &field{kind: textField, typ: text, enum: recordLevels()}
	formats := &field{kind: listField, typ: reflect.TypeFor[[]string](), elem: &field{kind: textField, typ: text, enum: recordFormats()}}
	report := &field{kind: boolField, typ: reflect.TypeFor[bool]()}
	l.bindKey(n, "level", level, &r.Level)
	l.bindKey(n, "formats", formats, &r.Formats)
	l.bindKey(n, "report", report, &r.Report)
	if len(r.Formats) == 0 {
		l.add(l.place("record.formats"), "record.formats", faultf("to keep nothing write \"level: off\"; "+choose("", "formats", recordFormats()), "the list is empty"))
	}
	for i, format := range r.Formats {
		if contains(r.Formats[:i], format) {
			path := fmt.Sprintf("record.formats[%d]", i)
			l.add(l.place(path), path, faultf("keep one", "%s is given twice", format))
		}
	}
	l.scenario.Record = r
}

func (l *loader) bindKey(n *node, key string, f *field, to any) {
	if e := n.get(key); e != nil {
		l.bind(f, "record."+key, e.value, reflect.ValueOf(to).Elem())
	}
}
