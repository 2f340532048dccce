// Package lazyregexp compiles regular expressions of packages when they are first used. Compiled as package variables,
// they took a quarter of the time in which all packages of the command are initialised.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expression, and panics if it is not valid. The function is safe for
// concurrent use.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
