// Package partition holds the map that cuts space into regions: a k-d tree of cuts, made by weighted
// recursive coordinate bisection (M. Berger, S. Bokhari, "A partitioning strategy for nonuniform
// problems on multiprocessors", 1987).
//
// It promises:
//
//   - Every position lies in exactly one region, wherever it is.
//   - A map depends on the set of points, not on their order.
//   - A Map never changes and is safe for concurrent use; a new cut is a new Map.
//   - Gap never exceeds the true distance of two regions, and Near never misses one.
//
// The package is pure: no clock, no goroutine, no randomness.
package partition
