// Package changefeed writes the change feed: what happened to blobs, in order, as Avro files in the container
// $blobchangefeed.
//
// The transactions of package state record events. A [Writer] moves them from there to the files: one step adds events
// to a file and removes them from the state in one transaction, so each event is in the feed once.
// https://learn.microsoft.com/azure/storage/blobs/storage-blob-change-feed
package changefeed
