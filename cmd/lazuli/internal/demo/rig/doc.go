// Package rig runs a demonstration of a [Pattern]: it loads the pattern's items, lets a worker's process work on them,
// kills it at a named step or freezes it, starts another one, and counts afterwards where each item is. Patterns lean
// on it, and it knows none of them.
//
// A round (round.go) is a share of the items with the deaths that come over their workers; plan.go deals the items to
// the rounds, and deaths.go runs workers until they die or are done. A [Census] says where the items are, a [Report]
// what the rounds have shown. A [Mistake] is a worker without the pattern, whose damage is counted the same way. With a
// story (tell.go) one item alone is followed.
//
// Where to start: [Demonstrate], [Pattern], [Run].
package rig
