// Package crc32c computes CRC-32C, the checksum of values and records on disk: hash/crc32 with Castagnoli's table.
package crc32c

import "hash/crc32"

var table = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C of p.
func Checksum(p []byte) uint32 { return crc32.Checksum(p, table) }

// Update returns the CRC-32C of what sum is the CRC-32C of, followed by p.
func Update(sum uint32, p []byte) uint32 { return crc32.Update(sum, table, p) }
