// Package backup copies the state of a running server, or of a cluster, to another place, and makes data folders from
// such copies.
//
// A [Place] is a folder, a container of a storage account, or a bucket of S3:
//
//	lazuli-backups          marks the place
//	backups/<time>          the list of a backup: see Manifest; written last
//	pieces/<xx>/<sha-256>   entries of a database, or content of blobs; shared by backups
//
// Pieces have the name of their content, so that a backup writes only what no other one has. A [Source] gives the state
// of one moment; what the last backup has of the content of blobs, it need not read again. [Make] writes a backup,
// [Restore] a data folder, which is verified as by `lazuli fsck` before it gets its name. A process that is killed
// leaves at most pieces without a list, which the next Make removes.
package backup
