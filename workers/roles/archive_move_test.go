package roles_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
)

// secret has an encrypted property.
type secret struct {
	PartitionKey, RowKey string
	Open                 string
	Salary               float64 `table:",encrypt"`
}

// An entity with encrypted properties is encrypted for the archive, or stays where it is.
func TestEncryptedEntities(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	wrap, err := tables.NewAESKey("k", make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	keys := tables.Encryption{Key: wrap}
	open := func(name string) *tables.Table[secret] {
		t.Helper()
		table, err := tables.New[secret](s.Tables, name, tables.WithEncryption(keys))
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	e := secret{"p", "r", "open", 5}
	if err := open(s.current).Insert(t.Context(), &e); err != nil {
		t.Fatal(err)
	}
	k := archive.Key{PartitionKey: "p", RowKey: "r"}
	if err := s.role.Archive(t.Context(), k); !errors.Is(err, archive.ErrEncrypted) ||
		!strings.Contains(err.Error(), "key") {
		t.Errorf("without a key: %v", err)
	}
	if got, err := open(s.current).Get(t.Context(), tables.Key(k)); err != nil || got.Salary != 5 {
		t.Errorf("after the refusal: %+v, %v", got, err)
	}
	if _, err := open(s.archive).Get(t.Context(), tables.Key(k)); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("the refused entity was copied: %v", err)
	}
	target, err := archive.Table(s.Storage, s.archive)
	if err != nil {
		t.Fatal(err)
	}
	role, err := archive.New(s.Storage, s.current, target, archive.WithEncryption(keys))
	if err != nil {
		t.Fatal(err)
	}
	if err := role.Archive(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if got, err := open(s.archive).Get(t.Context(), tables.Key(k)); err != nil || got != e {
		t.Errorf("in the archive: %+v, %v", got, err)
	}
	if _, err := open(s.current).Get(t.Context(), tables.Key(k)); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("in the source: %v", err)
	}
}

// Without its container, a large entity is not moved: the sweeper would remove its blobs.
func TestLargeEntitiesAreRefused(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	type page struct{ Text string }
	container := s.Container("pages")
	store, err := largeentity.New[page](s.Storage, s.current, container)
	if err != nil {
		t.Fatal(err)
	}
	k := archive.Key{PartitionKey: "p", RowKey: "r"}
	if _, err := store.Put(t.Context(), largeentity.Key(k), page{strings.Repeat("x", 100_000)}); err != nil {
		t.Fatal(err)
	}
	if err := s.role.Archive(t.Context(), k); !errors.Is(err, archive.ErrLarge) {
		t.Error(err)
	}
	if got, err := store.Get(t.Context(), largeentity.Key(k)); err != nil || len(got.Value.Text) != 100_000 {
		t.Errorf("after the refusal: %v", err)
	}
	target, err := archive.Table(s.Storage, s.archive)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := archive.New(s.Storage, s.current, target, archive.WithLargeEntities(container)); err == nil ||
		!strings.Contains(err.Error(), "LargeTable") {
		t.Error(err)
	}
}
