package largeentity

import (
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// FuzzRow: any entity is a row with its pointers, or refused.
func FuzzRow(f *testing.F) {
	f.Add([]byte(`{"PartitionKey":"p","RowKey":"r","Timestamp":"2026-01-01T00:00:00Z","A":"x"}`))
	f.Add([]byte(`{"` + PointerProperty + `":"{}"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer workbudget.Default.Start(t, len(body))()
		_, _ = parseRow(body)
	})
}
