package frontend

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestExposedHeaders(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, want string }{
		{"ETag,Content-Length", "ETag,Content-Length"},
		{"x-ms-meta-*", "x-ms-meta-A,x-ms-meta-b"},
		{"X-MS-META-*,Content-MD5", "x-ms-meta-A,x-ms-meta-b,Content-MD5"},
		{"x-none-*", ""},
		{"*", "Etag,x-ms-meta-A,x-ms-meta-b,x-ms-request-id"},
	} {
		for name, write := range map[string]func(http.ResponseWriter){
			"status": func(w http.ResponseWriter) { w.WriteHeader(204) },
			"body":   func(w http.ResponseWriter) { _, _ = w.Write([]byte("x")) },
		} {
			w := httptest.NewRecorder()
			h := w.Header()
			h["x-ms-meta-A"], h["x-ms-meta-b"], h["x-ms-request-id"], h["Etag"] = []string{"1"}, []string{"2"}, []string{"3"},
				[]string{"4"}
			h.Set("Access-Control-Allow-Origin", "*")
			h.Set(exposeHeaders, tc.rule)
			write(NewRecorder(w, 0))
			if got := w.Header().Get(exposeHeaders); got != tc.want {
				t.Errorf("%s, %s: %q, want %q", tc.rule, name, got, tc.want)
			}
		}
	}
}
