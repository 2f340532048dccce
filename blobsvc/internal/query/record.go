package query

import "github.com/lazuli-storage/lazuli/internal/budget"

// record is one record of the content, or one row of it.
type record interface {
	// field returns the value of f. Errors: errColumn.
	field(f *field) (value, error)
	// all calls fn with each column and its name, in order; the name may be "".
	// Errors: errTooManyColumns.
	all(fn func(name []byte, v value)) error
}

// row is the current record, as expressions see it.
type row struct {
	record
	*budget.Work
}

// step is one step of a path in JSON: a member, an element, or all elements.
type step struct {
	name  string
	exact bool // a quoted name, whose case matters
	index int  // an element, if name is ""; allElements for [*]
}

const allElements = -1
