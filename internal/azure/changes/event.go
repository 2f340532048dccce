package changes

import "net/url"

// The types of events. Event Grid has none for queues and tables, so the names are Lazuli's.
const (
	QueueCreated    = "Lazuli.Storage.QueueCreated"
	QueueDeleted    = "Lazuli.Storage.QueueDeleted"
	MessagePut      = "Lazuli.Storage.MessagePut"
	MessageUpdated  = "Lazuli.Storage.MessageUpdated"
	MessageDeleted  = "Lazuli.Storage.MessageDeleted"
	MessagePoisoned = "Lazuli.Storage.MessagePoisoned"
	MessagesCleared = "Lazuli.Storage.MessagesCleared"

	TableCreated   = "Lazuli.Storage.TableCreated"
	TableDeleted   = "Lazuli.Storage.TableDeleted"
	EntityInserted = "Lazuli.Storage.EntityInserted"
	EntityUpdated  = "Lazuli.Storage.EntityUpdated"
	EntityDeleted  = "Lazuli.Storage.EntityDeleted"
)

// QueueTypes and TableTypes are all types of the two services.
var (
	QueueTypes = []string{QueueCreated, QueueDeleted, MessagePut, MessageUpdated, MessageDeleted, MessagePoisoned,
		MessagesCleared}
	TableTypes = []string{TableCreated, TableDeleted, EntityInserted, EntityUpdated, EntityDeleted}
)

// PoisonSuffix ends the names of queues whose messages are poison messages, as in Azure Functions: a message that is
// put there has the event MessagePoisoned in place of MessagePut.
const PoisonSuffix = "-poison"

// Event describes a change. The handler fills in before the change what it knows then, and the rest after it.
type Event struct {
	// Type is one of the constants.
	Type string
	// Subject is the path of the resource within the account.
	Subject string
	// Data are the members of the event's data that belong to the type.
	Data map[string]any
	// Unchanged is set if the request succeeded and changed nothing, or nothing that a subscription wants.
	Unchanged bool
}

// QueueSubject is the subject of a queue's events. It ends with a slash, so that a filter on it selects one queue.
func QueueSubject(queue string) string { return "/queueServices/default/queues/" + queue + "/" }

// MessageSubject is the subject of a message's events.
func MessageSubject(queue, id string) string { return QueueSubject(queue) + "messages/" + id }

// TableSubject is the subject of a table's events. It ends with a slash, so that a filter on it selects one table.
func TableSubject(table string) string { return "/tableServices/default/tables/" + table + "/" }

// EntitySubject is the subject of an entity's events: the percent-encoded keys follow the table.
func EntitySubject(table, partition, row string) string {
	return TableSubject(table) + "entities/" + url.PathEscape(partition) + "/" + url.PathEscape(row)
}
