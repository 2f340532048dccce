// Package simulate runs code that waits, sends and takes the time in an order that a seed decides, one step at a time.
//
// A [World] has a clock, tasks, and deliveries that are under way. Code under test begins tasks and waits by a
// [Process] instead of the runtime, and reaches others by a model of what is between them, which makes deliveries of
// what is sent. Only one task runs at a time. So nothing happens by chance: the same script gives the same trace.
//
//	script := simulate.Script(seed, 1000, kinds)   // what happens, before the first step
//	w := simulate.New(seed)
//	for _, e := range script { ... w.Begin(e); w.GoOn() or a fault ... }
//
// A script is a list of [Event], each with a random number of its own, from which all choices of its step come. An
// event keeps its meaning when others are left out of the script, so [Minimise] finds a short script that fails as
// well.
//
// The package knows nothing of what is simulated, apart from [Stream], the model of a JetStream stream with the faults
// that streams have shown.
package simulate
