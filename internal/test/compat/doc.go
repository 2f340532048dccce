// Package compat keeps docs/compatibility.md current: the test of this package generates its tables from the services'
// operations tables, and fails if the page is not current. The package has no other code.
package compat

//go:generate go test . -run TestPageIsCurrent -update
