package observe_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/observe"
)

func TestRequestLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logRequest := observe.RequestLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	h := httptest.NewRequest("GET", "http://127.0.0.1:10000/devstoreaccount1/c/b?sv=2021-12-02&sig=secret", nil)
	h.Header.Set("User-Agent", "a client/1")
	h.Header.Set("Authorization", "SharedKey devstoreaccount1:secret")
	h.Header.Set("X-Ms-Version", "2021-12-02")
	r, err := wire.Parse(wire.Blob, h, httptest.NewRecorder(), time.Unix(1700000000, 0), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Operation = "GetBlob"
	r.Failure = wire.ErrResourceNotFound
	logRequest(r, frontend.Outcome{Status: 404, Written: 215, Duration: 1500 * time.Microsecond})
	line := out.String()
	for _, want := range []string{"level=DEBUG", "service=blob", "account=devstoreaccount1", "op=GetBlob", "method=GET",
		"path=/devstoreaccount1/c/b ",
		"status=404", "code=ResourceNotFound", "bytes=215", "ms=1.5", "version=2021-12-02", `client="a client/1"`,
		"request_id=" + r.ID} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
	if strings.Contains(line, "secret") {
		t.Errorf("a credential is logged: %s", line)
	}
}

func TestRequestLogIsOffAboveDebug(t *testing.T) {
	t.Parallel()
	if observe.RequestLog(slog.New(slog.NewTextHandler(new(bytes.Buffer), nil))) != nil {
		t.Error("requests are observed at info level")
	}
}
