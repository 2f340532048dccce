// Package largeentity is a built-in role: it keeps entities that are larger than the Table service allows, by putting
// their big properties into blobs.
//
// It is the large entities pattern of Azure's table design guide
// (https://learn.microsoft.com/azure/storage/tables/table-storage-design-patterns#large-entities-pattern). A [Store]
// reads and writes values of a struct type that the caller defines. Properties beyond 64 KiB, and the biggest ones of
// an entity beyond 1 MiB, become blobs; the entity keeps a pointer to each, with its length and SHA-256, in the
// property [PointerProperty].
//
// A table and a container have no common transaction. The order of steps replaces one:
//
//	write   1 reserve the row if it is missing    2 write new blobs   3 swap the pointers in the entity   4 remove the old blobs
//	delete  1 delete the entity                   2 remove its blobs
//	read    read the entity, then its blobs; begin again if a blob is gone because the entity was replaced meanwhile
//
// A blob is never changed, and never referenced before it is complete. A writer that stops at any step leaves the old
// entity or the new one, and at most some unreferenced blobs and a reservation, which readers do not see. The [Sweeper]
// removes both.
//
// # Why the sweeper cannot remove a blob that a writer is about to reference
//
// Step 3 carries the ETag that the row had before the writer wrote its first blob, and fails if the row has changed.
// (For this ETag, a writer reserves a row that is missing.) Before the sweeper removes a blob, it changes the row's
// ETag by touching the row, or finds that the row does not exist. So a writer whose blob was removed fails in step 3,
// regardless of its delay and its clock; it then starts again or returns [ErrChanged]. The minimum age of blobs that
// the sweeper removes only reduces the number of such failures. Any number of sweepers may run at once.
//
// [Points] names the moments between the effects, for fault injection.
package largeentity
