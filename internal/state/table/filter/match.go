package filter

import "github.com/lazuli-storage/lazuli/internal/state/table/entity"

// Entity is an entity on which a filter is evaluated. Keys are UTF-8.
type Entity struct {
	PartitionKey, RowKey []byte
	Record               entity.Record
}

// Match reports whether the entity satisfies the filter.
func (f Filter) Match(e *Entity) bool { return f.root == nil || f.root.match(e) }

// Work returns the work of Match, in units of package budget: each comparison looks through the properties.
func (f Filter) Work(e *Entity) int {
	if f.root == nil {
		return 1
	}
	return 1 + f.root.comparisons()*(4+min(len(e.Record)/16, 512))
}

func (n junction) comparisons() int { return n.left.comparisons() + n.right.comparisons() }

func (n not) comparisons() int { return n.of.comparisons() }

func (n literal) comparisons() int { return 1 }

func (n comparison) comparisons() int { return 1 }

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

// accepts reports whether the operator holds between a property's value and a constant. An Int32 is compared with an
// Int64 property as an Int64; no operator holds between values of other types. NaN differs from all values, including
// itself.
func (o operator) accepts(value, constant entity.Value) bool {
	if value.Type == entity.Int64 && constant.Type == entity.Int32 {
		constant.Type = entity.Int64
	}
	order, ok := entity.Compare(value, constant)
	if !ok {
		// Values of one type without an order: one of them is NaN. Between two types not even ne holds, as on Azure.
		return o == ne && value.Type == constant.Type
	}
	return o.holds(order)
}
