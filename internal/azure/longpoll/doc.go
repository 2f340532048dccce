// Package longpoll lets requests wait for a change, so that a worker learns of it at once without polling.
//
// It is an extension of the protocol that any client can use and that other services ignore: the request has the header
// [WaitHeader], and so has the answer if the service supports it. Azure and Azurite ignore the header; the client sees
// by the answer that it has to poll.
//
// A [Board] only says that something has changed, not what: the waiter reads the state again. A wake-up too many costs
// one such read, and correctness depends only on the state.
package longpoll
