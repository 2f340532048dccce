package dashboard

import (
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// The indentation of nested values is not longer than a multiple of the text.
func TestIndentIsBounded(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nested":            strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"wide below nested": strings.Repeat("[", 5000) + "1" + strings.Repeat(",1", 10_000) + strings.Repeat("]", 5000),
		"objects":           strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		"closed too often":  strings.Repeat("]", 9000) + strings.Repeat("[", 9000),
	} {
		if out, ok := indent([]byte(text)); ok {
			t.Errorf("%s: %d bytes become %d", name, len(text), len(out))
		}
		p := previewOf([]byte(text), "application/json", "")
		if p.Text != text {
			t.Errorf("%s: the preview is %.40q", name, p.Text)
		}
		if got := (workflowState{}).Text([]byte(text)); got != text {
			t.Errorf("%s: a workflow's payload is %.40q", name, got)
		}
	}
	if out, ok := indent([]byte(`{"a":[1,"[[\"[["]}`)); !ok || out != "{\n  \"a\": [\n    1,\n    \"[[\\\"[[\"\n  ]\n}" {
		t.Errorf("%q, %v", out, ok)
	}
}

// A thousand requests with the longest heads take little memory.
func TestRequestsWithLongHeadsAreCut(t *testing.T) {
	l := NewRequests(time.Now)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range keptRequests {
		long := strings.Repeat("x", 60<<10)
		hr := httptest.NewRequest("GET", "http://127.0.0.1/devstoreaccount1/"+long+"?prefix="+long, nil)
		hr.Header.Set("User-Agent", long)
		hr.Header.Set("X-Ms-Meta-A", long)
		r, _ := wire.Parse(wire.Blob, hr, httptest.NewRecorder(), time.Now(), wire.Options{})
		r.Failure = wire.ErrInvalidURI.With("Detail", long).WithMessage(long)
		l.Observe(r, frontend.Outcome{Status: 400})
	}
	if taken := int64(heap()) - int64(before); taken > 32<<20 {
		t.Errorf("%d requests take %d MiB", keptRequests, taken>>20)
	}
	q := l.Latest(RequestFilter{}, 1, 0)[0]
	if !q.Cut || len(q.Headers()) != 0 || len(q.Query) != keptText || len(q.Message) != keptText {
		t.Errorf("kept %.100q, %d headers, cut %v", q.Query, len(q.Headers()), q.Cut)
	}
	hr := httptest.NewRequest("GET", "http://127.0.0.1/devstoreaccount1/c", nil)
	hr.Header.Set("X-Ms-Meta-A", strings.Repeat("x", 4<<10))
	r, err := wire.Parse(wire.Blob, hr, httptest.NewRecorder(), time.Now(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.Observe(r, frontend.Outcome{Status: 200})
	if q := l.Latest(RequestFilter{}, 1, 0)[0]; q.Cut || len(q.Headers()) != 1 {
		t.Errorf("a usual head is cut: %v, %d headers", q.Cut, len(q.Headers()))
	}
	runtime.KeepAlive(l)
}

// FuzzPreview: the preview of any content of a blob has about its length.
func FuzzPreview(f *testing.F) {
	f.Add([]byte("a,b\n\"1\n\",2\n"), "text/csv")
	f.Add([]byte(`{"a":[1,{"b":null}]}`), "application/json")
	f.Add([]byte("[[[[[[[["), "application/json")
	f.Fuzz(func(t *testing.T, text []byte, kind string) {
		defer workbudget.Default.Start(t, len(text))()
		if p := previewOf(text, kind, ""); len(p.Text) > (maxBlanks+2)*max(len(text), 1<<10) {
			t.Errorf("%d bytes become %d", len(text), len(p.Text))
		}
	})
}
