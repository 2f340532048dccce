// Package workers runs worker roles: handlers that Azure Storage triggers.
//
// A role is a plain function, context first and error last, registered under a name:
//
//	app := workers.New(workers.Config{ConnectionString: "UseDevelopmentStorage=true"})
//	app.Queue("orders", func(ctx context.Context, m workers.QueueMessage) error {
//		return ship(ctx, m.Body)
//	})
//	err := app.Run(ctx) // until ctx is done, then drains
//
// # What a handler can rely on
//
// Every message is handled at least once, by one of any number of instances. If the handler returns nil, the message is
// deleted. If it returns an error, the message is delivered again, up to the maximum dequeue count (5); then it moves
// to the queue <name>-poison. While a handler runs, the runtime renews the lease on its message at half its length,
// also while the app drains. If the lease is lost nevertheless (the machine slept, the network failed), another
// instance can receive the message: the handler's context is cancelled with the cause [ErrLeaseLost], and its result is
// ignored. A panic counts as an error. For these reasons a handler must be idempotent.
//
// A handler can return errors that choose another treatment: see [Permanent], [RetryAfter] and [Snooze].
//
// # Relation to Azure Functions
//
// Names, signatures, defaults and semantics are those of the Azure Functions queue trigger and of its worker for Go
// (https://learn.microsoft.com/azure/azure-functions/functions-bindings-storage-queue-trigger), so that a handler moves
// between the two by changing its imports. Deliberate differences: settings are per function; the default lease is one
// minute, not ten, so that messages of a crashed process are hidden for one minute; retries can back off; an app that
// stops lets handlers finish, and a stop by itself never sends a message to the poison queue.
//
// # Where to start
//
// [App] has the methods that register handlers. Package durable has workflows and entities, otelfunc traces, status the
// counters of an app's functions, and adminhttp the same over HTTP. Handlers do not need package engine, which is for
// engines of workflows, and package follow, which is for copies of a table. In the source, package
// workers/internal/trigger polls queues and handles messages, by the rules that workers/internal/queues has as one pure
// function (state.go).
package workers
