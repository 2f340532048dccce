// Package largeentity is a built-in role: it keeps entities that are larger than the Table service allows, by putting their
// big properties into blobs.
//
// It is the large entities pattern of Azure's table design guide
// (https://learn.microsoft.com/azure/storage/tables/table-storage-design-patterns#large-entities-pattern). A [Store] reads and
// writes values of a struct type of one's own. Properties beyond 64 KiB, and the biggest ones of an entity beyond 1 MiB, become
// blobs; the entity keeps a pointer to each, with its length and SHA-256, in the property [PointerProperty].
//
// A table and a container have no common transaction. The order of steps stands in for one:
//
//	write   1 reserve the row, if there is none   2 write new blobs   3 swap the pointers in the entity   4 remove the old blobs
//	delete  1 delete the entity                   2 remove its blobs
//	read    read the entity, then its blobs; begin again if a blob is gone because the entity was replaced meanwhile
//
// A blob is never changed, and never referred to before it is complete. Whatever stops a writer, wherever, leaves the entity as it was
// or as it should be, and beside it at most blobs that nothing refers to, and a reservation, which readers do not see. The
// [Sweeper] removes both.
//
// # Why the sweeper cannot remove a blob that somebody is about to refer to
//
// Step 3 holds only if the row is the one that the writer saw before it wrote its first blob: it carries that row's ETag. (That is why a
// row is reserved where there is none.) Before the sweeper removes a blob, it makes sure that the row has another ETag, by
// touching it, or that it does not exist. So a writer whose blob was removed fails in step 3, however long it slept, whatever
// its clock says; it then begins anew, or says [ErrChanged]. The age below which the sweeper leaves blobs alone only spares
// slow writers that trouble. Any number of sweepers may run at once.
//
// [Points] names the moments between the effects, for fault injection.
package largeentity
