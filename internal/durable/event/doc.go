// Package event reads and writes the events of a workflow's history in the three forms that they have: the messages of
// the replaying engine (durabletask-go), those of the present Durable Task protocol, which workers in other languages
// speak, and the JSON in which DurableTask.Core sends messages to entities.
//
// An event is always a message of the engine, [Event]. Parts that the engine's version of the protocol does not know
// are unknown fields of this message, so that the engine replays a history without them, and a worker still gets all of
// them:
//
//   - kinds of events that the engine does not know (extra.go);
//   - events that the workflow is not to see (extra.go, [Keep]);
//   - tags (tags.go) and the span that a worker has made (trace.go).
//
// The package has no storage and no state. Which events a history has, and in which order, is decided in
// workers/durable.
package event
