// Package scenario reads scenario files: it turns a file, command-line overrides and a list of models
// into a program that an engine can run, or into the list of everything that is wrong.
//
// What it promises:
//
//   - A scenario is checked whole before anything runs: keys, types, units, ranges, files, tables, the
//     model's own setup, every initial position. Load returns all problems at once, each with file,
//     line, column, field, what is allowed and the nearest right spelling.
//   - Any input, however damaged or large, ends in a scenario or in problems: never in a panic, a
//     hang, or memory without bound.
//   - A value with a dimension always names its unit ("250 km", "80 ms", "450 kt"). It is converted
//     exactly and rounded once, so equal values in different units are equal bit for bit.
//   - Scenario.Hash covers everything that can change a result and nothing that cannot.
//   - A Bundle holds a scenario and all files that it reads in one value; loading it gives the same
//     scenario, hash and problems on any machine, and opens no file.
//   - There is no package-level state; any number of scenarios may be loaded at once.
//
// A scenario file is one YAML document without anchors, aliases, tags or merge keys:
//
//	model: airspace
//	title: A day over the United States
//	seed: 1                 # whole number, 0 to 2^64-1, default 1
//	end: 1 d                # may be left out if the model sets an end
//	space:                  # may be left out if the model sets a space
//	  kind: earth           # plane, torus or earth
//	  west: -125 deg        # east, south, north alike; default: the whole earth
//	params:                 # the model's own; see sim.Define
//	  airports: data/airports.csv
//	  radars: 40
//	record:
//	  level: statistical    # off, summary, statistical (default) or raw
//	  formats: [csv]        # csv, parquet
//	  report: true          # write report.html
//
// A plane takes min (default 0) and max, lists of two or three lengths; a torus takes size, min
// (default 0) and periodic (a list of x, y, z; default: every axis).
//
// Tables are CSV files named relative to the scenario, with a header. Columns are found by name and
// others are ignored. A cell is a plain number in the unit of its column, or names its unit.
package scenario
