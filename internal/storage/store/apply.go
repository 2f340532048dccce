package store

import "fmt"

// Apply writes the payload of a [Group] of another store with the same buckets, as one Update. Its checksums are
// verified. Groups are applied in their order; those that the file has may be applied once more, from the first one on.
//
// Errors: ErrFormat for another bucket, ErrDamaged, those of Update.
func (db *DB) Apply(payload []byte) error {
	return db.Update(func(tx *Tx) error {
		return readPayload(payload, func(b Bucket, w Write) error {
			i := db.bucketIndex(b)
			if i < 0 {
				return fmt.Errorf("%w: the group has bucket %q", ErrFormat, string(b))
			}
			if w.Deleted() {
				tx.Delete(b, w.Key)
				return nil
			}
			value, err := db.unseal(i, w.Key, w.Value)
			if err == nil {
				tx.Put(b, w.Key, value)
			}
			return err
		})
	})
}
