// Package report writes the page that a person looks at after a run: one file of HTML that opens
// without a network.
//
// What it promises:
//
//   - Nothing is loaded from elsewhere: styles are in the page, pictures and plots are SVG in the
//     page, and there is no script.
//   - Text of any origin is shown as text. A model's picture is taken over element by element from a
//     list of what SVG may draw; one that wants more (scripts, references to elsewhere) is left out
//     with a note that says why.
//   - Every plot has its units on its axes and can be read in a light and a dark page, on paper, and
//     without telling red from green (palette: M. Okabe, K. Ito, "Color universal design", 2008).
//   - A run of which there is little (no series, no events, a single region, values missing) gives a
//     shorter page and never an error.
//
// Wall-clock figures (busy time of regions) appear on the page only; they are no part of a result.
package report
