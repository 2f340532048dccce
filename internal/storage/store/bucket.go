package store

import bolt "go.etcd.io/bbolt"

// A Bucket names a keyspace. Options.Buckets lists all buckets of a file.
type Bucket string

// Limits of one key and value, in bytes.
const (
	MaxKeySize   = bolt.MaxKeySize
	MaxValueSize = 64 << 20
)
