// Package azurite reads a data folder of Azurite and writes what it has to an account, through the protocol.
//
// Azurite keeps a service in a file of JSON, __azurite_db_SERVICE__.json, which LokiJS writes: a list of collections of
// documents. Content of blobs and text of messages are in extents, files below __blobstorage__ and __queuestorage__; a
// document names the extent, the offset and the length. The formats are those of Azurite 3.35 to 3.37, read from
// folders that these wrote; testdata has one of each.
//
// [Open] reads the documents. [Folder.Import] makes a request for each container, blob, snapshot, queue, message, table
// and entity, in the order of their times, and sets the target's clock to that time first, where the target has a
// clock: [Options.SetTime]. So resources have their own times, and snapshots their own identifiers.
//
// It does not go by an archive of package accountarchive, which `lazuli import` without --azurite reads: that has what
// the protocol shows of an account, a resource after another. The order of times across resources would be lost, and
// so would the names and bounds of blocks, uncommitted blocks, leases, and the properties of the services.
//
// Begin with import.go.
package azurite
