package workerproc

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/roles/tableindex"
)

func (s *Roles) tableIndex(ctx context.Context) error {
	c := s.Config
	switch {
	case c.IndexBy == "":
		return console.Usagef("table-index-by is missing: the property by which the table is made")
	case strings.EqualFold(c.IndexFrom, c.IndexTo):
		return console.Usagef("table-index-from and table-index-to are the same table")
	}
	role, err := tableindex.New(s.Storage, c.IndexFrom, c.IndexTo, indexProjection(c.IndexKind, c.IndexBy))
	if err != nil {
		return err
	}
	err = s.needs(ctx, func(ctx context.Context) error {
		_, err1 := s.Storage.Tables.CreateTable(ctx, c.IndexFrom, nil)
		_, err2 := s.Storage.Tables.CreateTable(ctx, c.IndexTo, nil)
		return s.made(err1, err2)
	})
	if err != nil {
		return err
	}
	name := "table-index-" + c.IndexFrom + "-" + c.IndexTo // roles with other tables have positions and locks of their own
	role.Register(s.App, name)
	return nil
}

// indexProjection returns what the table-index role keeps. Entities without a usable value of the property are in no
// target.
func indexProjection(kind, by string) tableindex.Projection {
	switch kind {
	case "lists":
		return tableindex.Lists(func(e *tables.Entity) (tables.Key, bool) {
			value, ok := indexKey(e, by)
			return tables.Key{PartitionKey: value, RowKey: "keys"}, ok
		})
	case "counts":
		return tableindex.Counts(func(e *tables.Entity) (tables.Key, bool) {
			return tables.Key{PartitionKey: e.PartitionKey, RowKey: "counts"}, e.PartitionKey != ""
		}, func(k tables.Key) []tables.Expr { return []tables.Expr{tables.PartitionKey.Eq(k.PartitionKey)} },
			func(e *tables.Entity) string { return countName(e, by) })
	}
	return tableindex.Copies(func(e *tables.Entity) (tables.Key, bool) {
		value, ok := indexKey(e, by)
		row := escapeKey(e.PartitionKey) + " " + escapeKey(e.RowKey)
		return tables.Key{PartitionKey: value, RowKey: row}, ok && keyFits(row)
	})
}

// maxKeyUnits is the maximum length of a key in UTF-16 code units: 1 KiB.
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#partitionkey-property
const maxKeyUnits = 512

func keyFits(key string) bool { return len(utf16.Encode([]rune(key))) <= maxKeyUnits }

// indexKey returns the value of a property as a key, and false if there is no value, or one that is too long.
func indexKey(e *tables.Entity, property string) (string, bool) {
	text, ok := valueText(e, property)
	key := escapeKey(text)
	return key, ok && key != "" && keyFits(key)
}

// escapeKey replaces the characters that keys cannot have, the space that separates keys, and "~" itself by "~" and
// four hexadecimal digits.
func escapeKey(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) || strings.ContainsRune(`/\#?%~ `, r) {
			fmt.Fprintf(&b, "~%04X", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// valueText returns a value as text; false if the entity lacks the property, or its type has no order that people read.
func valueText(e *tables.Entity, property string) (string, bool) {
	switch v := e.Properties[property].(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int32:
		return strconv.FormatInt(int64(v), 10), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uuid.UUID:
		return v.String(), true
	}
	return "", false
}

// maxCountName is the maximum length of what names a count, so that the property's name is not too long.
const maxCountName = 200

// countName returns the value of a property as part of a property's name: characters other than letters and digits
// become "_" and four hexadecimal digits. Entities without a value, or with one that is too long, count as Other.
func countName(e *tables.Entity, property string) string {
	text, ok := valueText(e, property)
	if !ok {
		return "Other"
	}
	var b strings.Builder
	b.WriteByte('_')
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "_%04X", r)
		}
	}
	if len(utf16.Encode([]rune(b.String()))) > maxCountName {
		return "Other"
	}
	return b.String()
}
