package tables

import (
	"context"
	"crypto/aes"
	"errors"
	"fmt"
	"slices"
	"strings"

	keywrap "github.com/go-jose/go-jose/v4/cipher"
)

// Mode describes how encrypted properties are stored.
type Mode int

const (
	// Authenticated is AES-256-GCM. The table's name, both keys, the property's name and type are bound in: a value that
	// was changed, or moved to another property, entity or table, is refused with [ErrTampered], and so is an entity from
	// which an encrypted property was removed. Properties of every type can be encrypted. Only this package reads it.
	Authenticated Mode = iota
	// AzureCompatible is the format of Azure's client-side encryption for tables, version 1.0: AES-256-CBC, text only.
	// Those of Azure's client libraries that have client-side encryption read and write it. It hides values and does not
	// protect them: anyone who can write to the table can change them unnoticed.
	AzureCompatible
)

// KeyWrapper is a key that encrypts the keys of entities: one in a key vault, or one that [NewAESKey] makes.
type KeyWrapper interface {
	// KeyID identifies the key. It is stored in plain text beside what the key protects.
	KeyID() string
	// WrapAlgorithm names the algorithm of WrapKey, as it is stored: "A256KW".
	WrapAlgorithm() string
	WrapKey(ctx context.Context, contentKey []byte) ([]byte, error)
	// UnwrapKey fails if the algorithm is unknown, and should fail if the key is not the one that wrapped.
	UnwrapKey(ctx context.Context, algorithm string, wrapped []byte) ([]byte, error)
}

// Encryption describes how a table encrypts the properties whose fields have the option "encrypt", before they leave
// the process. Every write of an entity makes a new content key, which Key wraps and the entity keeps. The keys, the
// names of properties, the lengths of values and all other properties stay visible, and replacing an entity by an older
// state is not detected. Encrypted properties cannot be compared in queries.
type Encryption struct {
	// Key wraps the content keys of written entities.
	Key KeyWrapper
	// Resolve finds the key for what is read. Nil finds Key only. To rotate keys, set Key to the new one, let Resolve find
	// both, and call [Table.Rotate]; then the old key is not needed any more.
	Resolve func(ctx context.Context, keyID string) (KeyWrapper, error)
	// Mode describes how properties are stored.
	Mode Mode
	// ReadAzure also reads what was stored as AzureCompatible if Mode is Authenticated: while data moves from one to the
	// other.
	ReadAzure bool
	// Properties are those of an [Entity] that are encrypted; structs use tags.
	Properties []string
}

// WithEncryption sets how a table encrypts.
func WithEncryption(e Encryption) Option { return func(c *config) { c.encryption = &e } }

// Failures of encryption.
var (
	// ErrNoKey means that no key to encrypt or decrypt with is available.
	ErrNoKey = errors.New("there is no key for client-side encryption")
	// ErrNotEncrypted means that a property should be encrypted and is stored in plain text.
	ErrNotEncrypted = errors.New("the stored property is not encrypted")
	// ErrTampered means that an encrypted property is not what was written there, or that the key is wrong.
	ErrTampered = errors.New("the encrypted property was changed or moved, or the key is wrong")
	// ErrEnvelope means that the description of how an entity was encrypted is damaged, or of a kind that is not accepted.
	ErrEnvelope = errors.New("the description of the encryption cannot be used")
)

// check refuses types that cannot be encrypted so.
func (e *Encryption) check(c codec) error {
	if e == nil || e.Key == nil {
		return fmt.Errorf("%w: WithEncryption needs a Key", ErrNoKey)
	}
	if e.Mode != Authenticated && e.Mode != AzureCompatible {
		return fmt.Errorf("unknown mode of encryption %d", e.Mode)
	}
	// A struct says in its tags what is encrypted; two places could contradict each other.
	if _, ok := c.(entityCodec); !ok && len(e.Properties) > 0 {
		return errors.New("the member Properties is for tables of Entity; structs use the option encrypt in their tags")
	}
	if e.Mode == Authenticated {
		return nil
	}
	schemas := []*structCodec{}
	switch c := c.(type) {
	case *structCodec:
		schemas = append(schemas, c)
	case *unionCodec:
		for _, s := range c.byType {
			schemas = append(schemas, s)
		}
	}
	for _, s := range schemas {
		// Azure's client encrypts texts alone; others would not be read by its libraries.
		for _, p := range s.properties {
			if p.encrypt && p.codec.edm != edmString {
				return fmt.Errorf("field %s of %v: Azure's format encrypts text only, not %s", p.field, s.typ, p.codec.edm)
			}
		}
	}
	return nil
}

// keyFor returns the key that wrapped a content key.
func (e *Encryption) keyFor(ctx context.Context, id string) (KeyWrapper, error) {
	if e.Resolve != nil {
		k, err := e.Resolve(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("%w %q: %w", ErrNoKey, id, err)
		}
		if k == nil || k.KeyID() != id {
			return nil, fmt.Errorf("%w %q: Resolve found another", ErrNoKey, id)
		}
		return k, nil
	}
	if e.Key.KeyID() != id {
		return nil, fmt.Errorf("%w %q", ErrNoKey, id)
	}
	return e.Key, nil
}

// aesKey wraps by AES key wrap, RFC 3394.
type aesKey struct {
	id  string
	key []byte
}

// NewAESKey returns a key of 16, 24 or 32 bytes that wraps content keys by AES key wrap (RFC 3394; "A128KW", "A192KW",
// "A256KW", as in JSON Web Algorithms and Azure's libraries).
func NewAESKey(id string, key []byte) (KeyWrapper, error) {
	if !slices.Contains([]int{16, 24, 32}, len(key)) {
		return nil, fmt.Errorf("tables: an AES key has 16, 24 or 32 bytes, not %d", len(key))
	}
	if id == "" {
		return nil, errors.New("tables: a key needs an id")
	}
	return aesKey{id, slices.Clone(key)}, nil
}

func (k aesKey) KeyID() string         { return k.id }
func (k aesKey) WrapAlgorithm() string { return fmt.Sprintf("A%dKW", len(k.key)*8) }

// String keeps the key out of logs.
func (k aesKey) String() string   { return "AES key " + k.id }
func (k aesKey) GoString() string { return k.String() }

func (k aesKey) WrapKey(_ context.Context, contentKey []byte) ([]byte, error) {
	block, err := aes.NewCipher(k.key)
	if err != nil {
		return nil, err
	}
	return keywrap.KeyWrap(block, contentKey)
}

func (k aesKey) UnwrapKey(_ context.Context, algorithm string, wrapped []byte) ([]byte, error) {
	if !strings.EqualFold(algorithm, k.WrapAlgorithm()) {
		return nil, fmt.Errorf("the content key was wrapped by %q, the key %q unwraps %s", algorithm, k.id, k.WrapAlgorithm())
	}
	if len(wrapped) < 16 || len(wrapped) > 128 || len(wrapped)%8 != 0 {
		return nil, errors.New("the wrapped content key has a wrong length")
	}
	block, err := aes.NewCipher(k.key)
	if err != nil {
		return nil, err
	}
	return keywrap.KeyUnwrap(block, wrapped)
}
