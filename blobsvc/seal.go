package blobsvc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// Encrypted content is AES-256 in counter mode. The key is derived from the customer's or the scope's by HKDF, so that it is
// used for nothing else. Every upload draws a random initial counter of 128 bits: one stream of bytes, of which every piece
// knows its place, so that any range of it can be read, and parts of it can be cut away. Nothing is ever encrypted twice under
// one counter, since extents are only appended to; that among 2^30 uploads of a terabyte two streams overlap by chance has a
// probability of 2^-32. Damage is found by the checksums of the extents; they are no protection against somebody who can write
// to the files.

// seal is where a piece lies in an encrypted stream: iv is the initial counter, 16 bytes, "" for content in the clear; off
// is the place in the stream of the piece's first byte.
type seal struct {
	iv  string
	off int64
}

// at is the seal of what lies n bytes further on.
func (s seal) at(n int64) seal {
	if s.iv != "" {
		s.off += n
	}
	return s
}

// sealedBy reports whether content with that seal can be of that encryption.
func (s seal) sealedBy(by encryption) bool {
	if by == (encryption{}) {
		return s == seal{}
	}
	return len(s.iv) == aes.BlockSize && s.off >= 0
}

// contentCipher makes the block cipher of content from a customer's or a scope's key.
func contentCipher(key []byte) (cipher.Block, error) {
	derived, err := hkdf.Key(sha256.New, key, nil, "lazuli blob content 1", 32)
	if err != nil {
		return nil, err
	}
	return aes.NewCipher(derived)
}

// stream returns the key stream of s.
func (s seal) stream(block cipher.Block) (cipher.Stream, error) {
	if len(s.iv) != aes.BlockSize || s.off < 0 {
		return nil, errRecord
	}
	// The initial counter plus the number of whole blocks, as one big-endian number.
	hi, lo := binary.BigEndian.Uint64([]byte(s.iv)), binary.BigEndian.Uint64([]byte(s.iv[8:]))
	n := lo + uint64(s.off/aes.BlockSize)
	if n < lo {
		hi++
	}
	var counter [aes.BlockSize]byte
	binary.BigEndian.PutUint64(counter[:], hi)
	binary.BigEndian.PutUint64(counter[8:], n)
	stream := cipher.NewCTR(block, counter[:])
	var skip [aes.BlockSize]byte
	stream.XORKeyStream(skip[:s.off%aes.BlockSize], skip[:s.off%aes.BlockSize])
	return stream, nil
}

// sealer encrypts one upload.
type sealer struct {
	by     encryption
	iv     string
	stream cipher.Stream
	spare  *[chunkSize]byte
}

// newSealer returns a sealer for content of an account; nil for content in the clear. key is the customer's, if by is of one.
func (s *Service) newSealer(account string, by encryption, key *customerKey) (*sealer, error) {
	block, err := s.cipherOf(account, by, key)
	if block == nil || err != nil {
		return nil, err
	}
	iv := make([]byte, aes.BlockSize)
	if _, err := rand.Read(iv); err != nil {
		return nil, err
	}
	stream, err := seal{iv: string(iv)}.stream(block)
	return &sealer{by: by, iv: string(iv), stream: stream}, err
}

// cipherOf returns the cipher of an encryption in an account; nil for none. It fails with errUsesCustomerKey, or for a scope that is
// not there.
func (s *Service) cipherOf(account string, by encryption, key *customerKey) (cipher.Block, error) {
	switch {
	case by.key != "":
		if key == nil || key.sha != by.key {
			return nil, errUsesCustomerKey
		}
		return contentCipher(key.key)
	case by.scope != "":
		return s.scopeCipher(account, by.scope)
	}
	return nil, nil
}

// seal encrypts b, of at most chunkSize bytes, and leaves it as it is. What it returns is valid until the next call.
func (s *sealer) seal(b []byte) []byte {
	if s == nil {
		return b
	}
	if s.spare == nil {
		s.spare = chunks.Get().(*[chunkSize]byte)
	}
	out := s.spare[:len(b)]
	s.stream.XORKeyStream(out, b)
	return out
}

func (s *sealer) close() {
	if s != nil && s.spare != nil {
		chunks.Put(s.spare)
		s.spare = nil
	}
}

// sealedRun is a part of an extract that lies in one stream.
type sealedRun struct {
	seal
	n int64
}

// opener reads encrypted content. It stands before an extent reader whose bytes it decrypts.
type opener struct {
	block   cipher.Block
	runs    []sealedRun
	content *extent.Reader
	// at is the run that is read, left what remains of it; stream is nil until it is needed.
	at     int
	left   int64
	stream cipher.Stream
}

// seek goes to an offset in the content of the runs.
func (o *opener) seek(off int64) {
	o.stream = nil
	for o.at = 0; o.at < len(o.runs); o.at++ {
		if n := o.runs[o.at].n; off < n {
			break
		}
		off -= o.runs[o.at].n
	}
	if o.left = 0; o.at < len(o.runs) {
		o.left = o.runs[o.at].n - off
	}
}

// Read implements io.Reader.
func (o *opener) Read(p []byte) (int, error) {
	n, err := o.content.Read(p)
	for p = p[:n]; len(p) > 0; {
		if o.left == 0 {
			if o.at++; o.at >= len(o.runs) {
				return 0, errSealsShort
			}
			o.left, o.stream = o.runs[o.at].n, nil
		}
		if o.stream == nil {
			run := o.runs[o.at]
			s, err := run.seal.at(run.n - o.left).stream(o.block)
			if err != nil {
				return 0, err
			}
			o.stream = s
		}
		m := min(int64(len(p)), o.left)
		o.stream.XORKeyStream(p[:m], p[:m])
		o.left -= m
		p = p[m:]
	}
	return n, err
}

// errSealsShort: a record has seals for less than its content.
var errSealsShort = errors.New("blobsvc: encrypted content without a seal")

var _ io.Reader = (*opener)(nil)
