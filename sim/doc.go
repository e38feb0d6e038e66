// Package sim is what a model author sees.
//
// A model declares kinds of entities, each with a Go state type, and the events that entities
// handle. Entities reach one another only by events and by published state:
//
//   - an event is handled at its simulated time, at each entity in the order of the key
//     (time, priority, source entity, source sequence);
//   - a publication made at t is visible to others from t + lookahead on, everywhere.
//
// Nothing else connects entities, so the result of a run depends on the scenario and the seed
// alone and never on how space was cut or on how many threads ran. A model keeps no package-level
// state: two engines may run it in one process.
//
// The smallest model:
//
//	type counter struct{ N int64 }
//
//	func setup(b *sim.Builder, p *Params) error {
//		tick := sim.DefineEvent[sim.None](b, "tick", sim.Planned)
//		k := sim.DefineKind[counter](b, "counter", "counts once a second")
//		sim.OnStart(k, func(c *sim.Context, s *counter) { tick.Schedule(c, sim.Second, sim.None{}) })
//		sim.Handle(k, tick, func(c *sim.Context, s *counter, _ sim.None) {
//			s.N++
//			c.Again(sim.Second)
//		})
//		sim.Add(k, sim.Vec{}, counter{})
//		return nil
//	}
//
// The files named engine*.go are the engine's side of the contract; models never call them.
package sim
