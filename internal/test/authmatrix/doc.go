// Package authmatrix tests whether every operation of the three services admits every kind of credential as the
// reference says, at all four endpoints. The expected results are in rules_test.go, by the operation's name, from the
// reference says, at all four endpoints. The expected results are in rules_test.go, by the operation's name, from the
// as does a rule without an operation, and one that declares a second path which its rule does not have.
//
// The kinds of callers are: the keys, account SAS and service SAS of containers, bearer tokens and anonymous callers
// (matrix_test.go); service SAS and user delegation SAS of every kind of resource, and those for other users
// (kinds_test.go); the credentials of a source that is copied, and options that other operations guard
// (sources_test.go); SAS for a range of a table (ranges_test.go); stored access policies (policy_test.go). What access
// control lists permit is tested in package blobsvc.
package authmatrix
