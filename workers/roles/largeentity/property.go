package largeentity

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
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

const typeSuffix = "@odata.type"

// property is one property of an entity.
type property struct {
	name string
	edm  string          // "" where JSON says the type
	json json.RawMessage // the value in the service's format
	// size is the value's size as the service counts it, in bytes.
	size int
	// content is the content of the property's blob, for strings and binaries.
	content []byte
	movable bool
}

// cost is the number of bytes that a property adds to its entity's size.
func (p property) cost() int { return 8 + 2*len(p.name) + p.size + 4 }

// text makes a string property. The service counts UTF-16.
func text(name, s string) (property, error) {
	units := 0
	for _, r := range s {
		units++
		if r > 0xFFFF {
			units++
		}
	}
	if !utf8.ValidString(s) {
		return property{}, fmt.Errorf("largeentity: the text of %s is not valid UTF-8; use []byte", name)
	}
	value, err := json.Marshal(s)
	return property{name: name, json: value, size: 2 * units, content: []byte(s), movable: true}, err
}

// split decides which properties go to blobs: those beyond limit, and then the biggest ones until the rest fits an entity.
func split(k Key, all []property, limit int) (small, large []property, err error) {
	total := 4 + 4*(len(k.PartitionKey)+len(k.RowKey)) + reserve
	for _, p := range all {
		switch {
		case p.movable && p.size > limit:
			large = append(large, p)
		case p.size > maxProperty:
			return nil, nil, fmt.Errorf("%w: the property %s has %d bytes", ErrTooLarge, p.name, p.size)
		default:
			small = append(small, p)
			total += p.cost()
		}
	}
	for total+pointerCost(len(large)) > maxEntity {
		biggest := -1
		for i, p := range small {
			if p.movable && (biggest < 0 || p.size > small[biggest].size) {
				biggest = i
			}
		}
		if biggest < 0 || small[biggest].cost() <= partCost {
			return nil, nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, total)
		}
		total -= small[biggest].cost()
		large = append(large, small[biggest])
		small = slices.Delete(small, biggest, biggest+1)
	}
	if len(small)+1 > maxCount {
		return nil, nil, fmt.Errorf("%w: %d properties", ErrTooLarge, len(all))
	}
	return small, large, nil
}

// fields are an entity in the service's JSON.
type fields map[string]json.RawMessage

func newFields(k Key) fields {
	f := fields{}
	f.setText("PartitionKey", k.PartitionKey)
	f.setText("RowKey", k.RowKey)
	return f
}

func (f fields) setText(name, s string) {
	value, err := json.Marshal(s)
	if err != nil {
		panic(err) // A string always marshals.
	}
	f[name] = value
}

func (f fields) set(p property) {
	f[p.name] = p.json
	if p.edm != "" {
		f.setText(p.name+typeSuffix, p.edm)
	}
}
