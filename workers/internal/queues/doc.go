// Package queues has the queue of a trigger: the requests, the pace of polls, the limit per key, and the rules by
// which an instance treats a message that it has received (state.go).
package queues
