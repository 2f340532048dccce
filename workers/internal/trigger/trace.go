package trigger

import (
	"bytes"
	"encoding/json"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// TraceParent is the form of https://www.w3.org/TR/trace-context/#traceparent-header in its only version so far.
var TraceParent = lazyregexp.New(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// TraceIn returns the traceparent in a message's body, or "".
func TraceIn(body []byte) string {
	if !bytes.Contains(body, []byte(`"traceparent"`)) {
		return ""
	}
	var carrier struct {
		Parent string `json:"traceparent"`
	}
	if json.Unmarshal(body, &carrier) != nil || !TraceParent().MatchString(carrier.Parent) {
		return ""
	}
	return carrier.Parent
}
