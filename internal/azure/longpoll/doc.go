// Package longpoll lets requests wait for a change, so that a worker hears of one at once without asking all the time.
//
// It is an extension of the protocol that any client can use and no other service minds: a request bears the header
// [WaitHeader], and the answer too if the service has honoured it. Azure and Azurite ignore the header; a client sees
// by the answer that it has to poll.
//
// A [Board] only says that something has changed, never what: whoever was woken looks again. So a wake-up too many
// costs a look, and correctness rests on the state alone.
package longpoll
