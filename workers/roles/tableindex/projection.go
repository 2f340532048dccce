package tableindex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
)

// Table is a table whose properties the role does not know.
type Table = tables.Table[tables.Entity]

// Projection defines the content of the target table. [Copies], [Lists] and [Counts] return common projections.
type Projection struct {
	// Target returns the target that an entity of the source belongs to, or false if it belongs to none. It must depend on
	// the entity alone.
	Target func(e *tables.Entity) (tables.Key, bool)
	// Build returns the new target, or nil to delete it. old is the current target, or nil. now is the current entity of
	// the source under key, or nil if it does not exist or does not belong to the target. Build may read the source, and
	// may be called again.
	Build func(ctx context.Context, source *Table, target tables.Key, old *tables.Entity, key tables.Key,
		now *tables.Entity) (*tables.Entity, error)
	// Sources returns the keys of the source that a target was made of, as far as it has noted them.
	Sources func(target *tables.Entity) ([]tables.Key, error)
	// Whole says that Build looks at neither old nor now, but at the source alone, so that Verify calls it once for each
	// target.
	Whole bool
}

// The properties of a copy that have the keys of its source.
const (
	SourcePartition = "SourcePartitionKey"
	SourceRow       = "SourceRowKey"
)

// ErrEncrypted means that an entity has encrypted properties, which are bound to its table and keys: a copy of them
// could not be read.
var ErrEncrypted = errors.New("tableindex: an entity with encrypted properties cannot be copied")

// Copies makes a copy of each entity under the key that target returns (inter-partition secondary index). Two entities
// must not have the same one. An entity with encrypted properties is refused with [ErrEncrypted]. Copies lack the
// properties that package largeentity keeps in blobs, which belong to the source.
func Copies(target func(e *tables.Entity) (tables.Key, bool)) Projection {
	return Projection{
		Target: target,
		Build: func(_ context.Context, _ *Table, k tables.Key, old *tables.Entity, key tables.Key,
			now *tables.Entity) (*tables.Entity, error) {
			if now == nil {
				if old != nil && !isCopyOf(old, key) {
					return old, nil // Another entity has the key by now.
				}
				return nil, nil
			}
			if tables.Encrypted(now) {
				return nil, workers.Permanent(fmt.Errorf("%w: (%q, %q)", ErrEncrypted, key.PartitionKey, key.RowKey))
			}
			p := maps.Clone(now.Properties)
			delete(p, largeentity.PointerProperty)
			p[SourcePartition], p[SourceRow] = key.PartitionKey, key.RowKey
			return &tables.Entity{PartitionKey: k.PartitionKey, RowKey: k.RowKey, Properties: p}, nil
		},
		Sources: func(e *tables.Entity) ([]tables.Key, error) {
			partition, err := tables.Value[string](e, SourcePartition)
			if err != nil {
				return nil, err
			}
			row, err := tables.Value[string](e, SourceRow)
			return []tables.Key{{PartitionKey: partition, RowKey: row}}, err
		},
	}
}

// ofEntities returns target for the rows that are entities: a reservation of package largeentity is not.
func ofEntities(target func(e *tables.Entity) (tables.Key, bool)) func(e *tables.Entity) (tables.Key, bool) {
	return func(e *tables.Entity) (tables.Key, bool) {
		if largeentity.Reserved(e) {
			return tables.Key{}, false
		}
		return target(e)
	}
}

func isCopyOf(e *tables.Entity, k tables.Key) bool {
	return e.Properties[SourcePartition] == k.PartitionKey && e.Properties[SourceRow] == k.RowKey
}

// Keys is the property of a list with its keys.
const Keys = "Keys"

// Lists makes an entity for each value that target returns, with the list of the keys of the entities that have it
// (index entities). A list has room for 32 Ki characters, some hundreds of keys: the write of a longer one fails.
func Lists(target func(e *tables.Entity) (tables.Key, bool)) Projection {
	return Projection{
		Target: target,
		Build: func(_ context.Context, _ *Table, k tables.Key, old *tables.Entity, key tables.Key,
			now *tables.Entity) (*tables.Entity, error) {
			var list []tables.Key
			if old != nil {
				var err error
				if list, err = ReadList(old); err != nil {
					return nil, err
				}
			}
			list = slices.DeleteFunc(list, func(other tables.Key) bool { return other == key })
			if now != nil {
				list = append(list, key)
				slices.SortFunc(list, compareKeys)
			}
			// An empty list stays: its ETag makes late attempts fail.
			text, err := json.Marshal(list)
			return &tables.Entity{PartitionKey: k.PartitionKey, RowKey: k.RowKey,
				Properties: map[string]any{Keys: string(text), "Count": int32(len(list))}}, err
		},
		Sources: ReadList,
	}
}

// ReadList returns the keys of an entity that Lists made.
func ReadList(e *tables.Entity) (list []tables.Key, err error) {
	text, err := tables.Value[string](e, Keys)
	if err == nil {
		err = json.Unmarshal([]byte(text), &list)
	}
	if err != nil {
		return nil, fmt.Errorf("the list (%q, %q): %w", e.PartitionKey, e.RowKey, err)
	}
	return list, nil
}

// Counts makes an entity for each group of the source, with the number of its entities by kind (materialised view). It
// counts the whole group for each change, so that a change that is delivered twice counts once; members must be a range
// or a partition for that to be cheap. The properties are the kinds, with the prefix "Count"; kind must return letters,
// digits and underscores only.
func Counts(group func(e *tables.Entity) (tables.Key, bool), members func(target tables.Key) []tables.Expr,
	kind func(e *tables.Entity) string) Projection {
	group = ofEntities(group)
	return Projection{
		Target: group,
		Build: func(ctx context.Context, source *Table, k tables.Key, _ *tables.Entity, _ tables.Key,
			_ *tables.Entity) (*tables.Entity, error) {
			counts := map[string]any{"Count": int64(0)}
			for e, err := range source.Query(members(k)...).All(ctx) {
				if err != nil {
					return nil, err
				}
				if of, ok := group(&e); !ok || of != k {
					continue
				}
				for _, name := range []string{"Count", "Count" + kind(&e)} {
					n, _ := counts[name].(int64)
					counts[name] = n + 1
				}
			}
			return &tables.Entity{PartitionKey: k.PartitionKey, RowKey: k.RowKey, Properties: counts}, nil
		},
		Sources: func(*tables.Entity) ([]tables.Key, error) { return []tables.Key{{}}, nil },
		Whole:   true,
	}
}

func compareKeys(a, b tables.Key) int {
	return cmp.Or(cmp.Compare(a.PartitionKey, b.PartitionKey), cmp.Compare(a.RowKey, b.RowKey))
}
