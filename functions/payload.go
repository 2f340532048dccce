package functions

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"
)

// payload is the request to a handler: DefaultHttpWorkerService and ScriptInvocationContextExtensions of the Functions
// host.
type payload struct {
	Data     map[string]any
	Metadata map[string]any
}

// RetryContext has the number of the attempt under a retry policy.
type RetryContext struct {
	RetryCount    int
	MaxRetryCount int
	Exception     string // of the attempt before; empty for the first
}

// newPayload makes a payload of the invocation's values.
func newPayload(inv *invocation, inputs map[string]any) payload {
	p := payload{Data: map[string]any{}, Metadata: map[string]any{}}
	for _, e := range inv.data.entries {
		if e.value == nil || strings.HasSuffix(strings.ToLower(e.name), "trigger") {
			continue // What triggered is in Data already.
		}
		p.Metadata[e.name] = wireValue(e.value)
	}
	p.Metadata["sys"] = wireValue(inv.system())
	if r := inv.retry; r != nil {
		retry := map[string]any{"RetryCount": r.RetryCount, "MaxRetryCount": r.MaxRetryCount, "Exception": nil}
		if r.Exception != "" {
			retry["Exception"] = map[string]string{"Message": r.Exception}
		}
		p.Metadata["RetryContext"] = retry
	}
	for name, value := range inputs {
		p.Data[name] = wireValue(value)
	}
	return p
}

// system is the metadata of every trigger.
func (inv *invocation) system() any {
	return struct{ MethodName, UtcNow, RandGuid any }{inv.function.name, dotNetTime(inv.began), uuid.NewString()}
}

// httpData is an HTTP request in Data; it is not put through wireValue's rules, as its members are.
type httpData struct {
	URL        string `json:"Url"`
	Method     string
	Query      map[string]string
	Headers    map[string][]string
	Params     map[string]any
	Identities []any
	Body       *string `json:",omitempty"`

	request *HTTPRequest // the same for a language worker
}

// wireValue converts a value for Data and Metadata. Objects remain objects, times become text, bytes become base64.
// Everything else is text that holds JSON: a message "hi" is sent as "\"hi\"", and a number 5 as "5".
func wireValue(value any) any {
	switch v := value.(type) {
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case time.Time:
		return v.UTC().Format("2006-01-02T15:04:05+00:00")
	}
	text, err := marshal(value)
	if err != nil {
		return "null"
	}
	if text[0] == '{' {
		return json.RawMessage(text)
	}
	return string(text)
}

// marshal writes JSON without HTML's escapes.
func marshal(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// dotNetTime describes how .NET writes a DateTime: down to 100 ns, without zeros at the end.
func dotNetTime(t time.Time) string {
	return t.UTC().Truncate(100 * time.Nanosecond).Format("2006-01-02T15:04:05.9999999Z")
}
