// Package compat keeps docs/compatibility.md true: its tables are generated from the services' operations tables, by
// the test of this package, which also fails when the page is not current. It has no code of its own.
package compat

//go:generate go test . -run TestPageIsCurrent -update
