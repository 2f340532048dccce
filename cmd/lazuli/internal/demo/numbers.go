package demo

import "slices"

// Names are those of the patterns: of the sixteen of the table design guide, in its order, then of those of Lazuli. A
// pattern has as its number its place here, and its demonstration, its program in examples/patterns and its row in
// docs/patterns.md have its number and name.
// https://learn.microsoft.com/azure/storage/tables/table-storage-design-patterns
var Names = []string{"intra-partition-index", "inter-partition-index", "eventual-transaction", "index-entities",
	"denormalisation", "compound-key", "log-tail", "high-volume-delete", "data-series", "wide-entities", "large-entities",
	"append-anti-pattern", "log-data", "heterogeneous-types", "materialised-view", "modelling", "outbox", "jobs", "search",
	"lake", "saga"}

// Number returns the number of a pattern, counted from 1.
func Number(name string) int { return slices.Index(Names, name) + 1 }
