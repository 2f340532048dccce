package filter

import (
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Filter is a parsed expression. The zero Filter, as of an empty $filter, matches everything.
type Filter struct {
	root node
}

// InPartition returns the filter limited to a partition.
func (f Filter) InPartition(partition string) Filter {
	c := comparison{eq, partitionKey, entity.StringValue(partition)}
	if f.root == nil {
		return Filter{c}
	}
	return Filter{junction{true, c, f.root}}
}

// node is a condition.
type node interface {
	match(e *Entity) bool
	// comparisons returns the number of comparisons.
	comparisons() int
	// describe appends the canonical text.
	describe(b *strings.Builder)
}

// junction is "and" or "or".
type junction struct {
	and         bool
	left, right node
}

// not is the negation.
type not struct{ of node }

// literal is a condition that is the same for all entities.
type literal bool

// comparison compares a property with a constant. The constant is always on the right.
type comparison struct {
	op       operator
	property string
	value    entity.Value
}

type operator uint8

const (
	eq operator = iota
	ne
	gt
	ge
	lt
	le
)

var operatorNames = [...]string{"eq", "ne", "gt", "ge", "lt", "le"}

// holds reports whether the operator holds for an order of property and constant.
func (o operator) holds(order int) bool {
	switch o {
	case eq:
		return order == 0
	case ne:
		return order != 0
	case gt:
		return order > 0
	case ge:
		return order >= 0
	case lt:
		return order < 0
	}
	return order <= 0
}

// mirrored returns the operator for exchanged sides.
func (o operator) mirrored() operator {
	switch o {
	case gt:
		return lt
	case ge:
		return le
	case lt:
		return gt
	case le:
		return ge
	}
	return o
}

// negated returns the operator that holds where o does not.
func (o operator) negated() operator {
	switch o {
	case eq:
		return ne
	case ne:
		return eq
	case gt:
		return le
	case ge:
		return lt
	case lt:
		return ge
	}
	return gt
}

// The names of the system properties.
const (
	partitionKey = "PartitionKey"
	rowKey       = "RowKey"
	timestamp    = "Timestamp"
)

// String returns the filter in a canonical form with all parentheses; it parses to the same filter.
func (f Filter) String() string {
	if f.root == nil {
		return ""
	}
	var b strings.Builder
	f.root.describe(&b)
	return b.String()
}

func (n junction) describe(b *strings.Builder) {
	b.WriteByte('(')
	n.left.describe(b)
	if n.and {
		b.WriteString(" and ")
	} else {
		b.WriteString(" or ")
	}
	n.right.describe(b)
	b.WriteByte(')')
}

func (n not) describe(b *strings.Builder) {
	b.WriteString("not (")
	n.of.describe(b)
	b.WriteByte(')')
}

func (n literal) describe(b *strings.Builder) {
	if n {
		b.WriteString("true")
	} else {
		b.WriteString("false")
	}
}

func (n comparison) describe(b *strings.Builder) {
	b.WriteString(n.property)
	b.WriteByte(' ')
	b.WriteString(operatorNames[n.op])
	b.WriteByte(' ')
	b.WriteString(constant(n.value))
}

// constant returns a value as $filter writes it.
func constant(v entity.Value) string {
	const hex = "0123456789ABCDEF"
	switch v.Type {
	case entity.String:
		return "'" + strings.ReplaceAll(string(v.Bytes), "'", "''") + "'"
	case entity.Binary:
		b := []byte("X'")
		for _, c := range v.Bytes {
			b = append(b, hex[c>>4], hex[c&15])
		}
		return string(append(b, '\''))
	case entity.Boolean:
		if v.Num != 0 {
			return "true"
		}
		return "false"
	case entity.DateTime:
		return "datetime'" + ticks.Ticks(v.Num).String() + "'"
	case entity.GUID:
		return "guid'" + string(entity.AppendGUID(nil, v.Bytes)) + "'"
	case entity.Int64:
		return formatInt(v.Num) + "L"
	case entity.Int32:
		return formatInt(v.Num)
	}
	// $filter has other names for infinities than JSON; a client that sends the text back must get the same filter.
	switch s := string(entity.AppendDouble(nil, v.Float())); s {
	case "Infinity":
		return "INF"
	case "-Infinity":
		return "-INF"
	default:
		return s
	}
}
