// Package hub serves a task hub in a storage account: it is a backend.Backend of durabletask-go for the workers of one
// process, and has the client of instances and entities. What is stored has its forms in package record; what a process
// holds of the work is in package inflight; package lease divides the partitions.
//
// hub.go makes and opens a hub; partition.go receives, filter.go decides which messages are new, checkpoint.go commits,
// send.go sends what follows from the history, entities.go runs entities.
package hub
