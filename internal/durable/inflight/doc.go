// Package inflight has what a process holds of a task hub's work: messages that it has received and hides from others,
// the sessions of the instances that they are for, rows that are to be written later, and work that no worker takes.
package inflight
