package browsertest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// answers serves texts by their paths.
func answers(texts map[string]string) http.Handler {
	mux := http.NewServeMux()
	for path, text := range texts {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
	return mux
}

const calls = `"lastHour": {"succeeded": [0, 3, 7], "failed": [1, 0, 2]}, "succeeded": 10, "failed": 3`

// fakeApp answers as a function app, and returns its address.
func fakeApp(t *testing.T) string {
	t.Helper()
	const (
		ship = `{"name": "ship", "trigger": "queueTrigger", "source": "orders", "example": "{}", ` + calls
		i1   = `{"id": "i1", "reason": "New queue message detected on 'orders'.", "began": "2026-01-01T00:00:00Z",
			"milliseconds": 12, "error": "there is nothing to ship in a-very-long-word-that-does-not-break-anywhere"`
	)
	app := httptest.NewServer(answers(map[string]string{
		"/admin/lazuli/{$}":  `{"language": "python", "functions": [` + ship + `}]}`,
		"/admin/lazuli/ship": ship + `, "invocations": [` + i1 + `}]}`,
		"/admin/lazuli/ship/invocations/i1": i1 + `, "logs": [{"time": "2026-01-01T00:00:00Z", "level": "INFO",
			"message": "a line that was logged"}]}`,
	}))
	t.Cleanup(app.Close)
	return strings.TrimPrefix(app.URL, "http://")
}

// fakeWorkers answers as adminhttp.NewHandler.
func fakeWorkers() http.Handler {
	const archive = `{"name": "archive", "trigger": "queueTrigger", "queue": "archive", "perSecond": 2.5, "poisoned": 1,
		"lastError": "the table is out of reach", "lastErrorAt": "2026-01-01T00:00:00Z", ` + calls
	return answers(map[string]string{
		"/{$}": `{"functions": [` + archive + `}]}`,
		"/archive": `{"functions": [` + archive + `, "calls": [{"invocationId": "3b1c5d0e-58a5-4f5c-9d0c-0f8c1f7f4a11",
			"messageId": "6f4e2b0a-1c58-4a55-b9a5-6a7b7b1d2c3e", "attempt": 5, "began": "2026-01-01T00:00:00Z", "seconds": 0.25,
			"outcome": "failed", "error": "the table is out of reach"}]}]}`,
	})
}
