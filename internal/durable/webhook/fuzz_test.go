package webhook

import (
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// FuzzParameters: any query string is read or refused.
func FuzzParameters(f *testing.F) {
	f.Add("taskHub=t&runtimeStatus=Running,Failed&createdTimeFrom=2026-01-01T00:00:00Z&top=5&timeout=1.5&showInput=FALSE")
	f.Add("a;b=%&timeout=NaN")
	f.Fuzz(func(t *testing.T, query string) {
		defer workbudget.Default.Start(t, len(query))()
		p, err := parseParameters(query)
		if err != nil {
			return
		}
		_, _ = p.filter()
		_, _ = p.boolean("showInput", true)
		if d, ok, err := p.seconds("timeout"); err == nil && ok && (d < 0 || d > maxWait) {
			t.Errorf("%q: timeout %v", query, d)
		}
	})
}
