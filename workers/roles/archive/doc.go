// Package archive is a built-in role: it moves entities out of the table in daily use, one by one, on request of a
// queue.
//
// It is the eventually consistent transaction of Azure's table design guide
// (https://learn.microsoft.com/azure/storage/tables/table-storage-design-patterns#eventually-consistent-transactions-pattern).
// Two tables, or a table and a blob, have no common transaction; a queue message replaces one:
//
//  1. A client puts a message that names an entity.
//  2. The role copies the entity from Current to its target, replacing a copy that is there already.
//  3. It deletes the entity from Current, if it is still there and still what was copied.
//  4. The message is deleted.
//
// This order prevents loss: before step 2 takes effect, Current has the entity; after it, the
// target has it. If the role stops at any step, the message is delivered again, and every step can be
// repeated safely. In between, an entity can be in both places, but is always in at least one.
//
// An entity that changes between copy and delete is not deleted: its ETag differs, the attempt fails, and the next one
// copies the new state. A message for an entity that is not in Current counts as handled: the entity was archived
// before.
//
// [Points] names the moments between the effects, for fault injection.
package archive
