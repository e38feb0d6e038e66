// Package record turns the ordered stream of observations of a run into statistics and files.
//
// What it promises:
//
//   - The engine hands the observations over in one order for any number of regions and workers, and
//     every number here is computed in that order alone. So every byte of every file and every bit of
//     every statistic is the same for any number of regions and workers, and for any way in which the
//     stream is cut into calls of Observe.
//   - Statistics are always computed, whatever the Level; files are written as Level and the formats
//     in Options ask for, while the run goes on, in memory that does not grow with the run.
//   - Files are written under a name that ends in ".partial" and get their own name from Finish. After
//     Finish, also of an interrupted or failed run, every file named by Outputs is complete up to the
//     time that was reached. What is left of a killed process ends in ".partial".
//   - A value that no statistic can hold (NaN, an infinity) and text that is not UTF-8 are errors
//     which name the series, entity, kind and time, at every level, so that recording never decides
//     whether a run succeeds.
//
// # Files
//
// With formats csv, parquet or both, at level statistical:
//
//	series    one row per series: name, kind, unit, count, sum, mean, variance, min, max, last and
//	          the quantiles p05 to p99; empty where a series has no such number
//	timeline  one row per bin of simulated time and one column per series: of a counter the count
//	          and of a table the rows in the bin, of a gauge its average over time, of a sample its
//	          mean; empty where there was nothing to average and beyond the end of an interrupted run
//	<table>   one file per table: time_s, time_ns, entity, then the table's own columns
//
// and at level raw also
//
//	events    every event handled: time_ns, priority, source, sequence, entity, kind, event
//
// A unit follows the column's name: distance_m. Columns of type sim.Time and sim.Duration are in
// nanoseconds. Floats have the fewest digits that read back to the same value.
//
// # Saving and resuming
//
// With Options.Resumable, Save returns the state of the recording at a moment, and Resume goes on from
// it in another process or, with copies of the files that Files names, on another machine:
//
//   - Files, statistics and rows at the end are bit for bit those of a recording that was never
//     interrupted and not even resumable, however often it is resumed.
//   - Until Release, every state that was saved can be resumed, also after Finish: a crash between the
//     end of the recording and the moment when the end is made known costs nothing.
//   - A refusal names what is wrong and changes nothing on the disk. What was cut off, altered or lost
//     in a file or in the state is noticed before it is used.
//   - A full disk costs a Save and not the run, unless the run itself has no room to write.
//
// CSV files are cut back to the length they had and appended to. A Parquet file cannot be cut back: its
// rows go to a spool (observations.rows.partial), of which Finish makes it. The spool also holds the
// rows that Rows gives back and, with Options.Rebin, every value, so that a resumed run may have another
// end: its bins are then made anew.
//
// # Quantiles
//
// The first 4,096 values of a sample are kept and its quantiles are exact; beyond that they come from
// a histogram whose buckets are 1/512 of an octave's lower end wide, so that each order statistic is
// off by at most 0.1 % of itself. Between two order statistics quantiles are interpolated linearly
// (R. Hyndman, Y. Fan, "Sample quantiles in statistical packages", 1996, type 7).
package record
