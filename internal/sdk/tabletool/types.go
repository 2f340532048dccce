package tabletool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/tables"
)

// sampled is the number of entities that TypeHints looks at.
const sampled = 200

// TypeHints names the comparisons of a filter whose constant has another type than the property has in the first
// entities of the table: they match none of them, without an error.
func TypeHints(ctx context.Context, service *aztables.ServiceClient, table, filter string) (hints []string, err error) {
	found := comparisons(filter)
	if len(found) == 0 {
		return nil, nil
	}
	t, err := tables.New[tables.Entity](service, table)
	if err != nil {
		return nil, err
	}
	stored := map[string]map[string]bool{} // types by property
	for e, err := range t.Query().AllowScan().Limit(sampled).All(ctx) {
		if err != nil {
			return nil, err
		}
		for name, value := range e.Properties {
			if stored[name] == nil {
				stored[name] = map[string]bool{}
			}
			stored[name][typeName(value)] = true
		}
	}
	for _, c := range found {
		types := stored[c.property]
		if len(types) == 0 || types[c.kind] || c.kind == "Int32" && types["Int64"] {
			continue
		}
		hints = append(hints, fmt.Sprintf(
			"%s is %s in the first entities, and %s is %s: the comparison holds for none of them. Types are not converted.",
			c.property, strings.Join(slices.Sorted(maps.Keys(types)), " or "), c.constant, c.kind))
	}
	return hints, nil
}

func typeName(v any) string {
	switch v.(type) {
	case string:
		return "String"
	case bool:
		return "Boolean"
	case int32:
		return "Int32"
	case int64:
		return "Int64"
	case float64:
		return "Double"
	case time.Time:
		return "DateTime"
	case uuid.UUID:
		return "Guid"
	}
	return "Binary"
}

// comparison is one of a property with a constant.
type comparison struct{ property, constant, kind string }

// The tokens of a filter that matter here: texts with their prefix, words and numbers.
var token = lazyregexp.New(
	`(?:datetime|guid|binary|X)?'(?:[^']|'')*'|[-+]?[0-9][0-9A-Za-z.+-]*|[\p{L}_][\p{L}\p{N}_]*|[()]`)

var (
	operator = lazyregexp.New(`^(?:eq|ne|gt|ge|lt|le)$`)
	name     = lazyregexp.New(`^[\p{L}_][\p{L}\p{N}_]*$`)
)

// comparisons finds the comparisons of a filter, keys and Timestamp left out.
func comparisons(filter string) (list []comparison) {
	tokens := token().FindAllString(filter, -1)
	for i := 1; i+1 < len(tokens); i++ {
		if !operator().MatchString(tokens[i]) {
			continue
		}
		left, right := tokens[i-1], tokens[i+1]
		if constantType(left) != "" {
			left, right = right, left
		}
		kind := constantType(right)
		if kind != "" && name().MatchString(left) && constantType(left) == "" &&
			!slices.Contains([]string{"PartitionKey", "RowKey", "Timestamp"}, left) {
			list = append(list, comparison{left, right, kind})
		}
	}
	return list
}

// constantType returns the type of a constant, or "" if it is not a constant.
func constantType(text string) string {
	switch {
	case strings.HasPrefix(text, "'"):
		return "String"
	case strings.HasPrefix(text, "datetime'"):
		return "DateTime"
	case strings.HasPrefix(text, "guid'"):
		return "Guid"
	case strings.HasPrefix(text, "binary'"), strings.HasPrefix(text, "X'"):
		return "Binary"
	case text == "true", text == "false":
		return "Boolean"
	}
	digits := strings.TrimLeft(text, "+-")
	switch {
	case digits == "" || digits[0] < '0' || digits[0] > '9':
		return ""
	case strings.HasSuffix(digits, "L"):
		return "Int64"
	case strings.ContainsAny(digits, ".eEdDfF"):
		return "Double"
	}
	return "Int32"
}
