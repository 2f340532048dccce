package tables

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// raw is an entity as the service sent it.
type raw struct {
	key        Key
	etag       azcore.ETag
	timestamp  time.Time
	properties []rawProperty
}

// rawProperty is a property with its value in JSON. A null is not a property.
type rawProperty struct {
	name      string
	edm       edm
	value     []byte
	decrypted bool // the value was encrypted, and is plain now
}

// reader reads entities; it reuses its memory, so that a raw is valid until the next one is read.
type reader struct {
	members []member
	raw     raw
}

// read reads one entity.
func (r *reader) read(b []byte) (*raw, error) {
	var err error
	if r.members, err = appendMembers(r.members[:0], b); err != nil {
		return nil, err
	}
	e := &r.raw
	*e = raw{properties: e.properties[:0]}
	for i, m := range r.members {
		if err := r.member(i, m); err != nil {
			return nil, fmt.Errorf("property %s: %w", m.name, err)
		}
	}
	return e, nil
}

func (r *reader) member(i int, m member) (err error) {
	e := &r.raw
	switch m.name {
	case partitionKey:
		e.key.PartitionKey, err = nullable(m.value)
		return err
	case rowKey:
		e.key.RowKey, err = nullable(m.value)
		return err
	case timestamp:
		if m.value[0] == '"' {
			e.timestamp, err = parseTime(m.value)
		}
		return err
	case etagMember:
		text, err := unquote(m.value)
		e.etag = azcore.ETag(text)
		return err
	}
	// A null is an absent property: a projection answers it for each property that the entity does not have.
	// Annotations are read with the property that they are of.
	if m.value[0] == 'n' || strings.HasSuffix(m.name, typeSuffix) || strings.HasPrefix(m.name, "odata.") {
		return nil
	}
	t, err := r.typeOf(i, m)
	e.properties = append(e.properties, rawProperty{name: m.name, edm: t, value: m.value})
	return err
}

// nullable reads a key: one that a projection leaves out is null.
func nullable(b []byte) (string, error) {
	if b[0] == 'n' {
		return "", nil
	}
	return unquote(b)
}

// typeOf returns the type of the member at i: by its annotation, which is its neighbour as a rule, or as its JSON tells
// it.
// https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations#property-types-in-a-json-feed
func (r *reader) typeOf(i int, m member) (edm, error) {
	// Azure and Lazuli write the annotation before its property, others after it. The loop over all is for the rest:
	// it would take the square of the number of properties for each entity.
	if i > 0 && annotates(r.members[i-1].name, m.name) {
		return parseType(r.members[i-1].value)
	}
	if i+1 < len(r.members) && annotates(r.members[i+1].name, m.name) {
		return parseType(r.members[i+1].value)
	}
	for _, other := range r.members {
		if annotates(other.name, m.name) {
			return parseType(other.value)
		}
	}
	switch m.value[0] {
	case '"':
		return edmString, nil
	case 't', 'f':
		return edmBoolean, nil
	case '{', '[':
		return "", errJSON
	}
	// Numbers of the other types are sent as text with an annotation.
	if bytes.ContainsAny(m.value, ".eE") {
		return edmDouble, nil
	}
	return edmInt32, nil
}

func annotates(annotation, name string) bool {
	return len(annotation) == len(name)+len(typeSuffix) && strings.HasPrefix(annotation, name) &&
		strings.HasSuffix(annotation, typeSuffix)
}

var knownTypes = []edm{edmString, edmBoolean, edmInt32, edmInt64, edmDouble, edmDateTime, edmGUID, edmBinary}

func parseType(b []byte) (edm, error) {
	for _, t := range knownTypes {
		if len(b) == len(t)+2 && string(b[1:len(b)-1]) == string(t) {
			return t, nil
		}
	}
	return "", fmt.Errorf("the unknown type %s", b)
}
