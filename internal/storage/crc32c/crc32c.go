// Package crc32c computes CRC-32C, the checksum of values and records on disk.
//
// It gives the results of hash/crc32 with the table of Castagnoli. That one is fast for inputs whose length is a
// multiple of some kilobytes: of 1,000 bytes, the size of many values, it takes half through a single chain of
// instructions, each of which waits for the one before. This package cuts inputs of any length into three chains.
package crc32c

import "hash/crc32"

var table = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C of p.
func Checksum(p []byte) uint32 { return Update(0, p) }

// Update returns the CRC-32C of what sum is the CRC-32C of, followed by p.
func Update(sum uint32, p []byte) uint32 {
	if !fast {
		return crc32.Update(sum, table, p)
	}
	return updateFast(sum, p)
}
