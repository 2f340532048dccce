// Package display writes texts for people: numbers, sizes, times and durations, values of any length in the part that a
// page has room for, and addresses without their signatures.
package display
