package encryption

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
)

// Encrypted content is AES-256 in counter mode. The key is derived from the customer's or the scope's key by HKDF, so
// that it is used for nothing else. Every upload draws a random initial counter of 128 bits. It is one stream of bytes,
// and every piece stores its offset in the stream, so any range can be read and parts can be cut away. Extents are only
// appended to, so nothing is encrypted twice under one counter; the probability that two of 2^30 uploads of a terabyte
// use overlapping counters is 2^-32. The checksums of the extents detect damage. They do not protect against someone
// who can write to the files.

// Seal is the place of a piece in an encrypted stream. The zero value is a piece that is not encrypted.
type Seal struct {
	// IV is the initial counter, 16 bytes.
	IV string
	// Offset is the offset in the stream of the piece's first byte.
	Offset int64
}

// At returns the seal of the content that begins n bytes after the content of s.
func (s Seal) At(n int64) Seal {
	if s.IV != "" {
		s.Offset += n
	}
	return s
}

// Fits reports whether content with the seal can be encrypted as id says.
func (s Seal) Fits(id ID) bool {
	if id == (ID{}) {
		return s == Seal{}
	}
	return len(s.IV) == aes.BlockSize && s.Offset >= 0
}

// ErrSeal means that a stored seal is not of its form.
var ErrSeal = errors.New("encryption: malformed seal")

// contentCipher makes the block cipher of content from a customer's or a scope's key.
func contentCipher(key []byte) (cipher.Block, error) {
	derived, err := hkdf.Key(sha256.New, key, nil, "lazuli blob content 1", 32)
	if err != nil {
		return nil, err
	}
	return aes.NewCipher(derived)
}

// stream returns the key stream that begins at s.
func (s Seal) stream(block cipher.Block) (cipher.Stream, error) {
	if len(s.IV) != aes.BlockSize || s.Offset < 0 {
		return nil, ErrSeal
	}
	// The initial counter plus the number of whole blocks, as one big-endian number.
	hi, lo := binary.BigEndian.Uint64([]byte(s.IV)), binary.BigEndian.Uint64([]byte(s.IV[8:]))
	n := lo + uint64(s.Offset/aes.BlockSize)
	if n < lo {
		hi++
	}
	var counter [aes.BlockSize]byte
	binary.BigEndian.PutUint64(counter[:], hi)
	binary.BigEndian.PutUint64(counter[8:], n)
	stream := cipher.NewCTR(block, counter[:])
	var skip [aes.BlockSize]byte
	stream.XORKeyStream(skip[:s.Offset%aes.BlockSize], skip[:s.Offset%aes.BlockSize])
	return stream, nil
}

// Sealer encrypts one upload. A nil *Sealer encrypts nothing.
type Sealer struct {
	id     ID
	iv     string
	stream cipher.Stream
}

// NewSealer returns a sealer for content of an account; nil if id is the zero value. key is the customer's key, if id
// is of one.
func (s *Scopes) NewSealer(account string, id ID, key *CustomerKey) (*Sealer, error) {
	block, err := s.cipherOf(account, id, key)
	if block == nil || err != nil {
		return nil, err
	}
	iv := make([]byte, aes.BlockSize)
	if _, err := rand.Read(iv); err != nil {
		return nil, err
	}
	stream, err := Seal{IV: string(iv)}.stream(block)
	return &Sealer{id: id, iv: string(iv), stream: stream}, err
}

// ID identifies the key that s encrypts with.
func (s *Sealer) ID() ID {
	if s == nil {
		return ID{}
	}
	return s.id
}

// Seal is the seal of the content that s encrypts, as one piece.
func (s *Sealer) Seal() Seal {
	if s == nil {
		return Seal{}
	}
	return Seal{IV: s.iv}
}

// Encrypt writes the next bytes of the content to dst, encrypted. dst is at least as long as src and does not overlap
// it.
func (s *Sealer) Encrypt(dst, src []byte) { s.stream.XORKeyStream(dst, src) }

// Run is a part of the content that is in one stream.
type Run struct {
	Seal
	Length int64
}

// Opener decrypts content while it is read.
type Opener struct {
	block   cipher.Block
	runs    []Run
	content io.Reader
	// at is the index of the current run, left the number of its bytes that remain; stream is nil until it is needed.
	at     int
	left   int64
	stream cipher.Stream
}

// NewOpener returns an opener of content that consists of runs. [Opener.Reset] gives it the content.
func NewOpener(block cipher.Block, runs []Run) *Opener { return &Opener{block: block, runs: runs} }

// Reset makes o read from content, which begins at an offset in the content of all runs.
func (o *Opener) Reset(content io.Reader, off int64) {
	o.content, o.stream = content, nil
	for o.at = 0; o.at < len(o.runs); o.at++ {
		if n := o.runs[o.at].Length; off < n {
			break
		}
		off -= o.runs[o.at].Length
	}
	if o.left = 0; o.at < len(o.runs) {
		o.left = o.runs[o.at].Length - off
	}
}

// Read implements io.Reader.
func (o *Opener) Read(p []byte) (int, error) {
	n, err := o.content.Read(p)
	for p = p[:n]; len(p) > 0; {
		if o.left == 0 {
			if o.at++; o.at >= len(o.runs) {
				return 0, errSealsShort
			}
			o.left, o.stream = o.runs[o.at].Length, nil
		}
		if o.stream == nil {
			run := o.runs[o.at]
			s, err := run.At(run.Length - o.left).stream(o.block)
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
var errSealsShort = errors.New("encryption: content without a seal")

var _ io.Reader = (*Opener)(nil)
