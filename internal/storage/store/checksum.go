package store

import (
	"encoding/binary"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
)

// Each value is followed by a checksum, in the log, in memtables and in the file:
//
//	0  n  value
//	n  4  CRC-32C of the bucket's name, the length of the key, the key and the value, little-endian
//
// The checksum is computed once, when the group is encoded. It is checked each time the value is read from the file or
// the log, and when it is written from memory to the file. It covers the key, so that a damaged key, or a value under
// another key, is detected.
const sumSize = 4

// bucketSeed returns the CRC of a bucket's name, from which the CRCs of its values continue.
func bucketSeed(b Bucket) uint32 { return crc32c.Checksum([]byte(b)) }

func checksum(seed uint32, key, value []byte) uint32 {
	sum := crc32c.Update(seed^uint32(len(key)), key)
	return crc32c.Update(sum, value)
}

// appendSealed appends value with its checksum.
func appendSealed(p []byte, seed uint32, key, value []byte) []byte {
	p = append(p, value...)
	return binary.LittleEndian.AppendUint32(p, checksum(seed, key, value))
}

// unseal returns the value without its checksum; ok is false if that is wrong.
func unseal(seed uint32, key, sealed []byte) (value []byte, ok bool) {
	n := len(sealed) - sumSize
	if n < 0 {
		return nil, false
	}
	return sealed[:n:n], checksum(seed, key, sealed[:n]) == binary.LittleEndian.Uint32(sealed[n:])
}

// unseal returns the value without its checksum for bucket i of the file.
func (db *DB) unseal(i int, key, sealed []byte) (value []byte, err error) {
	value, ok := unseal(db.seeds[i], key, sealed)
	if !ok {
		return nil, db.damagedValue(i, key)
	}
	return value, nil
}

// strip removes the checksum of a value that was verified before.
func (db *DB) strip(sealed []byte) []byte {
	n := len(sealed) - sumSize
	return sealed[:n:n]
}

// verify returns the function that verifies the pairs of bucket i on reading.
func (db *DB) verify(i int) bboltpage.Verify {
	return func(key, sealed []byte) error {
		_, err := db.unseal(i, key, sealed)
		return err
	}
}
