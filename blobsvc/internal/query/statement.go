package query

import "strconv"

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

// Limits of a statement.
const (
	maxColumns  = 49       // columns in a SELECT, as documented
	maxTokens   = 1 << 16  // of the SQL; each may be evaluated for each record, and operators in a row nest on the stack
	maxDepth    = 200      // of nested expressions
	minSplit    = 10 << 20 // bytes of a split, as documented
	maxPathStep = 1 << 20  // index of an element in a path
)

// ordinalName returns the name of an unnamed column: _n, counted from 1.
func ordinalName(n int) []byte { return strconv.AppendInt([]byte{'_'}, int64(n), 10) }

// names are the result's columns; nil for the columns of the records.
func (st *statement) names() []string {
	switch {
	case st.star:
		return nil
	case st.aggregate != nil:
		return []string{orOrdinal(st.aggregate.name, 1)}
	case st.split > 0:
		return []string{"_1"}
	}
	names := make([]string, len(st.columns))
	for i, c := range st.columns {
		names[i] = orOrdinal(c.name, i+1)
	}
	return names
}

func orOrdinal(name string, n int) string {
	if name == "" {
		return string(ordinalName(n))
	}
	return name
}
