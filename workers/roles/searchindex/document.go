package searchindex

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/blevesearch/bleve/v2/mapping"
	index "github.com/blevesearch/bleve_index_api"

	"github.com/lazuli-storage/lazuli/tables"
)

// keySeparator stands between PartitionKey and RowKey in the ID of a document. Keys cannot contain it.
const keySeparator = "\x00"

func documentID(k tables.Key) string { return k.PartitionKey + keySeparator + k.RowKey }

func parseDocumentID(id string) tables.Key {
	partition, row, _ := strings.Cut(id, keySeparator)
	return tables.Key{PartitionKey: partition, RowKey: row}
}

// newMapping returns the mapping of an index with only these fields.
func newMapping(fields []Field) mapping.IndexMapping {
	document := mapping.NewDocumentStaticMapping()
	for _, f := range fields {
		document.AddFieldMappingsAt(f.Name, fieldMapping(f))
	}
	m := mapping.NewIndexMapping()
	m.DefaultMapping = document
	// Without this bleve would index properties that the configuration does not name, which changes what searches without
	// a field find, and lets any writer of the table add fields.
	m.IndexDynamic, m.StoreDynamic, m.DocValuesDynamic = false, false, false
	return m
}

func fieldMapping(f Field) *mapping.FieldMapping {
	var m *mapping.FieldMapping
	switch f.Type {
	case Text:
		return mapping.NewTextFieldMapping()
	case Number:
		m = mapping.NewNumericFieldMapping()
	case Date:
		m = mapping.NewDateTimeFieldMapping()
	default:
		m = mapping.NewKeywordFieldMapping()
	}
	// A search without a field name searches text fields alone: a number or keyword in it would match words by chance.
	m.IncludeInAll = false
	return m
}

// document returns the values of an entity that are indexed, by field.
func document(fields []Field, e *tables.Entity) map[string]any {
	d := make(map[string]any, len(fields))
	for _, f := range fields {
		if v := f.value(e); v != nil {
			d[f.Name] = v
		}
	}
	return d
}

// document returns the values of a document of the index by field, or nil if it does not exist.
func (g *generation) document(id string) (map[string]any, error) {
	if g == nil {
		return nil, nil
	}
	// The stored fields are compared with those of the entity, so they come back as the types that Field.value returns.
	d, err := g.index.Document(id)
	if err != nil || d == nil {
		return nil, err
	}
	values := map[string]any{}
	d.VisitFields(func(f index.Field) {
		var v any
		var fieldErr error
		switch f := f.(type) {
		case index.NumericField:
			v, fieldErr = f.Number()
		case index.DateTimeField:
			var t time.Time
			t, _, fieldErr = f.DateTime()
			v = t.UTC()
		case index.TextField:
			v = f.Text()
		}
		if fieldErr != nil && err == nil {
			err = fmt.Errorf("field %s: %w", f.Name(), fieldErr)
		}
		values[f.Name()] = v
	})
	// bleve stores the ID as a field, which no entity has: with it no document would be equal.
	delete(values, "_id")
	return values, err
}

// sameDocument compares values of documents. Times are equal if they are the same moment.
func sameDocument(a, b map[string]any) bool {
	return maps.EqualFunc(a, b, func(v, w any) bool {
		if t, ok := v.(time.Time); ok {
			u, ok := w.(time.Time)
			return ok && t.Equal(u)
		}
		return v == w
	})
}
