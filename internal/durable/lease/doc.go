// Package lease divides the partitions of a task hub among the processes that serve it, by leases on blobs.
package lease
