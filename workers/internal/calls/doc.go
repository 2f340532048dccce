// Package calls has what the calls of all triggers have in common: the clock, the marks by which a handler says what
// becomes of its work, and the supervision of a handler, which panics, runs too long or does not return.
package calls
