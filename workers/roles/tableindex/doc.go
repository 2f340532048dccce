// Package tableindex is the role that keeps one table in step with another: copies of its entities under other keys, lists of their keys, or figures
// about them. These are the eventually consistent patterns of Azure's table design guide: inter-partition secondary index, index entities, and
// materialised view.
//
//	byName := tableindex.Copies(func(e *tables.Entity) (tables.Key, bool) {
//		name, err := tables.Value[string](e, "Name")
//		return tables.Key{PartitionKey: name, RowKey: e.PartitionKey + " " + e.RowKey}, err == nil
//	})
//	role, err := tableindex.New(storage, "Employees", "EmployeesByName", byName)
//	role.Register(app, "by-name")               // on Lazuli, by the table's changes
//	role.RegisterQueue(app, "by-name-requests") // anywhere: whoever changes an entity puts a Message first
//
// # Why it is right
//
// A [Projection] says which entities of the target an entity of the source belongs to. For a change, the role visits the targets of the state before and of
// the state after it. At each one it
//
//  1. reads the target, and so its ETag,
//  2. reads the source as it is now, not as the change found it,
//  3. writes what the target should be, on condition that it still has the ETag, or that there is still none; otherwise it begins again.
//
// So a late or repeated attempt writes the present state, or nothing. The write happens also when nothing differs: the new ETag makes attempts fail that
// read the source earlier. One case is left: an attempt that saw no target, slept while another one inserted and deleted it, and then inserts
// it. Such a leftover disagrees with the source; [Role.Sweep] finds and removes it, and [Role.Register] sweeps from time to time.
// Readers that cannot wait compare what they find with the source.
//
// Everything is at least once: the trigger tells changes again after a crash, the queue returns messages.
package tableindex
