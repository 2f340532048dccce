package trigger

import (
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// FuzzTraceIn: what is read from any body is a traceparent, or nothing.
func FuzzTraceIn(f *testing.F) {
	f.Add([]byte(`{"a":1}`))
	f.Add([]byte(`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`))
	f.Add([]byte(`{"traceparent":["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer workbudget.Default.Start(t, len(body))()
		if got := TraceIn(body); got != "" && !TraceParent().MatchString(got) {
			t.Errorf("%q is read from %q", got, body)
		}
	})
}
