package record

import (
	"errors"

	"github.com/simnode/simnode/sim"
)

// writeStatistics writes the files that are known only at the end.
func (r *Recorder) writeStatistics(end sim.Time) error {
	if r.options.Level < Statistical {
		return nil
	}
	return errors.Join(r.writeSeries(), r.writeTimeline(end))
}

func seriesColumns() []column {
	columns := []column{{name: "name", typ: text}, {name: "kind", typ: text}, {name: "unit", typ: text}, {name: "count", typ: integer}}
	for _, name := range []string{"sum", "mean", "variance", "min", "max", "last", "p05", "p25", "p50", "p75", "p95", "p99"} {
		columns = append(columns, column{name: name, typ: float64s, optional: true})
	}
	return columns
}

func (r *Recorder) writeSeries() error {
	t, err := r.create("series", seriesColumns())
	if err != nil {
		return err
	}
	for _, s := range r.series {
		if err := t.write(s.describe()); err != nil {
			return err
		}
	}
	return nil
}

// describe returns the row of a series; what it does not have is null.
func (s *series) describe() []cell {
	st, kind := &s.stats, s.info.Kind
	number := func(has bool, v float64) cell {
		if !has {
			return cell{null: true}
		}
		return floatOrNull(v)
	}
	gauge, values := kind == sim.GaugeSeries, kind == sim.SampleSeries && st.Count > 0
	row := []cell{textCell([]byte(s.info.Name)), textCell([]byte(kind.String())), textCell([]byte(s.info.Unit)), intCell(st.Count),
		number(kind != sim.TableSeries, st.Sum),
		number(gauge || values, st.Mean), number(gauge || values && st.Count > 1, st.Variance),
		number(gauge || values, st.Min), number(gauge || values, st.Max),
		number(kind == sim.CounterSeries || gauge || values, st.Last)}
	for _, q := range st.Quantiles {
		row = append(row, number(values, q))
	}
	return row
}

func (r *Recorder) writeTimeline(end sim.Time) error {
	columns := []column{{name: "time_s", typ: float64s}, {name: "time_ns", typ: integer}}
	for _, s := range r.series {
		columns = append(columns, column{name: header(s.info.Name, s.info.Unit), typ: float64s, optional: true})
	}
	t, err := r.create("timeline", distinct(columns))
	if err != nil {
		return err
	}
	g := r.cursor.grid
	for i := range g.n {
		start := g.start(i)
		if start >= end && end < g.end {
			break
		}
		row := []cell{floatCell(start.Seconds()), intCell(int64(start))}
		for _, s := range r.series {
			row = append(row, floatOrNull(s.stats.Bins[i]))
		}
		if err := t.write(row); err != nil {
			return err
		}
	}
	return nil
}
