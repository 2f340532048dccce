package tabletool

import (
	"fmt"
	"strings"
)

// Cost is the cost class in words.
func (e Explanation) Cost() string {
	switch e.Plan {
	case "Nothing":
		return "nothing is read: no key can satisfy the filter"
	case "PointQuery":
		return "point query: one read for each key"
	case "RangeQuery":
		return "range query: the entities between two RowKeys of a partition"
	case "PartitionScan":
		return "partition scan: all entities of the partition"
	case "PartitionRangeScan":
		return "scan of several partitions: all their entities"
	case "TableScan":
		return "table scan: all entities"
	}
	return e.Plan
}

// OnAzure holds what Azure makes of a query that Lazuli splits into several key ranges: there, conditions joined by or
// narrow nothing but the partition. It is empty where both do the same.
// https://learn.microsoft.com/azure/storage/tables/table-storage-design-for-query
func (e Explanation) OnAzure() string {
	if e.RangeCount < 2 {
		return ""
	}
	first := partitionOf(e.Ranges)
	for i := range e.Ranges {
		if p := partitionOf(e.Ranges[i:]); p == "" || p != first {
			return "table scan: an or over several partitions narrows nothing"
		}
	}
	return "partition scan: an or over RowKeys is not a range query"
}

// partitionOf returns the text of the condition on the PartitionKey of the first range, if that is an equality.
func partitionOf(ranges []string) string {
	if len(ranges) == 0 {
		return ""
	}
	condition, _, _ := strings.Cut(ranges[0], " and RowKey ")
	if !strings.HasPrefix(condition, "PartitionKey eq '") {
		return ""
	}
	return condition
}

// wasteful is from how many entities read for each one returned a query is called wasteful.
const wasteful = 10

// Hints say how the same could be had for less, as the design guide does; none if the query is as cheap as it can be.
// https://learn.microsoft.com/azure/storage/tables/table-storage-design-for-query
func (e Explanation) Hints() (hints []string) {
	switch e.Plan {
	case "Nothing":
		return []string{"Keys are text: compare them with '...', and not with two values at once."}
	case "PointQuery":
		if e.RangeCount > 1 {
			return []string{fmt.Sprintf("%d keys in one filter: here they are looked up one by one; Azure may scan instead. "+
				"Requests by key, sent in parallel, are cheap everywhere.", e.RangeCount)}
		}
		return nil
	case "TableScan":
		hints = append(hints,
			"Say the PartitionKey: PartitionKey eq '...' makes this a scan of one partition, and the RowKey with it a point "+
				"query.",
			"If this query is frequent, keep a second copy of the entities under a PartitionKey that it knows "+
				"(inter-partition secondary index pattern), or entities that list the keys (index entities pattern).")
	case "PartitionRangeScan":
		hints = append(hints, "A range of PartitionKeys is read whole, whatever is said of RowKeys, and on Azure crosses "+
			"servers: one query for each partition, sent in parallel, reads less.")
	case "PartitionScan":
		if e.Residual {
			hints = append(hints, "Bound the RowKey: RowKey ge '...' and RowKey lt '...' makes this a range query.",
				"If the property is asked for often, keep a second copy of the entities in this partition with its value in the "+
					"RowKey (intra-partition secondary index pattern).")
		}
	}
	if e.Scanned >= wasteful*max(e.Returned, 1) {
		hints = append(hints, fmt.Sprintf(
			"%d of %d entities were read and did not match: only keys have an index, properties do not.", e.Scanned-e.Returned,
			e.Scanned))
	}
	return hints
}
