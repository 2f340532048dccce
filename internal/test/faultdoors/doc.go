// Package faultdoors has the same fault rules in the forms in which the command, the dashboard and a request take them,
// for tests that every kind of rule can be set everywhere.
package faultdoors
