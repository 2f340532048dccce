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
// Every message is handled at least once, on one of any number of instances. A handler that returns nil has its
// message deleted; one that returns an error sees it again, up to the maximum dequeue count (5), after which the message
// moves to the queue <name>-poison. While a handler runs, its lease on the message is renewed at half its length, also
// while the app drains. When the lease is lost all the same (the machine slept, the network was away), another instance
// will have the message: the handler's context is cancelled with the cause [ErrLeaseLost], and nothing that it returns is
// acted upon. A panic counts as an error. Because of all this a handler must be idempotent.
//
// An error may say more than "again": see [Permanent], [RetryAfter] and [Snooze].
//
// # Relation to Azure Functions
//
// Names, signatures, defaults and semantics are those of the Azure Functions queue trigger and of its worker for Go
// (https://learn.microsoft.com/azure/azure-functions/functions-bindings-storage-queue-trigger), so that a handler moves between the two by changing
// its imports. Deliberate differences: settings are per function; the lease is a minute, not ten, so that a crash hides
// its messages for a minute; retries can back off; a stopping app lets handlers finish, and never lets a stop
// alone send a message to the poison queue.
//
// # Where to start
//
// [App] is the whole surface; message_state.go holds the rules for a message's fate as one pure function;
// queue_listener.go polls, delivery.go is the life of one message.
package workers
