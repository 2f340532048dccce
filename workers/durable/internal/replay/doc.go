// Package replay runs the function of a workflow from the history of its instance.
//
// A workflow's function runs again from its beginning at every step. [Run] takes the history, events that earlier steps
// have committed and the new ones behind them, and gives the function one event after the other: whatever it waits for
// is answered from there. It returns what the function has asked for and the history does not have yet, the actions of
// the step, and how the workflow has ended if it has.
//
// # What makes it deterministic
//
// The function has one goroutine, and nothing happens while it runs: events are taken in their order, each when the
// function waits ([Task.Await], [Execution.Wait]) or has returned. So the same function finds, with the same events,
// the same tasks ended at the same places. What it asks for gets numbers in the order of asking. An event that says
// that an earlier step has asked for something must find the same request under the same number; if it does not, the
// function has changed, and Run returns a [MismatchError].
//
// A function that waits for what the history does not have is left where it stands: its goroutine ends by
// runtime.Goexit, which runs its deferred functions and which recover does not stop. An execution that was left takes
// no more requests, so that a deferred function changes nothing.
//
// # What it does not do
//
// The package knows neither storage nor the protocol's messages: package durable translates events and actions. Values
// are texts in JSON here; [Task.Await] decodes them.
//
// # Where to start
//
// history.go has what goes in and comes out, execution.go the loop over the events, task.go the waiting, requests.go
// what a workflow can ask for.
package replay
