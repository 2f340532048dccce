package query

// statement is one parsed SELECT.
type statement struct {
	// star is SELECT *; otherwise columns, or one aggregate, or split are set.
	star      bool
	columns   []column
	aggregate *aggregate
	// split is the size in bytes of SELECT sys.split(size); 0 if absent.
	split int64
	// from is the path after BlobStorage[*].
	from  []step
	where expression // nil for none
	limit int64      // -1 for none
	// fields are all references to fields.
	fields []*field
}

// column is one projected expression with its name in the result; "" if it has no name.
type column struct {
	expression
	name string
}

// step is one step of a path in JSON: a member, an element, or all elements.
type step struct {
	name  string
	exact bool // a quoted name, whose case matters
	index int  // an element, if name is ""; allElements for [*]
}

const allElements = -1

// Limits of a statement.
const (
	maxColumns  = 49       // columns in a SELECT, as documented
	maxTokens   = 1 << 16  // of the SQL; each may be evaluated for each record, and operators in a row nest on the stack
	maxDepth    = 200      // of nested expressions
	minSplit    = 10 << 20 // bytes of a split, as documented
	maxPathStep = 1 << 20  // index of an element in a path
)
