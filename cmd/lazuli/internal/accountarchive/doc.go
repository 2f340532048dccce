// Package accountarchive copies the content of a storage account to a folder and from a folder to an account, through
// the protocol alone: the account can be on Lazuli, Azurite or Azure.
//
// # Archive
//
// An archive is a folder:
//
//	manifest.json                     the resources, and for each its settings and its segments
//	SHA256SUMS                        the hash of the manifest, in the form of sha256sum; written last
//	tables/NAME/000001.jsonl ...      an entity a line
//	queues/NAME/000001.jsonl          a message a line
//	containers/NAME/000001.tar ...    two members for each blob: 00000001.json describes it, 00000001.data is its content
//
// docs/export-import.md describes the files. A segment is written under another name, synced, renamed, and then named
// in the manifest with its length and SHA-256. So an interrupted export has whole segments and their names only, and
// continues behind the last one.
//
// Import checks the manifest, and each segment before it writes anything of it. It notes the segments that are done in
// a journal beside the manifest, one for each target, and continues behind them.
//
// # Memory
//
// A page of a listing, the snapshots and versions of one blob, and one chunk of content are in memory at a time.
//
// Start with manifest.go, then export.go and import.go.
package accountarchive
