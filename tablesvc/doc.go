// Package tablesvc is the Table service: tables, entities, queries and entity group transactions, as an [http.Handler]
// with its data folder. Its clients are the Azure SDKs, or package tables.
//
//	service, err := tablesvc.New(tablesvc.Config{Folder: "data"})
//	defer service.Close()
//	err = http.ListenAndServe("127.0.0.1:10002", service.Handler())
//
// A write is on disk before it is acknowledged. Requests name the account in the path, or as the first label of the
// host's name. Package server runs all three services in one folder, with settings for each account, bearer tokens,
// metrics, backups and clusters; package lazulitest runs them in tests. docs/tables.md lists what works and what
// differs from Azure.
//
// # Where to start in the source
//
// operations.go has a row for each operation of the REST reference; each row names its handler. A handler parses its
// request, calls the state, and renders the answer. errors.go maps the errors of the state to those of the protocol.
//
//   - address.go: the resource that a URL names; names.go: rules of names; format.go: JSON or Atom, and how much
//     metadata.
//   - tables.go, acl.go, service_properties.go: operations on tables and on the service.
//   - entity_write.go, conditions.go: inserts, updates, merges and deletions.
//   - entity_query.go and page.go: queries, their limits and continuation tokens; explain.go: the explain mode.
//   - batch.go, batch_read.go, batch_write.go: entity group transactions.
//   - feed.go: waiting for a table's changes, an extension.
//
// The state is in internal/state/table: records, keys, the state machine of an entity, background deletion, the
// checker. Below it are the data model with its JSON and Atom forms (entity), and $filter with its planner (filter).
//
// https://learn.microsoft.com/rest/api/storageservices/table-service-rest-api
package tablesvc
