// Package lint holds the project's rules that a compiler does not enforce, as tests: the direction of dependencies, the
// libraries that may be linked into the binary, the presence of package comments. It has no other code.
package lint
