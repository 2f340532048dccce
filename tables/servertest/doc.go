// Package servertest tests package tables through a server in the test's process. The tests are in a folder of their
// own because `go mod tidy` of a program also downloads what the tests of the imported packages need: here the
// modules of the whole server.
package servertest
