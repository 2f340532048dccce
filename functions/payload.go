package functions

import (
	"strings"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
)

// payload is the request to a handler: DefaultHttpWorkerService and ScriptInvocationContextExtensions of the Functions
// host.
type payload struct {
	Data     map[string]any
	Metadata map[string]any
}

// newPayload makes a payload of the invocation's values.
func newPayload(inv *invocation, inputs map[string]any) payload {
	p := payload{Data: map[string]any{}, Metadata: map[string]any{}}
	for name, value := range inv.data.All() {
		if value == nil || strings.HasSuffix(strings.ToLower(name), "trigger") {
			continue // What triggered is in Data already.
		}
		p.Metadata[name] = jsonvalue.Wire(value)
	}
	p.Metadata["sys"] = jsonvalue.Wire(inv.system())
	if r := inv.retry; r != nil {
		retry := map[string]any{"RetryCount": r.RetryCount, "MaxRetryCount": r.MaxRetryCount, "Exception": nil}
		if r.Exception != "" {
			retry["Exception"] = map[string]string{"Message": r.Exception}
		}
		p.Metadata["RetryContext"] = retry
	}
	for name, value := range inputs {
		p.Data[name] = jsonvalue.Wire(value)
	}
	return p
}

// system is the metadata of every trigger.
func (inv *invocation) system() any {
	return struct{ MethodName, UtcNow, RandGuid any }{inv.function.name, jsonvalue.Time(inv.began), uuid.NewString()}
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
