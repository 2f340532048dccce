// Package durable runs durable workflows, whose state is in an Azure Storage account on Lazuli, Azurite or Azure.
//
// A workflow (an orchestration) is a function whose progress survives any crash: it is replayed from its recorded
// history, which has the results of all finished steps.
//
//	const PlaceOrder durable.Workflow[Order, string] = "place-order"
//
//	app := workers.New(workers.Config{Durable: durable.NewEngine(durable.Options{Hub: "Orders"})})
//	durable.Register(app, PlaceOrder, func(ctx *durable.Context, o Order) (string, error) {
//		return durable.Call[string](ctx, "charge", o) // an activity: workers.Activity(app, "charge", charge)
//	})
//	workers.Queue(app, "orders", func(ctx context.Context, m *workers.Message[Order]) error {
//		client, _ := durable.ClientFromContext(ctx)
//		_, err := durable.Start(ctx, client, PlaceOrder, m.Body, durable.ID(m.Body.ID))
//		return err
//	})
//
// [Context] lists what a workflow can ask for, and [Client] what a program can do with instances. Package entity
// defines entities; package webhook serves the HTTP API of Durable Functions.
//
// # Layout
//
// A task hub is a set of tables, queues and containers whose names begin with the hub's name, as in
// DurableTask.AzureStorage:
//
//	<hub>Instances       a row for each instance: status, input, output
//	<hub>History         a row for each event of each instance, and one row "sentinel" for each instance
//	<hub>-control-NN     messages to instances; an instance belongs to one of these partitions, by a hash of its ID
//	<hub>-workitems      activities to run
//	<hub>-shared         work of functions that another app of the hub has
//	<hub>-leases         taskhub.json, a blob for each partition whose lease names the partition's owner, and one for
//	                     each app with the names of its functions
//	<hub>-largemessages  payloads that are too large for a row or message
//
// Tables have the columns of DurableTask.AzureStorage, so that its viewers can read a hub. Messages have a format of
// their own (message.go): one hub is not served by two kinds of engine.
//
// # What makes it safe
//
// The sentinel is the authority. It says how many rows of history are committed, and every write of history replaces it
// under the ETag that the writer has read. If two processes believe that they own an instance, one commits; the commit
// of the other fails and changes nothing. Leases only save work: they keep several processes from loading the same
// instance.
//
// A checkpoint is a sequence of steps, each of which can be repeated:
//
//  1. Payloads are written to blobs.
//  2. History and sentinel are committed.
//  3. The messages that follow from the new events are sent.
//  4. The row in Instances is updated; it names the checkpoint whose messages have been sent.
//  5. The messages that caused the checkpoint are deleted.
//
// Nothing is sent before the commit, so that an owner that was deposed sends nothing. After a crash the causing
// messages appear again; the next owner finds their events in the history, sends what the last checkpoint had to send,
// and deletes them. So messages can arrive twice. A receiver drops the second one: events that belong to one execution
// carry its ID and the task's number, all others an ID of their own, which the history keeps.
//
// Activities run at least once. Where that matters, [ActivityInfo.Key] is the same in each attempt.
//
// # Where to start in the source
//
// Functions in Go are run by package replay below this one; workers in other languages replay by themselves, and get
// histories by messages. github.com/microsoft/durabletask-go has the loop that takes work and applies the answers of
// workflows; this package is a backend.Backend for it. It reaches storage through the Azure SDK alone.
//
// context.go and calls.go have the functions for workflows, go_executor.go runs one step of a workflow, and replayed.go
// translates between the engine's messages and package replay. The hub is in internal/durable: package hub receives,
// commits and sends, and is best read from partition.go and checkpoint.go; package record has the format of tables
// and messages, and what follows from a history.
package durable
