// Package trigger runs functions whose work comes as queue messages. A QueueListener polls; a delivery takes one
// message from its receipt to its deletion, by the rules of queues.Policy. The packages above it find changes of blobs
// and tables, and put a message for each.
package trigger
