package workers

import (
	"encoding/json"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// FuzzTrace: any message keeps its content when it gets a trace, which is then read from it.
func FuzzTrace(f *testing.F) {
	f.Add([]byte(`{"a":1}`))
	f.Add([]byte(` {} `))
	f.Add([]byte(`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer workbudget.Default.Start(t, len(body))()
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		before := trigger.TraceIn(body)
		marked := withTraceParent(body, parent)
		if string(marked) == string(body) {
			return
		}
		if !json.Valid(marked) || before != "" {
			t.Errorf("%q becomes %q", body, marked)
		}
	})
}
