package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/tables"
)

type patient struct {
	PartitionKey, RowKey string
	Ward                 string
	Name                 string     `table:",encrypt"`
	Diagnosis            *string    `table:",encrypt"`
	Born                 *time.Time `table:",encrypt"`
	Weight               float64    `table:",encrypt"`
	Case                 uuid.UUID  `table:",encrypt"`
}

type letter struct {
	PartitionKey, RowKey string
	Subject              string
	Text                 string `table:",encrypt"`
}

func aesKey(t testing.TB, id string, b byte) tables.KeyWrapper {
	t.Helper()
	k, err := tables.NewAESKey(id, bytes.Repeat([]byte{b}, 32))
	ok(t, err)
	return k
}

func encrypted(e tables.Encryption) tables.Option { return tables.WithEncryption(e) }

func TestEncryptedPropertiesAreHidden(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	table := newTable[patient](t, service, "Patients", encrypted(tables.Encryption{Key: aesKey(t, "k1", 1)}))
	plain := newTable[tables.Entity](t, service, "Patients")
	ctx := t.Context()
	born, diagnosis := time.Date(1815, 12, 10, 0, 0, 0, 0, time.UTC), "secret-diagnosis"
	want := patient{"ward 1", "7", "ward 1", "Ada Lovelace", &diagnosis, &born, 61.5, uuid.New()}
	ok(t, table.Insert(ctx, &want))
	key := tables.Key{PartitionKey: "ward 1", RowKey: "7"}
	stored, err := plain.Get(ctx, key)
	ok(t, err)
	if text := fmt.Sprint(stored.Properties); strings.Contains(text, "Ada") || strings.Contains(text, "secret") ||
		!strings.Contains(text, "ward 1") {
		t.Errorf("stored %s", text)
	}
	got, err := table.Get(ctx, key)
	ok(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if all := collect(t, table.Query(tables.PartitionKey.Eq("ward 1"))); len(all) != 1 || all[0].Name != want.Name {
		t.Errorf("query %+v", all)
	}
	type name struct {
		Name string `table:",encrypt"`
	}
	q, err := tables.Project[name](table.Query(tables.PartitionKey.Eq("ward 1")))
	ok(t, err)
	if all := collect(t, q); len(all) != 1 || all[0].Name != want.Name {
		t.Errorf("projection %+v", all)
	}
	// Two writes of the same value have nothing in common.
	first := stored.Properties["Name"].([]byte)
	ok(t, table.Update(ctx, key, func(p *patient) error { p.Diagnosis = nil; return nil }))
	stored, err = plain.Get(ctx, key)
	ok(t, err)
	if bytes.Equal(first, stored.Properties["Name"].([]byte)) {
		t.Error("the same ciphertext after another write")
	}
	if got, err := table.Get(ctx, key); err != nil || got.Name != want.Name || got.Diagnosis != nil {
		t.Errorf("after the update: %+v, %v", got, err)
	}
	_, err = table.Query(tables.PartitionKey.Eq("ward 1"), tables.Field("Name").Eq("Ada")).Plan()
	says(t, err, "encrypted")
	says(t, table.Merge(ctx, &want), "merged")
	says(t, table.InsertOrMerge(ctx, &want, "Ward"), "merged")
}

// Whatever a client with access to the table does to an encrypted entity is noticed.
func TestTamperingIsNoticed(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	one := encrypted(tables.Encryption{Key: aesKey(t, "k1", 1)})
	table := newTable[patient](t, service, "Ward", one)
	other := newTable[patient](t, service, "Morgue", one)
	plain, plainOther := newTable[tables.Entity](t, service, "Ward"), newTable[tables.Entity](t, service, "Morgue")
	ctx := t.Context()
	text := "ill"
	for _, row := range []string{"1", "2"} {
		ok(t, table.Insert(ctx, &patient{"p", row, "w", "name " + row, &text, nil, 1, uuid.UUID{}}))
	}
	get := func(row string) tables.Entity {
		e, err := plain.Get(ctx, tables.Key{PartitionKey: "p", RowKey: row})
		ok(t, err)
		e.Properties = maps.Clone(e.Properties)
		return e
	}
	original, second := get("1"), get("2")
	flip := func(name string, at int) func(*tables.Entity) {
		return func(e *tables.Entity) {
			b := slices.Clone(e.Properties[name].([]byte))
			b[at%len(b)] ^= 1
			e.Properties[name] = b
		}
	}
	replace := func(name string, value any) func(*tables.Entity) {
		return func(e *tables.Entity) { e.Properties[name] = value }
	}
	edit := func(from, to string) func(*tables.Entity) {
		return func(e *tables.Entity) {
			old := e.Properties["_ClientEncryptionMetadata1"].(string)
			e.Properties["_ClientEncryptionMetadata1"] = strings.ReplaceAll(old, from, to)
			if old == e.Properties["_ClientEncryptionMetadata1"] {
				t.Errorf("%q is not in %s", from, old)
			}
		}
	}
	cases := map[string]struct {
		change func(*tables.Entity)
		want   error
	}{
		"value":                     {flip("Name", 20), tables.ErrTampered},
		"nonce":                     {flip("Name", 0), tables.ErrTampered},
		"list of names":             {flip("_ClientEncryptionMetadata2", 5), tables.ErrTampered},
		"value of another entity":   {replace("Name", second.Properties["Name"]), tables.ErrTampered},
		"value of another property": {replace("Name", original.Properties["Diagnosis"]), tables.ErrTampered},
		"all of another entity":     {func(e *tables.Entity) { e.Properties = second.Properties }, tables.ErrTampered},
		"property removed":          {replace("Diagnosis", nil), tables.ErrTampered},
		"plain text in its place":   {replace("Name", "mallory"), tables.ErrNotEncrypted},
		"metadata removed": {func(e *tables.Entity) { e.Properties["_ClientEncryptionMetadata1"] = nil },
			tables.ErrEnvelope},
		"all metadata removed": {func(e *tables.Entity) { e.Properties = map[string]any{"Name": "mallory"} },
			tables.ErrNotEncrypted},
		"other protocol": {edit(`"lazuli-1"`, `"1.0"`), tables.ErrEnvelope},
		"other protocol and cipher": {func(
			e *tables.Entity) {
			edit(`"lazuli-1"`, `"1.0"`)(e)
			edit("AES_GCM", "AES_CBC")(e)
		}, tables.ErrEnvelope},
		"other key id":   {edit(`"k1"`, `"k2"`), tables.ErrNoKey},
		"other wrapping": {edit("A256KW", "none"), tables.ErrTampered},
		"other initialization vector": {edit(`"ContentEncryptionIV":"`,
			`"ContentEncryptionIV":"AAAAAAAAAAAAAAAAAAAAAA==","X":"`), tables.ErrTampered},
	}
	for name, c := range cases {
		e := original
		e.Properties = maps.Clone(original.Properties)
		e.ETag = ""
		c.change(&e)
		ok(t, plain.Replace(ctx, &e))
		if got, err := table.Get(ctx, tables.Key{PartitionKey: "p", RowKey: "1"}); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v; want %v", name, got, err, c.want)
		}
	}
	// Moved to another table, under the same keys.
	moved := second
	ok(t, plainOther.Insert(ctx, &moved))
	if got, err := other.Get(ctx, tables.Key{PartitionKey: "p", RowKey: "2"}); !errors.Is(err, tables.ErrTampered) {
		t.Errorf("moved to another table: %+v, %v", got, err)
	}
	wrong := newTable[patient](t, service, "Ward", encrypted(tables.Encryption{Key: aesKey(t, "k1", 9)}))
	if _, err := wrong.Get(ctx, tables.Key{PartitionKey: "p", RowKey: "2"}); !errors.Is(err, tables.ErrTampered) {
		t.Errorf("wrong key under the same id: %v", err)
	}
	none := newTable[patient](t, service, "Ward", encrypted(tables.Encryption{Key: aesKey(t, "k3", 1)}))
	if _, err := none.Get(ctx, tables.Key{PartitionKey: "p", RowKey: "2"}); !errors.Is(err, tables.ErrNoKey) {
		t.Errorf("another id: %v", err)
	}
}

func TestAzureCompatibleMode(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	key := aesKey(t, "k1", 1)
	table := newTable[letter](t, service, "Letters", encrypted(tables.Encryption{Key: key, Mode: tables.AzureCompatible}))
	ctx := t.Context()
	want := letter{"p", "1", "hello", "Grüße 🙂"}
	ok(t, table.Insert(ctx, &want))
	at := tables.Key{PartitionKey: "p", RowKey: "1"}
	if got, err := table.Get(ctx, at); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	strict := newTable[letter](t, service, "Letters", encrypted(tables.Encryption{Key: key}))
	if _, err := strict.Get(ctx, at); !errors.Is(err, tables.ErrEnvelope) {
		t.Errorf("Azure's format where it is not expected: %v", err)
	}
	moving := newTable[letter](t, service, "Letters", encrypted(tables.Encryption{Key: key, ReadAzure: true}))
	if n, err := moving.Rotate(ctx); n != 1 || err != nil {
		t.Errorf("moved %d to the authenticated mode, %v", n, err)
	}
	if got, err := strict.Get(ctx, at); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	_, err := tables.New[patient](service, "Patients",
		encrypted(tables.Encryption{Key: key, Mode: tables.AzureCompatible}))
	says(t, err, "text only")
}

func TestRotation(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	old, next := aesKey(t, "2025", 1), aesKey(t, "2026", 2)
	ring := map[string]tables.KeyWrapper{"2025": old, "2026": next}
	resolve := func(_ context.Context, id string) (tables.KeyWrapper, error) {
		if k, found := ring[id]; found {
			return k, nil
		}
		return nil, errors.New("gone")
	}
	before := newTable[letter](t, service, "Rotated", encrypted(tables.Encryption{Key: old}))
	after := newTable[letter](t, service, "Rotated", encrypted(tables.Encryption{Key: next, Resolve: resolve}))
	ctx := t.Context()
	for i := range 5 {
		ok(t, before.Insert(ctx, &letter{"p", fmt.Sprint(i), "s", fmt.Sprint("text ", i)}))
	}
	ok(t, after.Insert(ctx, &letter{"p", "9", "s", "text 9"}))
	if n, err := after.Rotate(ctx); n != 5 || err != nil {
		t.Fatalf("rotated %d, %v", n, err)
	}
	if n, err := after.Rotate(ctx); n != 0 || err != nil {
		t.Errorf("rotated %d again, %v", n, err)
	}
	delete(ring, "2025")
	for _, l := range collect(t, after.Query(tables.PartitionKey.Eq("p"))) {
		if l.Text != "text "+l.RowKey {
			t.Errorf("%+v", l)
		}
	}
	if _, err := before.Get(ctx, tables.Key{PartitionKey: "p", RowKey: "1"}); !errors.Is(err, tables.ErrNoKey) {
		t.Errorf("the old key still reads: %v", err)
	}
}

func TestEncryptedDynamicEntity(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	table := newTable[tables.Entity](t, service, "Dynamic",
		encrypted(tables.Encryption{Key: aesKey(t, "k1", 1), Properties: []string{"Secret", "Number"}}))
	ctx := t.Context()
	want := map[string]any{"Secret": "s", "Number": int64(5), "Open": "o"}
	ok(t, table.Insert(ctx, &tables.Entity{PartitionKey: "p", RowKey: "1", Properties: want}))
	got, err := table.Get(ctx, tables.Key{PartitionKey: "p", RowKey: "1"})
	ok(t, err)
	if d := cmp.Diff(want, got.Properties); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
