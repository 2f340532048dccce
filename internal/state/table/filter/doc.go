// Package filter parses $filter expressions, evaluates them on entities, and plans which keys a query has to visit.
//
// # The language
//
//	filter     = or
//	or         = and *( "or" and )
//	and        = not *( "and" not )
//	not        = "not" not / comparison
//	comparison = operand [ ("eq" / "ne" / "gt" / "ge" / "lt" / "le") operand ]
//	operand    = "(" or ")" / property / constant      (only conditions can be joined and negated)
//	constant   = "true" / "false" / integer / integer "L" / decimal / 'text' / datetime'...' / guid'...'
//	           / X'hex' / binary'hex' / NaN / INF / -INF, with OData's suffixes L, D and F of numbers
//
// One side of a comparison is a property and the other a constant, in either order. A bare property or constant is a
// condition too: it holds if it is the Boolean true. Operators and names are case-sensitive.
//
// # Semantics
//
// A comparison holds only between values of one type, but that an Int32 constant is also compared with Int64
// properties. If an entity does not have the property, or has it with another type, no comparison holds, including
// "ne"; "not" turns that into true. Text is compared by UTF-16 code units, binary values and GUIDs byte by byte.
//
// # The plan
//
// [Filter.Plan] turns the conditions on PartitionKey and RowKey into the fewest ranges of keys that contain all
// matches. [Filter.Match] checks the conditions on other properties. The kinds of plan are the cost classes of the
// design guide: point query, range query, partition scan, table scan.
//
// https://learn.microsoft.com/rest/api/storageservices/querying-tables-and-entities
package filter
