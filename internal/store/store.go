package store

import (
	bolt "go.etcd.io/bbolt"
)

// A Bucket names a keyspace. All buckets of a file are given to Open.
type Bucket string

// Options configure Open. The zero value is a durable store without buckets.
type Options struct {
	// Buckets are created if absent. Using a bucket that is not listed panics.
	Buckets []Bucket
	// Relaxed acknowledges writes before they are synced.
	Relaxed bool
	// Ephemeral removes the file's name at once: nothing survives the process.
	Ephemeral bool
}

// DB is one open file.
type DB struct {
	bolt *bolt.DB
}

// Open opens or creates the file at path.
func Open(path string, o Options) (*DB, error) {
	b, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return nil, err
	}
	err = b.Update(func(tx *bolt.Tx) error {
		for _, name := range o.Buckets {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Close()
		return nil, err
	}
	return &DB{bolt: b}, nil
}

// View runs fn on a snapshot.
func (db *DB) View(fn func(*Tx) error) error {
	return db.bolt.View(func(tx *bolt.Tx) error { return fn(&Tx{tx}) })
}

// Update runs fn, which may write; the writes are durable when it returns nil.
func (db *DB) Update(fn func(*Tx) error) error {
	return db.bolt.Update(func(tx *bolt.Tx) error { return fn(&Tx{tx}) })
}

// Close waits for running transactions and closes the file.
func (db *DB) Close() error { return db.bolt.Close() }

// Tx is one View or Update.
type Tx struct{ bolt *bolt.Tx }

// Get returns the value of key, or nil.
func (tx *Tx) Get(b Bucket, key []byte) []byte { return tx.bolt.Bucket([]byte(b)).Get(key) }

// Put sets the value of key.
func (tx *Tx) Put(b Bucket, key, value []byte) {
	if err := tx.bolt.Bucket([]byte(b)).Put(key, value); err != nil {
		panic(err)
	}
}

// Delete removes key.
func (tx *Tx) Delete(b Bucket, key []byte) {
	if err := tx.bolt.Bucket([]byte(b)).Delete(key); err != nil {
		panic(err)
	}
}

// Cursor returns a cursor over b.
func (tx *Tx) Cursor(b Bucket) *Cursor { return &Cursor{tx.bolt.Bucket([]byte(b)).Cursor()} }

// Cursor walks a bucket in key order.
type Cursor struct{ bolt *bolt.Cursor }

// Seek moves to the first key at or after key.
func (c *Cursor) Seek(key []byte) (k, v []byte) { return c.bolt.Seek(key) }

// Next moves to the next key.
func (c *Cursor) Next() (k, v []byte) { return c.bolt.Next() }
