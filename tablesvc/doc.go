// Package tablesvc is the Table service: tables, entities, queries and entity group transactions.
//
// # Where to start
//
// operations.go has a row for each operation of the REST reference; each row names its handler. A handler parses its
// request, acts in one View or Update of the store, and answers.
//
//   - address.go: what a URL names; format.go: JSON or Atom, and how much metadata.
//   - tables.go, acl.go, service_properties.go, service_stats.go, cors.go: everything but entities.
//   - entity_write.go: inserts, updates, merges and deletes over the pure state machine in mutation.go.
//   - entity_query.go and page.go: queries, their limits, continuation tokens and the explain mode.
//   - batch.go, batch_read.go, batch_write.go: entity group transactions.
//   - keys.go: the layout of the store; reaper.go: how entities of deleted tables are removed; check.go: the checker.
//
// The data model, with its wire forms, is in internal/entity; $filter and its planner in internal/filter.
//
// # Time
//
// An entity's Timestamp is also its entity tag. It strictly advances with each change of the entity, and no two
// changes in one process get the same one, save the entities of one transaction, which share theirs.
//
// https://learn.microsoft.com/rest/api/storageservices/table-service-rest-api
package tablesvc
