package content

import (
	"crypto/md5"
	"hash"
	"sync"
	"sync/atomic"

	md5simd "github.com/minio/md5-simd"
)

// MD5 is the slowest part of a large upload: one processor computes some 850 MiB/s of it. Vector instructions compute
// several at once, so with a number of uploads at a time each takes less than half of the processor time; a single one
// takes more.

// parallelMD5 is the number of large uploads at a time from which further ones use vector instructions: with eight, 102
// ms of processor time for 64 MiB became of 128 ms; with four it is no gain.
const parallelMD5 = 6

var (
	hashing     atomic.Int32 // large uploads that compute an MD5
	vectorMD5   md5simd.Server
	startVector sync.Once
)

// newMD5 returns a hash for a large upload. The caller must call release.
func newMD5() (h hash.Hash, release func()) {
	if hashing.Add(1) < parallelMD5 {
		return md5.New(), func() { hashing.Add(-1) }
	}
	startVector.Do(func() { vectorMD5 = md5simd.NewServer() })
	v := vectorMD5.NewHash()
	return v, func() {
		v.Close()
		hashing.Add(-1)
	}
}
