package tables

import (
	"fmt"
	"reflect"
	"slices"
	"unicode/utf8"
)

// writer makes the JSON of an entity.
type writer struct {
	b    []byte
	key  Key
	only []string // if not nil, no other properties are written
	seal *sealer  // nil if nothing is encrypted
	// plain writes in plain text what is to be encrypted.
	plain bool
	n     int // properties written
}

func newWriter(k Key) (*writer, error) {
	w := &writer{key: k, b: make([]byte, 0, 512)}
	for _, text := range []string{k.PartitionKey, k.RowKey} {
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("the key %q is not valid UTF-8", text)
		}
	}
	w.b = appendQuoted(append(w.b, `{"PartitionKey":`...), k.PartitionKey)
	w.b = appendQuoted(append(w.b, `,"RowKey":`...), k.RowKey)
	return w, nil
}

func (w *writer) wants(name string) bool { return w.only == nil || slices.Contains(w.only, name) }

// property writes a property whose value in JSON append makes.
func (w *writer) property(name string, t edm, encrypt bool, v reflect.Value,
	appendValue func([]byte, reflect.Value) ([]byte, error)) (err error) {
	if encrypt && !w.plain {
		value, err := appendValue(nil, v)
		if err == nil {
			err = w.encrypted(name, t, value)
		}
		return err
	}
	w.name(name)
	if w.b, err = appendValue(w.b, v); err == nil {
		w.annotate(name, t)
	}
	return err
}

// encrypted writes the ciphertext of a property.
func (w *writer) encrypted(name string, t edm, value []byte) error {
	if w.seal == nil {
		return ErrNoKey
	}
	sealed, err := w.seal.property(name, t, value)
	if err != nil {
		return err
	}
	return w.property(name, edmBinary, false, reflect.ValueOf(sealed), binaryCodec.append)
}

// raw writes a property as it was read.
func (w *writer) raw(p rawProperty) {
	w.name(p.name)
	w.b = append(w.b, p.value...)
	w.annotate(p.name, p.edm)
}

func (w *writer) name(name string) {
	w.n++
	w.b = append(appendQuoted(append(w.b, ','), name), ':')
}

func (w *writer) annotate(name string, t edm) {
	if !t.annotated() {
		return
	}
	w.b = appendQuoted(append(w.b, ','), name)
	w.b = append(append(w.b[:len(w.b)-1], typeSuffix...), `":"`...)
	w.b = append(append(w.b, t...), '"')
}

// done returns the JSON.
func (w *writer) done() ([]byte, error) {
	if w.seal != nil && w.seal.used() {
		if err := w.seal.metadata(w); err != nil {
			return nil, err
		}
	}
	return append(w.b, '}'), nil
}
