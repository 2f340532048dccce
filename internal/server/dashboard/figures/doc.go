// Package figures keeps the figures of queues over the last hour and the last day: messages that were put, received and
// deleted, counted from the requests, and the depth and age of a queue, sampled once a minute.
package figures
