package tables

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrBound means that an entity cannot be moved as it is: its encrypted properties are bound to its table and keys.
var ErrBound = errors.New("the entity has encrypted properties, which are bound to its table and keys")

// Move returns the JSON under which an entity, given in the service's JSON, is stored under another key or in another
// table: what is encrypted is decrypted and encrypted again for the new place. Properties of an [Authenticated] entity
// cannot be read in another place than the one for which they were encrypted, those of an [AzureCompatible] one not
// under other keys. Without keys, e is nil and such an entity is refused with [ErrBound]. An entity without encrypted
// properties needs no keys.
func Move(ctx context.Context, entity []byte, from, to Place, e *Encryption) ([]byte, error) {
	r, err := readEntity(entity)
	if err != nil {
		return nil, err
	}
	encrypted := false
	for _, p := range r.properties {
		encrypted = encrypted || p.name == metadata1 || p.name == metadata2
	}
	// Refused before anything is written: the ciphertext names its place, and would not open in the new one.
	if encrypted && !from.same(to) && e == nil {
		return nil, fmt.Errorf("tables: move (%q, %q) from %s to %s: %w", from.PartitionKey, from.RowKey, from.Table,
			to.Table, ErrBound)
	}
	w, err := newWriter(to.Key)
	if err != nil {
		return nil, err
	}
	if encrypted && !from.same(to) {
		if err := e.open(ctx, from.Table, r, false); err != nil {
			return nil, fmt.Errorf("tables: move (%q, %q): %w", from.PartitionKey, from.RowKey, err)
		}
		w.seal = e.sealer(ctx, to.Table, to.Key)
	}
	for _, p := range r.properties {
		// What was plain is copied as it is, byte for byte.
		if !p.decrypted {
			w.raw(p)
		} else if err := w.encrypted(p.name, p.edm, p.value); err != nil {
			return nil, err
		}
	}
	return w.done()
}

// Place is the place where an entity is stored.
type Place struct {
	Table string
	Key
}

func (p Place) same(other Place) bool {
	return p.Key == other.Key && strings.EqualFold(p.Table, other.Table)
}

// Encrypted reports whether an entity that was read without keys has encrypted properties.
func Encrypted(e *Entity) bool {
	return e.Properties[metadata1] != nil || e.Properties[metadata2] != nil
}
