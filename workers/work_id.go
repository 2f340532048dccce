package workers

import (
	"context"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/lazuli-storage/lazuli/internal/durable/call"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// clientRequestID is the header by which a storage service and its logs name a request of a client.
// https://learn.microsoft.com/rest/api/storageservices/azure-storage-analytics-log-format
const clientRequestID = "X-Ms-Client-Request-Id"

// workPolicy names the work that a request of a handler belongs to, so that all that one message caused can be
// found: in Lazuli's dashboard, or in the logs of Azure. The client request id is the invocation's ID, followed by
// a slash and the ID of the message or workflow instance if there is one. The trace, if the message named one,
// goes along as well.
type workPolicy struct{}

func (workPolicy) Do(r *policy.Request) (*http.Response, error) {
	ctx, h := r.Raw().Context(), r.Raw().Header
	if id, message := workOf(ctx); id != "" && h.Get(clientRequestID) == "" {
		switch {
		case message != "":
			id += "/" + message
		default:
			if c, ok := call.Of(ctx); ok {
				id += "/" + c.Instance
			}
		}
		// An instance's ID may have characters that a header cannot, and a service takes 1,024 bytes.
		if len(id) <= 1024 && headerText(id) {
			h.Set(clientRequestID, id)
		}
	}
	if parent := TraceParent(ctx); parent != "" && h.Get("Traceparent") == "" {
		h.Set("Traceparent", parent)
	}
	return r.Next()
}

// workOf returns the ID of the invocation that a request belongs to and the ID of its message: that of a handler, or
// one for which the runtime itself sends a request. Both are empty outside of an invocation.
func workOf(ctx context.Context) (invocation, message string) {
	if ic, ok := FromContext(ctx); ok {
		return ic.InvocationID, ic.messageID
	}
	if i := trigger.InvocationOf(ctx); i != nil {
		return i.ID, i.MessageID
	}
	return "", ""
}

// headerText reports whether a text can be the value of a header as it is.
func headerText(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
