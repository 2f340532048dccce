package durable

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// entity is a table's row as JSON.
// https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations
type entity map[string]any

func newEntity(partitionKey, rowKey string) entity {
	return entity{"PartitionKey": partitionKey, "RowKey": rowKey}
}

const edmTime = "2006-01-02T15:04:05.0000000Z"

func (e entity) setTime(name string, t time.Time) {
	e[name], e[name+"@odata.type"] = t.UTC().Format(edmTime), "Edm.DateTime"
}

func (e entity) setBytes(name string, b []byte) {
	e[name], e[name+"@odata.type"] = base64.StdEncoding.EncodeToString(b), "Edm.Binary"
}

// setText sets a property unless the text is empty.
func (e entity) setText(name, text string) {
	if text != "" {
		e[name] = text
	}
}

func (e entity) encode() []byte {
	text, err := json.Marshal(map[string]any(e))
	if err != nil {
		panic("durable: an entity of plain values cannot be written: " + err.Error())
	}
	return text
}

// status returns the HTTP status and the service's code of a refused request; 0 for other errors.
func status(err error) (int, string) {
	var r *azcore.ResponseError
	if errors.As(err, &r) {
		return r.StatusCode, r.ErrorCode
	}
	return 0, ""
}

func isNotFound(err error) bool { s, _ := status(err); return s == 404 }

// isConflict reports whether the row was not as the request demanded. A batch answers 202; its error's text has the
// code.
func isConflict(err error) bool {
	s, code := status(err)
	if s == 412 || s == 409 || s == 404 {
		return true
	}
	if s != 202 {
		return false
	}
	text := code + err.Error()
	for _, c := range []string{"UpdateConditionNotSatisfied", "EntityAlreadyExists", "ResourceNotFound",
		"ConditionNotMet"} {
		if strings.Contains(text, c) {
			return true
		}
	}
	return false
}

// plain reports whether a text can be a string property as it is: control characters may not survive the way through
// JSON and Atom.
func plain(text string) bool {
	for _, r := range text {
		if r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF || r == 0xFFFD {
			return false
		}
	}
	return true
}
