// Package analytics is Storage Analytics: it writes the request log of each service into blobs of the container $logs,
// and request counts per hour and minute into tables whose names begin with $Metrics, for accounts that turn them on
// in a service's properties.
//
// Logs and metrics are best effort, as on Azure: lines are buffered and written every few seconds, and the buffered
// ones are lost when the process is killed. Each flush writes a new blob, so that a reader that keeps names sees every
// line. Both are written through the services themselves, by requests marked with [wire.WithSystem].
//
// There are no capacity metrics.
//
// https://learn.microsoft.com/rest/api/storageservices/storage-analytics
package analytics
