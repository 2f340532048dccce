// Package record has the stored forms of a task hub: the rows of instances, histories and entities, the messages
// between them, payloads, and the names of all resources. It also has what follows from these forms alone: which
// messages a history has to send, and what an entity handles next. Nothing here holds a lease or runs anything: package
// hub does.
package record
