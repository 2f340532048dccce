// Package events delivers the events of storage accounts to subscribers, as Azure Event Grid does: to webhooks and to
// queues, in the Event Grid schema or as CloudEvents 1.0, with the validation handshake, filters, retries on Azure's
// schedule, and dead-lettering.
//
// # Concepts
//
// A [Subscription] names an endpoint and a filter. It is stored in the database of the Blob service, beside the log of
// events: the transaction that changes a blob adds the event to the log, so no acknowledged write lacks its event.
// Accounts without a subscription have no log, and their writes cost what they cost without this package. Changes of
// queues and tables are logged before they are made and settled afterwards (foreign.go and package changes).
//
// A runner delivers the events of one subscription. Its lane (lane.go) is the state machine of that: up to which event
// the log was read, and which events before it are not finished. A lane is stored from time to time, so that a restart
// continues there; events that were delivered since are delivered again. Events of one subject are delivered in order,
// events of different subjects at the same time.
//
// An event is finished once the endpoint has accepted it, or once it was dead-lettered or dropped. The [Manager]
// removes from the log what all subscriptions have finished.
//
// # What it is not
//
// It is no Event Grid: there are no topics, domains and namespaces of a user's own, and the management API is the admin
// listener's.
//
// # Where to start
//
// manager.go for what can be asked, runner.go for the delivery, lane.go for the order, schedule.go for retries.
package events
