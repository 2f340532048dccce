package largeentity

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/tables"
)

// The Table service's limits.
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model
const (
	maxProperty = 64 << 10
	maxEntity   = 1 << 20
	maxCount    = 252
	// reserve is left free in an entity, for what the service adds.
	reserve = 1 << 10
)

// The types of properties that can be in a blob.
const (
	edmString = "Edm.String"
	edmBinary = "Edm.Binary"
)

// property is one property of an entity.
type property struct {
	name  string
	value any
	// size is the value's size as the service counts it, in bytes.
	size int
}

// movable reports whether the property can be in a blob.
func (p property) movable() bool { return p.edm() != "" }

// edm returns the type of a property that can be in a blob, and "" for others.
func (p property) edm() string {
	switch p.value.(type) {
	case string:
		return edmString
	case []byte:
		return edmBinary
	}
	return ""
}

// content returns the content of the property's blob.
func (p property) content() []byte {
	switch v := p.value.(type) {
	case string:
		return []byte(v)
	case []byte:
		return v
	}
	return nil
}

// cost is the number of bytes that a property adds to its entity's size.
func (p property) cost() int { return 8 + 2*len(p.name) + p.size + 4 }

// sizeOf returns the size of a value as the service counts it. Text is UTF-16.
func sizeOf(value any) int {
	switch v := value.(type) {
	case string:
		units := 0
		for _, r := range v {
			units++
			if r > 0xFFFF {
				units++
			}
		}
		return 2 * units
	case []byte:
		return len(v)
	case bool:
		return 1
	case int32:
		return 4
	case uuid.UUID:
		return 16
	}
	return 8
}

// propertiesOf returns the properties of an entity in the order of their names.
func propertiesOf(e tables.Entity) []property {
	all := make([]property, 0, len(e.Properties))
	for _, name := range slices.Sorted(maps.Keys(e.Properties)) {
		all = append(all, property{name, e.Properties[name], sizeOf(e.Properties[name])})
	}
	return all
}

// split decides which properties go to blobs: those beyond limit, and then the biggest ones until the rest fits an
// entity.
func split(k Key, all []property, limit int) (small, large []property, err error) {
	// The size by Azure's formula, with room for the property that holds the pointers.
	total := 4 + 4*(len(k.PartitionKey)+len(k.RowKey)) + reserve
	for _, p := range all {
		switch {
		case p.movable() && p.size > limit:
			large = append(large, p)
		case p.size > maxProperty:
			return nil, nil, fmt.Errorf("%w: the property %s has %d bytes", ErrTooLarge, p.name, p.size)
		default:
			small = append(small, p)
			total += p.cost()
		}
	}
	// Each part that moves out makes the pointers longer, so the sum is compared again.
	for total+pointerCost(len(large)) > maxEntity {
		biggest := -1
		for i, p := range small {
			if p.movable() && (biggest < 0 || p.size > small[biggest].size) {
				biggest = i
			}
		}
		// Nothing is left that would gain: moving a property that is smaller than its pointer makes the entity larger.
		if biggest < 0 || small[biggest].cost() <= partCost {
			return nil, nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, total)
		}
		total -= small[biggest].cost()
		large = append(large, small[biggest])
		small = slices.Delete(small, biggest, biggest+1)
	}
	// One more: the property with the pointers.
	if len(small)+1 > maxCount {
		return nil, nil, fmt.Errorf("%w: %d properties", ErrTooLarge, len(all))
	}
	return small, large, nil
}

// newEntity returns an entity without properties.
func newEntity(k Key) tables.Entity {
	return tables.Entity{PartitionKey: k.PartitionKey, RowKey: k.RowKey, Properties: map[string]any{}}
}
