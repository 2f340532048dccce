package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// Entity is an entity on its way to a target.
type Entity struct {
	Key
	// JSON is the entity in the Table service's own format: keys, properties and their types, without the service's
	// annotations and Timestamp. It can be stored in another table as it is.
	JSON []byte

	etag azcore.ETag
}

const typeSuffix = "@odata.type"

// forStorage turns an entity as the service answers it into one that can be stored again with every type intact. Doubles get
// their type written out: JSON's 5.0 and 5 are one number to most programs on the way, the SDK among them, but two
// types to the service. https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations
func forStorage(answer []byte) ([]byte, error) {
	var properties map[string]json.RawMessage
	if err := json.Unmarshal(answer, &properties); err != nil {
		return nil, fmt.Errorf("the entity is not JSON: %w", err)
	}
	for name, value := range properties {
		switch {
		case strings.HasPrefix(name, "odata."), name == "Timestamp", name == "Timestamp"+typeSuffix:
			delete(properties, name)
		case isDouble(value) && properties[name+typeSuffix] == nil:
			properties[name+typeSuffix] = json.RawMessage(`"Edm.Double"`)
		}
	}
	return json.Marshal(properties)
}

// isDouble reports whether a value is a JSON number with a fraction or an exponent.
func isDouble(value json.RawMessage) bool {
	return len(value) > 0 && (value[0] == '-' || value[0] >= '0' && value[0] <= '9') && bytes.ContainsAny(value, ".eE")
}
