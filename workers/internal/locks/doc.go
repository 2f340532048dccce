// Package locks has what the instances of an app share in blobs: small records, and locks, by which one instance at a
// time does something.
package locks
