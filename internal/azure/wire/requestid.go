package wire

import (
	"math/rand/v2"
	"time"
)

// newRequestID returns an x-ms-request-id of Azure's form: a GUID that ends in 000000. It is unique, not secret.
func newRequestID(now time.Time) string {
	hi, lo := rand.Uint64(), uint64(now.UnixNano())
	b := [36]byte([]byte("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxx000000"))
	putHex(b[0:8], hi)
	putHex(b[9:13], hi>>32)
	putHex(b[14:18], hi>>48)
	putHex(b[19:23], lo)
	putHex(b[24:30], lo>>16)
	return string(b[:])
}

// putHex fills b with the lowest digits of n, the lowest first.
func putHex(b []byte, n uint64) {
	const hex = "0123456789abcdef"
	for i := range b {
		b[i] = hex[n&15]
		n >>= 4
	}
}
