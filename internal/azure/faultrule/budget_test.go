package faultrule

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// Long lists take work that grows with their length.
func TestFilterStaysInItsBudget(t *testing.T) {
	workbudget.Inputs(128<<10, `{"value":[`, []string{`{},`, `1,`, `{"Timestamp":"2026-01-01T00:00:00Z"},`}, `{}]}`,
		func(body string) {
			workbudget.Default.Check(t, len(body), func() { hidden{}.filter([]byte(body)) })
		})
	workbudget.Inputs(128<<10, "<Blobs>", []string{"<Blob>", "<Blob></Blob>", "<Last-Modified>", "<entry "}, "</Blobs>",
		func(body string) {
			workbudget.Default.Check(t, len(body), func() { hidden{}.filter([]byte(body)) })
		})
}

// FuzzFilter filters lists. What it returns is not longer, is JSON if the list was, and costs no more than a multiple
// of the list.
func FuzzFilter(f *testing.F) {
	for _, text := range []string{
		`{"value":[{"RowKey":"a","Timestamp":"2026-01-01T00:00:00Z"},{"RowKey":"b","Timestamp":"2025-01-01T00:00:00Z"}],"n":1}`,
		`{"value":[]}`, `{"value":[1,1,{}]}`, `{"value":1}`, `{`, ``,
		`<Blobs><Blob><Name>a</Name><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified></Blob></Blobs>`,
		`<Blob><Blob><Blob></Blob>`,
	} {
		f.Add([]byte(text))
	}
	h := hidden{from: time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC), to: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got []byte
		workbudget.Default.Check(t, len(body), func() { got = h.filter(bytes.Clone(body)) })
		if len(got) > len(body) {
			t.Errorf("%q became %q", body, got)
		}
		if json.Valid(body) && len(body) > 0 && body[0] == '{' && !json.Valid(got) {
			t.Errorf("%q became %q, which is not JSON", body, got)
		}
	})
}

// FuzzRule: any text is a rule that is valid, or refused.
func FuzzRule(f *testing.F) {
	f.Add([]byte(`{"service":"blob","operation":"Put*","resource":"box/**","effect":{"status":503}}`))
	f.Add([]byte(`{"resource":"***?[","probability":1e400}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer workbudget.Default.Start(t, len(text))()
		r, err := Decode(text)
		if err == nil {
			err = r.validate()
		}
		if err != nil && !errors.Is(err, ErrRule) {
			t.Errorf("%v, want ErrRule", err)
		}
	})
}
