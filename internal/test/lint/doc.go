// Package lint holds the rules of the house that a compiler does not enforce, as tests: which way dependencies point,
// what may be linked into the binary, that packages say what they are. It has no code of its own.
package lint
