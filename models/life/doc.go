// Package life is Conway's Game of Life, event-driven: a model of many small entities of which few do
// something.
//
// It promises the generations of the rule, exactly, on a plane with a dead border or on a torus, at
// the cost of what changes: a cell whose neighbourhood is quiet has no event.
//
// A cell is an entity; one generation takes one second. A cell that changes tells its eight
// neighbours, which hear it a generation later, count it, and then, when all of that instant has been
// heard, decide what they become.
package life
