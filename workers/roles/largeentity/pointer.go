package largeentity

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/tables"
)

// PointerProperty is the property in which an entity keeps the pointers to its blobs, as JSON. An entity without blobs
// has none. Other readers of the table may rely on it: {"parts":{"NAME":{"blob":..., "bytes":..., "sha256":...,
// "type":...}}}.
const PointerProperty = "LargeEntity"

// pointers is the value of PointerProperty.
type pointers struct {
	// Reserved means that the row is not an entity yet: a writer is about to commit one, or crashed before it.
	Reserved bool `json:"reserved,omitempty"`
	// Parts has the properties that are stored in blobs, by name.
	Parts map[string]part `json:"parts,omitempty"`
}

// part is a property in a blob.
type part struct {
	Blob   string `json:"blob"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Type   string `json:"type"`
}

// partCost bounds what a part adds to an entity, in UTF-16 bytes, for names of usual length.
const partCost = 600

func pointerCost(n int) int { return 64 + n*partCost }

func (p pointers) blobs() []string {
	names := make([]string, 0, len(p.Parts))
	for _, name := range slices.Sorted(maps.Keys(p.Parts)) {
		names = append(names, p.Parts[name].Blob)
	}
	return names
}

func (p pointers) refersTo(blob string) bool {
	for _, part := range p.Parts {
		if part.Blob == blob {
			return true
		}
	}
	return false
}

// addTo sets the property of an entity.
func (p pointers) addTo(e tables.Entity) error {
	value, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if sizeOf(string(value)) > maxProperty {
		return fmt.Errorf("%w: %d of its properties would be in blobs", ErrTooLarge, len(p.Parts))
	}
	e.Properties[PointerProperty] = string(value)
	return nil
}

// pointersOf returns the pointers of an entity, and removes them from its properties.
func pointersOf(e tables.Entity) (p pointers, err error) {
	value, ok := e.Properties[PointerProperty]
	if !ok {
		return p, nil
	}
	delete(e.Properties, PointerProperty)
	text, ok := value.(string)
	if !ok {
		return p, fmt.Errorf("largeentity: %s is a %T, not text", PointerProperty, value)
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("largeentity: %s cannot be read: %w", PointerProperty, err)
	}
	return p, nil
}

// IsLarge reports whether an entity, in the service's JSON, has properties in blobs, and whether it is a reservation,
// which is not an entity yet.
func IsLarge(entity []byte) (large, reserved bool, err error) {
	r, err := parseRow(entity)
	if err != nil {
		return false, false, err
	}
	return len(r.pointers.Parts) > 0, r.pointers.Reserved, nil
}

// Reserved reports whether a row of the table is a reservation, which is not an entity yet.
func Reserved(e *tables.Entity) bool {
	text, ok := e.Properties[PointerProperty].(string)
	var p pointers
	return ok && json.Unmarshal([]byte(text), &p) == nil && p.Reserved
}

// partOf describes a property's content in a blob with a new name.
func partOf(table string, k Key, p property) part {
	content := p.content()
	sum := sha256.Sum256(content)
	return part{Blob: blobPrefix(table) + keyHash(k) + "/" + uuid.NewString(), Bytes: int64(len(content)),
		SHA256: hex.EncodeToString(sum[:]), Type: p.edm()}
}

// blobPrefix begins the names of a table's blobs, so that several tables may share a container. Table names ignore
// case.
func blobPrefix(table string) string { return strings.ToLower(table) + "/" }

// keyHash identifies an entity in blob names, for which keys may be too long.
func keyHash(k Key) string {
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, uint32(len(k.PartitionKey))) // a hash takes everything
	h.Write([]byte(k.PartitionKey))
	h.Write([]byte(k.RowKey))
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// The metadata of a blob name its entity. Values begin with "=", since metadata cannot be empty, and are base64, since
// it is ASCII.
const (
	metaPartition = "Partitionkey"
	metaRow       = "Rowkey"
)

func ownerMetadata(k Key) map[string]*string {
	encode := func(s string) *string {
		v := "=" + base64.RawURLEncoding.EncodeToString([]byte(s))
		return &v
	}
	return map[string]*string{metaPartition: encode(k.PartitionKey), metaRow: encode(k.RowKey)}
}

// ownerOf reads an entity's key from its blob's metadata. It returns false if another program wrote the blob.
func ownerOf(metadata map[string]*string) (Key, bool) {
	decode := func(name string) (string, bool) {
		for n, v := range metadata {
			if strings.EqualFold(n, name) && v != nil && strings.HasPrefix(*v, "=") {
				b, err := base64.RawURLEncoding.DecodeString((*v)[1:])
				return string(b), err == nil
			}
		}
		return "", false
	}
	pk, ok1 := decode(metaPartition)
	rk, ok2 := decode(metaRow)
	return Key{pk, rk}, ok1 && ok2
}
