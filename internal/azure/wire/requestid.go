package wire

import (
	"math/rand/v2"
	"time"
)

// newRequestID returns an x-ms-request-id of Azure's form: a GUID that ends in 000000. It is unique, not secret.
func newRequestID(now time.Time) string {
	const hex = "0123456789abcdef"
	hi, lo := rand.Uint64(), uint64(now.UnixNano())
	var b [36]byte
	for i := range b {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			b[i] = '-'
		case i >= 30:
			b[i] = '0'
		case i < 18:
			b[i] = hex[hi&15]
			hi >>= 4
		default:
			b[i] = hex[lo&15]
			lo >>= 4
		}
	}
	return string(b[:])
}
