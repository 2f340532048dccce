package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// A snapshot in a replicated log is a sequence of frames: the length of a payload as uvarint, and the payload of a
// write set (payload.go), values with their checksums. The frames have all entries of all buckets, each bucket in key
// order.
const (
	// frameSize is the size from which a frame ends, in bytes.
	frameSize = 256 << 10
	// maxFrame is the size of the largest frame: one entry may be longer than frameSize.
	maxFrame = MaxValueSize + MaxKeySize + 2*frameSize

	// restoreChunk is the size of a transaction that restores entries, in bytes.
	restoreChunk = 8 << 20
)

// writeFrames writes all entries that tx sees.
func (db *DB) writeFrames(tx *Tx, w io.Writer) (err error) {
	defer func() {
		if v := recover(); v != nil {
			var failed bool
			if err, failed = db.failureOf(v); !failed {
				panic(v)
			}
		}
	}()
	flush := func(s *WriteSet) error {
		payload := s.appendPayload(nil)
		if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(payload)))); err != nil {
			return err
		}
		_, err := w.Write(payload)
		return err
	}
	for _, name := range db.buckets {
		s := &WriteSet{}
		c := tx.Scan(name)
		for k, v := c.Seek(nil); k != nil; k, v = c.Next() {
			// The copy of an empty value must not be nil, which stands for a deletion.
			s.put(name, append([]byte(nil), k...), append([]byte{}, v...))
			if s.bytes >= frameSize {
				if err := flush(s); err != nil {
					return err
				}
				s = &WriteSet{}
			}
		}
		if s.bytes > 0 {
			if err := flush(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// createFile writes a new file from the frames of a snapshot. finish records in the last transaction what the file is
// complete up to.
func createFile(path string, buckets []Bucket, r *bufio.Reader, finish func(*bolt.Tx) error) error {
	b, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoGrowSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return err
	}
	b.AllocSize = allocSize
	err = restoreAll(b, buckets, r)
	if err == nil {
		err = b.Update(func(tx *bolt.Tx) error {
			return errors.Join(finish(tx), putVersion(tx, ""))
		})
	}
	return errors.Join(err, b.Sync(), b.Close())
}

// restoreAll restores all frames, to buckets that it creates.
func restoreAll(b *bolt.DB, buckets []Bucket, r *bufio.Reader) error {
	err := b.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return putBuckets(tx)
	})
	for more := true; more && err == nil; {
		err = b.Update(func(tx *bolt.Tx) (err error) {
			more, err = restoreSome(tx, r)
			return err
		})
	}
	return err
}

// restoreSome restores frames until a transaction is large enough. more is false at the end.
func restoreSome(tx *bolt.Tx, r *bufio.Reader) (more bool, err error) {
	for n := uint64(0); n < restoreChunk; {
		size, err := binary.ReadUvarint(r)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		// Before the allocation: a damaged length could ask for any amount of memory.
		if size > maxFrame {
			return false, fmt.Errorf("%w: a frame of %d bytes", replog.ErrDamaged, size)
		}
		payload := make([]byte, size)
		if _, err := io.ReadFull(r, payload); err != nil {
			return false, err
		}
		if err := readPayload(payload, func(name Bucket, w Write) error { return restoreEntry(tx, name, w) }); err != nil {
			return false, err
		}
		n += size
	}
	return true, nil
}

func restoreEntry(tx *bolt.Tx, name Bucket, w Write) error {
	b := tx.Bucket([]byte(name))
	if b == nil {
		return fmt.Errorf("%w: the snapshot has bucket %q", ErrFormat, string(name))
	}
	// Only the parts of an archive have deletions: they follow a state that has the key.
	if w.Deleted() {
		return b.Delete(w.Key)
	}
	// ErrDamaged makes join read the snapshot once more, as it may have been replaced meanwhile.
	if _, ok := unseal(bucketSeed(name), w.Key, w.Value); !ok {
		return fmt.Errorf("%w: the snapshot has an entry of bucket %q with a wrong checksum", replog.ErrDamaged, string(name))
	}
	b.FillPercent = fillPercent
	return b.Put(w.Key, w.Value)
}
