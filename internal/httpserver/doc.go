// Package httpserver holds the HTTP servers and connections of the services' listeners: limits on heads, idle time and
// the number of connections, deadlines that cost little, TLS, and a stop that unused connections do not delay. It
// serves an [net/http.Handler] and knows nothing of what that answers.
//
// # Where to start
//
//   - server.go: [New] and [Serve].
//   - conn.go: the connections, for http and https; tcp.go and deadline.go: what is below; held.go: answers in one
//     write; scanner.go: what
//     net/http does not tell of a request; linger.go: requests that are answered before they have arrived; unused.go:
//     connections without a request.
//   - protocol_mux.go: http and https on one address.
//   - limiter.go: limits on connections and requests; conns.go: idle connections that give way to new ones.
//
// Package headercase keeps the case of header names, statusline sets reason phrases, pacing cuts off transfers that
// stop, inproc carries requests inside the process, originguard recognises requests that a web page caused.
package httpserver
