// Package tableindex is the role that keeps one table in step with another: copies of its entities under other keys,
// lists of their keys, or figures about them. These are the eventually consistent patterns of Azure's table design
// guide: inter-partition secondary index, index entities, and materialised view.
//
//	byName := tableindex.Copies(func(e *tables.Entity) (tables.Key, bool) {
//		name, err := tables.Value[string](e, "Name")
//		return tables.Key{PartitionKey: name, RowKey: e.PartitionKey + " " + e.RowKey}, err == nil
//	})
//	role, err := tableindex.New(storage, "Employees", "EmployeesByName", byName)
//	role.Register(app, "by-name")               // on Lazuli, by the table's changes
//	role.RegisterQueue(app, "by-name-requests") // on any service: a program puts a Message before it changes an entity
//
// # Correctness
//
// A [Projection] says which entities of the target an entity of the source belongs to. For a change, the role visits
// the targets of the state before and of the state after it. At each one it
//
//  1. reads the target, and so its ETag,
//  2. reads the source as it is now, not as the change found it,
//  3. writes the new target if the target still has the ETag, or still does not exist; otherwise it starts again.
//
// So a late or repeated attempt writes the current state or fails. The role writes the target even if it is unchanged:
// the new ETag makes attempts fail that read the source earlier. One case remains: an attempt finds no target, is
// delayed while another one inserts and deletes it, and then inserts it. Such a target does not match the source;
// [Role.Sweep] removes it, and [Role.Register] sweeps every hour. Readers that need exact results compare targets with
// the source.
//
// Delivery is at least once: after a crash, the trigger delivers changes again, and the queue delivers messages again.
package tableindex
