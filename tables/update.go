package tables

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

const (
	// maxUpdates is the number of times that Update tries against others that change the same entity.
	maxUpdates = 50
	// The pause between two tries grows from firstPause to maxPause, and is a random part of that.
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)

// Update reads an entity, lets change change it, and stores it if no other client has changed it since; otherwise it
// begins again, so that change may be called many times and must have no other effects. An error of change ends it
// without a write. Properties that the type T does not know stay as they are; a pointer that change sets to nil removes
// its property. Update fails with [ErrNotFound] if there is no such entity, and with [ErrChanged] after 50 tries.
// change must not change the key.
func (t *Table[T]) Update(ctx context.Context, k Key, change func(*T) error) error {
	return t.wrap("update", k, t.updateLoop(ctx, k, change))
}

func (t *Table[T]) updateLoop(ctx context.Context, k Key, change func(*T) error) error {
	for try := 0; ; try++ {
		e, r, err := t.get(ctx, k)
		if err != nil {
			return err
		}
		if err := change(&e); err != nil {
			return err
		}
		// Another key would make a second entity, and leave this one.
		if got, err := t.Key(&e); err != nil || got != k {
			return errors.Join(err, fmt.Errorf("the change made another key of it, %+v", got))
		}
		body, err := t.encodeOver(ctx, &e, k, r)
		if err != nil {
			return err
		}
		// On condition of the ETag that was read: after a change in between, the entity is read again and changed again.
		err = addressed(ctx, k, body, func(ctx context.Context, body []byte) error {
			_, err := t.client.UpdateEntity(ctx, body,
				&aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeReplace, IfMatch: &r.etag})
			return err
		})
		if !is(err, ErrChanged) || try+1 == maxUpdates {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

// encodeOver encodes a value with the properties of the stored entity that its type does not know.
func (t *Table[T]) encodeOver(ctx context.Context, e *T, k Key, stored *raw) ([]byte, error) {
	if stored.etag == "" {
		return nil, errors.New("the service sent no ETag")
	}
	w, err := t.newWriter(ctx, k, nil)
	if err != nil {
		return nil, err
	}
	v := reflect.ValueOf(e).Elem()
	if err := t.codec.encode(v, w); err != nil {
		return nil, err
	}
	for _, p := range stored.properties {
		if t.knows(v, p.name) {
			continue
		}
		if !p.decrypted {
			w.raw(p)
		} else if err := w.encrypted(p.name, p.edm, p.value); err != nil {
			return nil, err
		}
	}
	return w.done()
}

// knows reports whether the type of a value has a place for a property.
func (t *Table[T]) knows(v reflect.Value, name string) bool {
	if name == metadata1 || name == metadata2 {
		return true
	}
	c := t.codec
	if u, ok := c.(*unionCodec); ok {
		inner, _, err := u.inner(v)
		if err != nil {
			return true
		}
		c = inner
	}
	s, ok := c.(*structCodec)
	if !ok {
		return true // An Entity has all properties.
	}
	_, known := s.byName[name]
	return known || s.kind != "" && typeProperty == name
}

func pause(ctx context.Context, try int) error {
	most := min(maxPause, firstPause<<min(try, 10))
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
