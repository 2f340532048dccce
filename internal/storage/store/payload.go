package store

import (
	"encoding/binary"
	"fmt"
)

// room returns a size that the encoded write set is seldom larger than, in bytes.
func (s *WriteSet) room() int {
	const perBucket, perWrite = 32, 8 + sumSize
	return s.bytes + len(s.buckets)*perBucket + s.Len()*perWrite + len(s.attached)*perWrite
}

// appendPayload encodes the write set, values with their checksums. The encoding is deterministic.
func (s *WriteSet) appendPayload(p []byte) []byte {
	for _, b := range s.buckets {
		seed := bucketSeed(b.bucket)
		n := 0
		for _, run := range b.runs {
			n += len(run)
		}
		if n == 0 {
			continue
		}
		p = binary.AppendUvarint(p, uint64(len(b.bucket)))
		p = append(p, b.bucket...)
		p = binary.AppendUvarint(p, uint64(n))
		for _, run := range b.runs {
			for _, w := range run {
				p = binary.AppendUvarint(p, uint64(len(w.Key)))
				p = append(p, w.Key...)
				if w.Deleted() {
					p = append(p, 0)
					continue
				}
				p = binary.AppendUvarint(p, uint64(len(w.Value)+sumSize)+1)
				p = appendSealed(p, seed, w.Key, w.Value)
			}
		}
	}
	return p
}

// errPayload means that a payload with the right checksum does not parse: another program wrote it.
var errPayload = fmt.Errorf("%w: log record does not parse", ErrFormat)

// readPayload calls fn for every write. Its value includes the checksum. Keys and values are parts of p.
func readPayload(p []byte, fn func(b Bucket, w Write) error) error {
	d := decoder{p: p}
	for len(d.p) > 0 {
		b := Bucket(d.bytes(d.uvarint()))
		for n := d.uvarint(); n > 0 && !d.bad; n-- {
			w := Write{Key: d.bytes(d.uvarint())}
			if n := d.uvarint(); n > 0 {
				w.Value = d.bytes(n - 1)
			}
			if d.bad {
				break
			}
			if err := fn(b, w); err != nil {
				return err
			}
		}
		if d.bad {
			return errPayload
		}
	}
	return nil
}

// EachWrite calls fn with the writes of the payload of a [Group], in its order, whose checksums it verifies. The value
// of a deletion is nil. Errors: ErrFormat, ErrDamaged, those of fn.
func EachWrite(payload []byte, fn func(b Bucket, key, value []byte) error) error {
	return readPayload(payload, func(b Bucket, w Write) error {
		if w.Deleted() {
			return fn(b, w.Key, nil)
		}
		value, ok := unseal(bucketSeed(b), w.Key, w.Value)
		if !ok {
			return fmt.Errorf("%w: a value in a group of bucket %s", ErrDamaged, b)
		}
		return fn(b, w.Key, value)
	})
}

type decoder struct {
	p   []byte
	bad bool
}

func (d *decoder) uvarint() uint64 {
	x, n := binary.Uvarint(d.p)
	if n <= 0 {
		d.p, d.bad = nil, true
		return 0
	}
	d.p = d.p[n:]
	return x
}

// bytes is never nil, and cannot be appended to without a copy.
func (d *decoder) bytes(n uint64) []byte {
	if d.bad || n > uint64(len(d.p)) {
		d.p, d.bad = nil, true
		return nil
	}
	b := d.p[:n:n]
	d.p = d.p[n:]
	return b
}
