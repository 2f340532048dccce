package store

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
)

// Each value is kept with a checksum behind it, in the log, in memtables and in the file alike:
//
//	0  n  value
//	n  4  CRC-32C of the bucket's name, the length of the key, the key and the value, little-endian
//
// It is computed once, when the group is encoded, and checked each time the value is read from the file or the log, and when it goes
// from memory to the file. It covers the key, so that a key that was damaged, or a value that lies under another key, does not
// pass.
//
// Files of version 1 have values without it.
const sumSize = 4

// bucketSeed is the CRC of a bucket's name, from which those of its values go on.
func bucketSeed(b Bucket) uint32 { return crc32.Checksum([]byte(b), castagnoli) }

func checksum(seed uint32, key, value []byte) uint32 {
	sum := crc32.Update(seed^uint32(len(key)), castagnoli, key)
	return crc32.Update(sum, castagnoli, value)
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

// unseal is the function above for bucket i of the file, whose version may know no checksums.
func (db *DB) unseal(i int, key, sealed []byte) (value []byte, err error) {
	if db.version == 1 {
		return sealed, nil
	}
	value, ok := unseal(db.seeds[i], key, sealed)
	if !ok {
		return nil, db.damagedValue(i, key)
	}
	return value, nil
}

// strip is unseal for a value that was checked before.
func (db *DB) strip(sealed []byte) []byte {
	if db.version == 1 {
		return sealed
	}
	n := len(sealed) - sumSize
	return sealed[:n:n]
}

// verify returns the check that the pages of bucket i are read with.
func (db *DB) verify(i int) bboltpage.Verify {
	return func(key, sealed []byte) error {
		_, err := db.unseal(i, key, sealed)
		return err
	}
}
