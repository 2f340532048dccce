// Package authmatrix tests whether every operation of the three services admits every kind of credential as the
// reference says. The expected results are in rules_test.go, by the operation's name, from the reference's tables; the
// actual results come from requests to the services. An operation without a rule fails the test, as does a rule without
// an operation.
package authmatrix
