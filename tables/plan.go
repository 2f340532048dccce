package tables

import (
	"errors"
	"fmt"
)

// Cost is the cost class of a query, as the design guide ranks them, the cheapest first.
// https://learn.microsoft.com/azure/storage/tables/table-storage-design-for-query
type Cost int

const (
	// PointQuery names one entity by both keys.
	PointQuery Cost = iota
	// RangeQuery reads the entities between two RowKeys of a partition.
	RangeQuery
	// PartitionScan reads all entities of a partition.
	PartitionScan
	// PartitionRangeScan reads all entities of the partitions between two PartitionKeys.
	PartitionRangeScan
	// TableScan reads all entities.
	TableScan
)

func (c Cost) String() string {
	switch c {
	case PointQuery:
		return "PointQuery"
	case RangeQuery:
		return "RangeQuery"
	case PartitionScan:
		return "PartitionScan"
	case PartitionRangeScan:
		return "PartitionRangeScan"
	case TableScan:
		return "TableScan"
	}
	return fmt.Sprintf("Cost(%d)", int(c))
}

// Plan is the cost class of a query on Azure. Other services may execute it at lower cost; Lazuli looks up several keys
// joined by or.
type Plan struct {
	Cost Cost
	// Filtered says that not all that is read is returned: other properties than the keys are compared, or conditions that
	// are no ranges of keys.
	Filtered bool
	// Filter is the condition as it is sent, and Select the properties that are asked for; empty means all.
	Filter, Select string
}

// Scan reports whether the query reads a whole table, a range of partitions, or a whole partition to throw part of it
// away. Reading a partition to have all of it is not a scan in this sense.
func (p Plan) Scan() bool {
	return p.Cost >= PartitionRangeScan || p.Cost == PartitionScan && p.Filtered
}

// ErrScan means that a query was not sent since it is a scan that [Query.AllowScan] has not permitted.
var ErrScan = errors.New("the query is a scan, which AllowScan has to permit")

// refusal says why a plan is refused, and how to do without the scan.
func (p Plan) refusal() error {
	hint := "compare the PartitionKey for equality, or keep a copy of the entities under a key that the query knows"
	if p.Cost == PartitionScan {
		hint = "bound the RowKey, or keep a copy of the entities with the property in the RowKey"
	}
	return fmt.Errorf("%w: %v (%s): %s", ErrScan, p.Cost, p.Filter, hint)
}

// bound is the range of a key.
type bound struct {
	exact, ranged bool
	value         string // if exact
}

// reach is which keys a condition lets a query visit.
type reach struct {
	partition, row bound
	filtered       bool
}

// reachOf reads a condition as Azure does: only what is joined by and narrows the keys.
func reachOf(e Expr) reach {
	switch e.op {
	case "":
		return reach{}
	case "and":
		var all reach
		for _, p := range e.parts {
			r := reachOf(p)
			all.partition = all.partition.and(r.partition)
			all.row = all.row.and(r.row)
			all.filtered = all.filtered || r.filtered
		}
		return all
	case "or":
		// Branches in one partition are a scan of it, all others one of the table.
		all := reachOf(e.parts[0])
		for _, p := range e.parts[1:] {
			if r := reachOf(p); !r.partition.exact || r.partition != all.partition {
				all.partition = bound{}
			}
		}
		if !all.partition.exact {
			all.partition = bound{}
		}
		return reach{partition: all.partition, filtered: true}
	case "not", "ne":
		return reach{filtered: true}
	}
	b := bound{ranged: true}
	if e.op == "eq" {
		b = bound{exact: true, value: fmt.Sprint(e.value)}
	}
	switch e.field {
	case PartitionKey:
		return reach{partition: b}
	case RowKey:
		return reach{row: b}
	}
	return reach{filtered: true}
}

func (b bound) and(other bound) bound {
	switch {
	case b.exact:
		return b
	case other.exact:
		return other
	}
	return bound{ranged: b.ranged || other.ranged}
}

func (r reach) cost() Cost {
	switch {
	case r.partition.exact && r.row.exact:
		return PointQuery
	case r.partition.exact && r.row.ranged:
		return RangeQuery
	case r.partition.exact:
		return PartitionScan
	case r.partition.ranged:
		return PartitionRangeScan
	}
	return TableScan
}
