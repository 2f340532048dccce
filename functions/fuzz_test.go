package functions

import (
	"net/http"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// FuzzBodies: any body of a webhook's request, and any response of a handler, is read or refused.
func FuzzBodies(f *testing.F) {
	f.Add([]byte(`[{"id":"1","eventType":"Microsoft.Storage.BlobCreated"},{}]`))
	f.Add([]byte(` {"Outputs":{"res":{"statusCode":200,"body":"x"}},"Logs":["a"],"ReturnValue":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer workbudget.Default.Start(t, len(body))()
		_, _ = splitEvents(body)
		_, _ = parseResponse(http.StatusOK, http.Header{"Content-Type": {"application/json"}}, body)
	})
}
