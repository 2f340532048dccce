package filter

import "github.com/lazuli-storage/lazuli/tablesvc/internal/entity"

// Entity is an entity on which a filter is evaluated. Keys are UTF-8.
type Entity struct {
	PartitionKey, RowKey []byte
	Record               entity.Record
}

// Match reports whether the entity satisfies the filter.
func (f Filter) Match(e *Entity) bool { return f.root == nil || f.root.match(e) }

// MatchAll reports whether the filter is empty and so matches every entity.
func (f Filter) MatchAll() bool { return f.root == nil }

func (n junction) match(e *Entity) bool {
	if n.and {
		return n.left.match(e) && n.right.match(e)
	}
	return n.left.match(e) || n.right.match(e)
}

func (n not) match(e *Entity) bool { return !n.of.match(e) }

func (n literal) match(*Entity) bool { return bool(n) }

func (n comparison) match(e *Entity) bool {
	var v entity.Value
	switch n.property {
	case partitionKey:
		v = entity.Value{Type: entity.String, Bytes: e.PartitionKey}
	case rowKey:
		v = entity.Value{Type: entity.String, Bytes: e.RowKey}
	case timestamp:
		v = entity.TimeValue(e.Record.Timestamp())
	default:
		var ok bool
		if v, ok = e.Record.Lookup(n.property); !ok {
			return false
		}
	}
	return n.op.accepts(v, n.value)
}

// accepts reports whether the operator holds between two values. No operator holds between values of different types. NaN
// differs from all values, including itself.
func (o operator) accepts(a, b entity.Value) bool {
	order, ok := entity.Compare(a, b)
	if !ok {
		return o == ne && a.Type == b.Type
	}
	return o.holds(order)
}
