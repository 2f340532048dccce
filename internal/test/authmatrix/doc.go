// Package authmatrix holds one test: every operation of the three services × every kind of credential, and whether it
// is let in. What must be so stands in rules_test.go, by the operation's name, from the reference's tables; what is so
// is asked of the services themselves. An operation without a rule fails the test, as does a rule without an operation.
package authmatrix
