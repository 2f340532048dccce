package blobsvc

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// sweepDue takes from a bucket, in batches, the entries that are due: their keys begin with the time of that, in ticks. remove does
// what is to be done for each and says how many bytes it freed; any is whether some were. An entry that is gone when its turn
// comes is left alone.
func (s *Service) sweepDue(ctx context.Context, bucket store.Bucket, now time.Time, remove func(tx *store.Tx, k, v []byte) (int64, error)) (any bool, err error) {
	limit := uint64(ticks.Of(now))
	for ctx.Err() == nil {
		var due [][]byte
		err := s.db.View(func(tx *store.Tx) error {
			cur := tx.Cursor(bucket)
			for k, _ := cur.Seek(nil); k != nil && len(due) < garbageBatch; k, _ = cur.Next() {
				if len(k) <= 8 {
					return errKey
				}
				if binary.BigEndian.Uint64(k) > limit {
					break
				}
				due = append(due, bytes.Clone(k))
			}
			return nil
		})
		if err != nil || len(due) == 0 {
			return any, err
		}
		var freed int64
		err = s.db.Update(func(tx *store.Tx) error {
			freed = 0
			for _, k := range due {
				v := tx.Get(bucket, k)
				if v == nil {
					continue
				}
				tx.Delete(bucket, k)
				n, err := remove(tx, k, v)
				if err != nil {
					return err
				}
				freed += n
			}
			return nil
		})
		if err != nil {
			return any, err
		}
		s.freed(freed)
		any = true
	}
	return any, ctx.Err()
}
