package seed

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const typeSuffix = "@odata.type"

// encodeEntity writes an entity as Insert Entity takes it. Whole numbers are Int32 if they fit, else Int64; other
// numbers are Double. Other types are named as in OData: "Born@odata.type": "Edm.DateTime".
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#property-types
func encodeEntity(properties map[string]any) ([]byte, error) {
	out := make(map[string]any, len(properties))
	for name, value := range properties {
		if strings.HasSuffix(name, typeSuffix) {
			out[name] = value
			continue
		}
		kind := ""
		switch v := value.(type) {
		case nil:
			continue // which is not stored
		case string, bool:
			out[name] = v
		case int64:
			out[name], kind = number(v)
		case uint64:
			if v > math.MaxInt64 {
				return nil, fmt.Errorf("%s is too large a number", name)
			}
			out[name], kind = number(int64(v))
		case float64:
			out[name], kind = strconv.FormatFloat(v, 'g', -1, 64), "Edm.Double"
			switch {
			case math.IsNaN(v):
				out[name] = "NaN"
			case math.IsInf(v, 1):
				out[name] = "Infinity"
			case math.IsInf(v, -1):
				out[name] = "-Infinity"
			}
		default:
			return nil, fmt.Errorf("%s is neither text nor a number, true or false", name)
		}
		if given, ok := properties[name+typeSuffix]; kind != "" && ok {
			out[name] = fmt.Sprint(value) // as the given type writes it
			out[name+typeSuffix] = given
		} else if kind != "" {
			out[name+typeSuffix] = kind
		}
	}
	for _, key := range []string{"PartitionKey", "RowKey"} {
		if _, ok := out[key].(string); !ok || out[key+typeSuffix] != nil {
			return nil, fmt.Errorf("%s must be given, as text: put quotes around it", key)
		}
	}
	return json.Marshal(out)
}

// number is a whole number as JSON has it, with its type where JSON does not tell.
func number(v int64) (any, string) {
	if v == int64(int32(v)) {
		return v, ""
	}
	return strconv.FormatInt(v, 10), "Edm.Int64"
}
