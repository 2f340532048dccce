package requestlog

import (
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// A thousand requests with the longest heads take little memory.
func TestRequestsWithLongHeadsAreCut(t *testing.T) {
	l := New(time.Now)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range KeptRequests {
		long := strings.Repeat("x", 60<<10)
		hr := httptest.NewRequest("GET", "http://127.0.0.1/devstoreaccount1/"+long+"?prefix="+long, nil)
		hr.Header.Set("User-Agent", long)
		hr.Header.Set("X-Ms-Meta-A", long)
		r, _ := wire.Parse(wire.Blob, hr, httptest.NewRecorder(), time.Now(), wire.Options{})
		r.Failure = wire.ErrInvalidURI.With("Detail", long).WithMessage(long)
		l.Observe(r, frontend.Outcome{Status: 400})
	}
	if taken := int64(heap()) - int64(before); taken > 32<<20 {
		t.Errorf("%d requests take %d MiB", KeptRequests, taken>>20)
	}
	q := l.Latest(Filter{}, 1, 0)[0]
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
	if q := l.Latest(Filter{}, 1, 0)[0]; q.Cut || len(q.Headers()) != 1 {
		t.Errorf("a usual head is cut: %v, %d headers", q.Cut, len(q.Headers()))
	}
	runtime.KeepAlive(l)
}
