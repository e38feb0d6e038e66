// Package spatial computes in the space of a run: distances, positions of moving things, boxes,
// and an index that finds who is near.
//
// It promises:
//
//   - Space is immutable and safe for concurrent use; every method is a pure function of its
//     arguments. No method panics on any float, NaN and infinities included.
//   - Positions have one canonical form (Wrap). Every other method accepts any position and works
//     on its canonical form.
//   - Distance is symmetric bit for bit. BoxDistance and Gap never exceed the distance that
//     Distance returns for any points of the boxes.
//   - NextEnter and NextLeave agree with Position and Contains evaluated at that tick.
//   - Index answers exactly what a search through all entities with Position and Distance would
//     answer, bit for bit and in a defined order. What was put or asked before never shows.
//
// Units are metres, seconds and, on the earth, degrees of longitude and latitude. The earth is a
// sphere of the mean radius of the IUGG; altitude counts in boxes and never in distances.
package spatial
