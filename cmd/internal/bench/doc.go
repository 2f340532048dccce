// Package bench is the load generator behind `lazuli bench`. It measures any Azure-compatible Blob, Queue and Table
// endpoints (Lazuli, Azurite, Azure) over HTTP/1.1 and says what share of the machine's own ceiling they reach.
//
// Its concepts:
//
//   - A Stack is the account, key and three endpoints of a connection string.
//   - A Target is a Stack under measurement, or the floor.
//   - The floor is a bare echo handler in a process of its own that checks one HMAC per request and answers what the
//     measured target answered: the same status, headers and body size, with no storage behind it. No server built on
//     the same HTTP stack can be faster on the same machine.
//   - A Workload names one kind of load. Its Worker does one operation at a time on one connection; an operation is one
//     request or, for a few workloads, a fixed sequence of them.
//   - A slice is a short time in which exactly one target works. Slices of all targets alternate, so that whatever else
//     the machine does falls on all of them alike.
//
// The load is a closed loop: each of the connections sends its next request when the previous answer is complete.
// Latencies are therefore those of a client that waits, and say nothing about queueing at a fixed arrival rate.
//
// The client shares the machine with the server, so it is written to cost little: own request writer, own response
// reader, own signer, no allocation per request. It is no general HTTP client.
package bench
