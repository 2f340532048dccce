// Package servertest tests package workers, its otelfunc, and the clients below internal/sdk (sdk_*_test.go) through a
// server in the test's process. The tests are in a folder of their own because `go mod tidy` of a program also downloads
// what the tests of the imported packages need: here the modules of the whole server. They are in one because a program
// of tests with a server takes as long to link as most of them to run.
package servertest
