// Package taskhub tells a task hub by the names of its containers, queues and tables, which the log of requests and the
// pages see as a client does; see package durable.
package taskhub
