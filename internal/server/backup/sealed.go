package backup

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
)

// A sealed file is sealMagic, a random salt, and the content under AES-256-GCM. The key is derived from that of the
// place and the salt by HKDF-SHA256, so that each file has a key of its own and the nonce can be zero. The name of the
// file is authenticated with it: a file does not pass for another one.
const (
	sealMagic = "LZSEAL1\n"
	saltSize  = 32
	keySize   = 32
)

// Errors of sealed places.
var (
	// ErrSealed: the files of the place are encrypted, and no key was given.
	ErrSealed = errors.New("is encrypted: give the file of its key with --key-file")
	// ErrNotSealed: a key was given for a place whose files are not encrypted.
	ErrNotSealed = errors.New("is not encrypted, and a key was given for it")
	// ErrWrongKey: a file does not open with the key, because it is that of another place or the file is damaged.
	ErrWrongKey = errors.New("does not open: its key is another one, or it is damaged")
)

// ReadKey reads the key of a sealed place from a file: 64 hexadecimal digits, as `openssl rand -hex 32` prints them.
func ReadKey(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("%s has no key: it must be %d hexadecimal digits, as `openssl rand -hex %d` prints them", path,
			2*keySize, keySize)
	}
	return key, nil
}

// sealed is a place whose files are encrypted. Their names and sizes are not.
type sealed struct {
	Place
	key, names []byte
}

// Sealed returns p with all files encrypted under a key of 32 bytes. The names of pieces do not depend on their content
// alone, so that they tell nothing of it.
func Sealed(p Place, key []byte) (Place, error) {
	names, err := hkdf.Expand(sha256.New, key, "lazuli names of pieces", keySize)
	if err != nil {
		return nil, err
	}
	return sealed{p, key, names}, nil
}

func (s sealed) aead(salt []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, s.key, salt, "lazuli file of a place", keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func (s sealed) seal(name string, content []byte) ([]byte, error) {
	head := make([]byte, len(sealMagic)+saltSize, len(sealMagic)+saltSize+len(content)+16)
	copy(head, sealMagic)
	salt := head[len(sealMagic):]
	if _, err := rand.Read(salt); err != nil {
		return nil, err
	}
	aead, err := s.aead(salt)
	if err != nil {
		return nil, err
	}
	// The nonce is zero: the salt gives the file a key that nothing else is encrypted with.
	return aead.Seal(head, make([]byte, aead.NonceSize()), content, []byte(name)), nil
}

func (s sealed) Get(ctx context.Context, name string) ([]byte, error) {
	p, err := s.Place.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	// Not decrypted by mistake: a file without the mark was never sealed.
	if !isSealed(p) {
		return nil, fmt.Errorf("%s/%s %w", s.Place, name, ErrNotSealed)
	}
	p = p[len(sealMagic):]
	aead, err := s.aead(p[:saltSize])
	if err != nil {
		return nil, err
	}
	content, err := aead.Open(nil, make([]byte, aead.NonceSize()), p[saltSize:], []byte(name))
	if err != nil {
		return nil, fmt.Errorf("%w: %s/%s %w", ErrDamaged, s.Place, name, ErrWrongKey)
	}
	return content, nil
}

func isSealed(p []byte) bool {
	return len(p) >= len(sealMagic)+saltSize && bytes.HasPrefix(p, []byte(sealMagic))
}

func (s sealed) Put(ctx context.Context, name string, content []byte) error {
	p, err := s.seal(name, content)
	if err != nil {
		return err
	}
	return s.Place.Put(ctx, name, p)
}

func (s sealed) Create(ctx context.Context, name string, content []byte) error {
	p, err := s.seal(name, content)
	if err != nil {
		return err
	}
	return s.Place.Create(ctx, name, p)
}

// sumOf returns the sum of a piece of a place, by which it is called.
func sumOf(p Place, content []byte) string {
	if part, ok := p.(shardPlace); ok {
		return sumOf(part.Place, content)
	}
	// A plain sum would let anyone who has a file find out whether a backup has it.
	if s, ok := p.(sealed); ok {
		mac := hmac.New(sha256.New, s.names)
		mac.Write(content)
		return hex.EncodeToString(mac.Sum(nil))
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
