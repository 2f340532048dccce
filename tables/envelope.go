package tables

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// The properties that describe how an entity is encrypted, as Azure's libraries call them.
const (
	metadataPrefix = "_ClientEncryptionMetadata"
	// metadata1 is the envelope in JSON.
	metadata1 = metadataPrefix + "1"
	// metadata2 is the encrypted list of the encrypted properties.
	metadata2 = metadataPrefix + "2"
)

// The protocols and algorithms of envelopes.
const (
	azureProtocol          = "1.0"
	azureAlgorithm         = "AES_CBC_256"
	authenticatedProtocol  = "lazuli-1"
	authenticatedAlgorithm = "AES_GCM_256"
)

// envelope is the JSON in metadata1. The order of the members is that of Azure's libraries.
// https://learn.microsoft.com/azure/storage/common/storage-client-side-encryption
type envelope struct {
	WrappedContentKey struct {
		KeyID        string `json:"KeyId"`
		EncryptedKey []byte
		Algorithm    string
	}
	EncryptionAgent struct {
		Protocol, EncryptionAlgorithm string
	}
	ContentEncryptionIV []byte
	KeyWrappingMetadata map[string]string
}

const (
	contentKeySize = 32
	ivSize         = 16
	maxEnvelope    = 16 << 10
)

// contentCipher encrypts the properties of one entity with its content key.
type contentCipher interface {
	seal(name string, plain []byte) ([]byte, error)
	open(name string, sealed []byte) ([]byte, error)
	// plain and value convert between a property and what is encrypted.
	plain(t edm, value []byte) ([]byte, error)
	value(plain []byte) (edm, []byte, error)
	// list and names convert between the names of the encrypted properties and what is encrypted.
	list(names []string) ([]byte, error)
	names(list []byte) ([]string, error)
}

// sealer encrypts the properties of an entity that is about to be written.
type sealer struct {
	ctx        context.Context // of the write that the sealer belongs to
	encryption *Encryption
	table      string
	key        Key
	envelope   envelope
	cipher     contentCipher // nil before the first property
	names      []string
}

func (e *Encryption) sealer(ctx context.Context, table string, k Key) *sealer {
	return &sealer{ctx: ctx, encryption: e, table: table, key: k}
}

func (s *sealer) used() bool { return s.cipher != nil }

// begin makes the content key.
func (s *sealer) begin() error {
	k := s.encryption.Key
	contentKey := make([]byte, contentKeySize)
	iv := make([]byte, ivSize)
	// Each write has a new content key and vector, as GCM and CBC demand: two writes of one entity share no key
	// stream.
	rand.Read(contentKey)
	rand.Read(iv)
	wrapped, err := k.WrapKey(s.ctx, contentKey)
	if err != nil {
		return fmt.Errorf("wrap the content key: %w", err)
	}
	v := &s.envelope
	v.WrappedContentKey.KeyID, v.WrappedContentKey.EncryptedKey, v.WrappedContentKey.Algorithm = k.KeyID(), wrapped,
		k.WrapAlgorithm()
	v.EncryptionAgent.Protocol, v.EncryptionAgent.EncryptionAlgorithm = authenticatedProtocol, authenticatedAlgorithm
	if s.encryption.Mode == AzureCompatible {
		v.EncryptionAgent.Protocol, v.EncryptionAgent.EncryptionAlgorithm = azureProtocol, azureAlgorithm
	}
	v.ContentEncryptionIV = iv
	v.KeyWrappingMetadata = map[string]string{"EncryptionLibrary": "Lazuli tables"}
	s.cipher, err = v.cipher(contentKey, s.table, s.key)
	return err
}

// property encrypts one property.
func (s *sealer) property(name string, t edm, value []byte) ([]byte, error) {
	// The key is made with the first property that needs it: an entity without encrypted properties costs no call of a
	// key vault, and carries no envelope.
	if s.cipher == nil {
		if err := s.begin(); err != nil {
			return nil, err
		}
	}
	plain, err := s.cipher.plain(t, value)
	if err != nil {
		return nil, err
	}
	s.names = append(s.names, name)
	return s.cipher.seal(name, plain)
}

// metadata writes the two properties that describe the encryption.
func (s *sealer) metadata(w *writer) error {
	list, err := s.cipher.list(s.names)
	if err != nil {
		return err
	}
	// The list is encrypted as well: who changes it could make a reader take ciphertext for data, or leave a property
	// out.
	sealed, err := s.cipher.seal(metadata2, list)
	if err != nil {
		return err
	}
	text, err := json.Marshal(s.envelope)
	if err != nil {
		return err
	}
	w.name(metadata1)
	w.b = appendQuoted(w.b, string(text))
	return w.property(metadata2, edmBinary, false, reflect.ValueOf(sealed), binaryCodec.append)
}

// open decrypts the properties of an entity that was read, and removes the description. An entity without one is left
// alone: a field that must be encrypted refuses plain text. partial: some properties were not asked for.
func (e *Encryption) open(ctx context.Context, table string, r *raw, partial bool) error {
	first := slices.IndexFunc(r.properties, func(p rawProperty) bool { return p.name == metadata1 })
	second := slices.IndexFunc(r.properties, func(p rawProperty) bool { return p.name == metadata2 })
	if e == nil || first < 0 && second < 0 {
		return nil
	}
	// A projection always asks for both. One alone means that a client removed the other.
	if first < 0 || second < 0 {
		return fmt.Errorf("%w: one of its two properties is missing", ErrEnvelope)
	}
	v, err := parseEnvelope(r.properties[first])
	if err != nil {
		return err
	}
	c, err := e.unlock(ctx, v, table, r.key)
	if err != nil {
		return err
	}
	list, err := decrypt(c, r.properties[second])
	if err != nil {
		return err
	}
	names, err := c.names(list)
	if err != nil {
		return err
	}
	found := 0
	for i := range r.properties {
		p := &r.properties[i]
		if !slices.Contains(names, p.name) {
			continue
		}
		found++
		plain, err := decrypt(c, *p)
		if err != nil {
			return err
		}
		if p.edm, p.value, err = c.value(plain); err != nil {
			return fmt.Errorf("property %s: %w", p.name, err)
		}
		p.decrypted = true
	}
	// GCM protects each property, but not the set of them: without this a property could be removed unseen.
	if found < len(names) && !partial {
		return fmt.Errorf("%w: one of the encrypted properties %s is missing", ErrTampered, strings.Join(names, ", "))
	}
	r.properties = slices.DeleteFunc(r.properties,
		func(p rawProperty) bool { return p.name == metadata1 || p.name == metadata2 })
	return nil
}

// decrypt opens one stored property.
func decrypt(c contentCipher, p rawProperty) ([]byte, error) {
	if p.edm != edmBinary {
		return nil, fmt.Errorf("property %s: %w", p.name, ErrNotEncrypted)
	}
	text, err := unquote(p.value)
	if err != nil {
		return nil, err
	}
	sealed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("property %s: %w: %w", p.name, ErrTampered, err)
	}
	plain, err := c.open(p.name, sealed)
	if err != nil {
		return nil, fmt.Errorf("property %s: %w", p.name, err)
	}
	return plain, nil
}

func parseEnvelope(p rawProperty) (*envelope, error) {
	if p.edm != edmString || len(p.value) > maxEnvelope {
		return nil, fmt.Errorf("%w: it is not a short text", ErrEnvelope)
	}
	text, err := unquote(p.value)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	v := &envelope{}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	// The ciphers panic at vectors of another length.
	if len(v.ContentEncryptionIV) != ivSize {
		return nil, fmt.Errorf("%w: an initialization vector of %d bytes", ErrEnvelope, len(v.ContentEncryptionIV))
	}
	return v, nil
}

// unlock unwraps the content key.
func (e *Encryption) unlock(ctx context.Context, v *envelope, table string, k Key) (contentCipher, error) {
	agent := v.EncryptionAgent
	switch {
	case agent.Protocol == authenticatedProtocol && agent.EncryptionAlgorithm == authenticatedAlgorithm:
	case agent.Protocol == azureProtocol && agent.EncryptionAlgorithm == azureAlgorithm:
		// CBC without a checksum tells an attacker who may write and see errors about the plain text. So it is read
		// only where the program has said that it has entities from Azure's libraries.
		if e.Mode != AzureCompatible && !e.ReadAzure {
			return nil, fmt.Errorf("%w: it is in Azure's format, which is not authenticated and which ReadAzure has to permit",
				ErrEnvelope)
		}
	default:
		return nil, fmt.Errorf("%w: protocol %q, algorithm %q", ErrEnvelope, agent.Protocol, agent.EncryptionAlgorithm)
	}
	wrapper, err := e.keyFor(ctx, v.WrappedContentKey.KeyID)
	if err != nil {
		return nil, err
	}
	contentKey, err := wrapper.UnwrapKey(ctx, v.WrappedContentKey.Algorithm, v.WrappedContentKey.EncryptedKey)
	if err != nil {
		return nil, fmt.Errorf("%w: unwrap the content key: %w", ErrTampered, err)
	}
	// A shorter key would select a weaker AES without a word.
	if len(contentKey) != contentKeySize {
		return nil, fmt.Errorf("%w: a content key of %d bytes", ErrTampered, len(contentKey))
	}
	return v.cipher(contentKey, table, k)
}

// cipher returns how properties are encrypted with a content key.
func (v *envelope) cipher(contentKey []byte, table string, k Key) (contentCipher, error) {
	if v.EncryptionAgent.Protocol == azureProtocol {
		block, err := aes.NewCipher(contentKey)
		return &azureCipher{block: block, iv: v.ContentEncryptionIV, key: k, java: v.isJava()}, err
	}
	// The key is not the content key itself, so that what one protocol encrypted means nothing in the other.
	derived, err := hkdf.Key(sha256.New, contentKey, v.ContentEncryptionIV, authenticatedProtocol, contentKeySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	address := []string{authenticatedProtocol, v.WrappedContentKey.KeyID, v.WrappedContentKey.Algorithm,
		// Table names compare without case, and the table may have been opened under another spelling.
		strings.ToLower(table), k.PartitionKey, k.RowKey}
	return &authenticatedCipher{aead, address}, err
}

// isJava reports whether the version 1 of Azure's library for Java wrote the entity, which joins keys and lists in
// another way than the others.
func (v *envelope) isJava() bool {
	return v.KeyWrappingMetadata == nil || strings.Contains(v.KeyWrappingMetadata["EncryptionLibrary"], "Java")
}

// azureCipher is Azure's version 1.0: AES-CBC with PKCS #7 padding. Each property has its own initialization vector,
// made of the entity's, the keys and the property's name.
type azureCipher struct {
	block cipher.Block
	iv    []byte
	key   Key
	java  bool
}

func (c *azureCipher) propertyIV(name string) []byte {
	keys := c.key.RowKey + c.key.PartitionKey // in this order in all libraries but Java's
	if c.java {
		keys = c.key.PartitionKey + c.key.RowKey
	}
	sum := sha256.Sum256(append(slices.Clone(c.iv), keys+name...))
	return sum[:ivSize]
}

func (c *azureCipher) seal(name string, plain []byte) ([]byte, error) {
	// From 1 to 16 bytes, never none: the last byte always says how many there are.
	padding := aes.BlockSize - len(plain)%aes.BlockSize
	b := append(slices.Clone(plain), bytes.Repeat([]byte{byte(padding)}, padding)...)
	cipher.NewCBCEncrypter(c.block, c.propertyIV(name)).CryptBlocks(b, b)
	return b, nil
}

func (c *azureCipher) open(name string, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 || len(sealed)%aes.BlockSize != 0 {
		return nil, ErrTampered
	}
	b := slices.Clone(sealed)
	cipher.NewCBCDecrypter(c.block, c.propertyIV(name)).CryptBlocks(b, b)
	padding := int(b[len(b)-1])
	// A wrong key or changed ciphertext shows here, with a chance of 1 in 256 that it does not: the format has no
	// checksum.
	if padding == 0 || padding > aes.BlockSize ||
		!bytes.Equal(b[len(b)-padding:], bytes.Repeat([]byte{byte(padding)}, padding)) {
		return nil, ErrTampered
	}
	return b[:len(b)-padding], nil
}

func (c *azureCipher) plain(t edm, value []byte) ([]byte, error) {
	if t != edmString {
		return nil, fmt.Errorf("the format of Azure encrypts text only, not %s", t)
	}
	text, err := unquote(value)
	return []byte(text), err
}

func (c *azureCipher) value(plain []byte) (edm, []byte, error) {
	if !utf8.Valid(plain) {
		return "", nil, ErrTampered
	}
	return edmString, appendQuoted(nil, string(plain)), nil
}

func (c *azureCipher) list(names []string) ([]byte, error) { return json.Marshal(names) }

func (c *azureCipher) names(list []byte) (names []string, err error) {
	if c.java {
		// Java's library writes the list as ArrayList.toString does, which is not JSON.
		text, begins := strings.CutPrefix(string(list), "[")
		text, ends := strings.CutSuffix(text, "]")
		if !begins || !ends {
			return nil, ErrTampered
		}
		return strings.Split(text, ", "), nil
	}
	if err := json.Unmarshal(list, &names); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTampered, err)
	}
	return names, nil
}

// authenticatedCipher is AES-256-GCM with the place of a value as additional data.
type authenticatedCipher struct {
	aead    cipher.AEAD
	address []string
}

// place is the additional data of a property: each part with its length before it, so that no two places are the same.
func (c *authenticatedCipher) place(name string) []byte {
	var b []byte
	for _, part := range append(slices.Clone(c.address), name) {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	return b
}

func (c *authenticatedCipher) seal(name string, plain []byte) ([]byte, error) {
	return c.aead.Seal(nil, nil, plain, c.place(name)), nil
}

func (c *authenticatedCipher) open(name string, sealed []byte) ([]byte, error) {
	plain, err := c.aead.Open(nil, nil, sealed, c.place(name))
	if err != nil {
		return nil, ErrTampered
	}
	return plain, nil
}

func (c *authenticatedCipher) plain(t edm, value []byte) ([]byte, error) {
	return append(append([]byte(t), ' '), value...), nil
}

func (c *authenticatedCipher) value(plain []byte) (edm, []byte, error) {
	t, value, ok := bytes.Cut(plain, []byte(" "))
	if !ok || !slices.Contains(knownTypes, edm(t)) {
		return "", nil, errors.New("the decrypted value has no type")
	}
	return edm(t), value, nil
}

func (c *authenticatedCipher) list(names []string) ([]byte, error) { return json.Marshal(names) }

func (c *authenticatedCipher) names(list []byte) (names []string, err error) {
	if err := json.Unmarshal(list, &names); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTampered, err)
	}
	return names, nil
}
