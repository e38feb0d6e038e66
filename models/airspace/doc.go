// Package airspace is a model of the air traffic of a country over a day.
//
// It promises that every flight of the table departs at its rate, flies the great circle at its
// speed and is gone when it arrives; that every radar detects, at each scan, exactly the visible
// aircraft in its range; and that every loss of separation between two aircraft en route is recorded
// once, at the first look at which it is seen. The tests hold it to that record for record.
//
// An aircraft publishes one motion for its whole flight, so perception costs a query and no message.
// Its state is 16 bytes: the route, the departure and the level say where it is at any time.
package airspace
