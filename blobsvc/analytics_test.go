package blobsvc_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Callers, be it with the account's key, only read what the system writes, and delete logs.
func TestSystemContainersAreReadOnly(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, target := range []string{"/devstoreaccount1/$logs?restype=container", "/devstoreaccount1/$logs/b"} {
		hr := httptest.NewRequestWithContext(wire.WithSystem(ctx), "PUT", target, http.NoBody)
		hr.Header.Set("x-ms-blob-type", "BlockBlob")
		w := httptest.NewRecorder()
		f.svc.Handler().ServeHTTP(w, hr)
		if w.Code != 201 {
			t.Fatalf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	allowed := map[string][]string{
		"$logs":           {"QueryBlobContents", "DeleteBlob"},
		"$blobchangefeed": {"QueryBlobContents"},
	}
	for _, row := range blobsvc.Rows() {
		if row.On == "service" || row.Method == http.MethodOptions {
			continue
		}
		for container, names := range allowed {
			if row.Name == "DeleteBlob" && slices.Contains(names, row.Name) {
				continue // tried last
			}
			t.Run(row.Name+" "+row.Method+" "+container, func(t *testing.T) {
				r := f.do(row.Method, systemPath(container, row), "", systemHeaders(f, row)...)
				reads := row.Method == http.MethodGet || row.Method == http.MethodHead || slices.Contains(names, row.Name)
				if refused := r.code() == "InsufficientAccountPermissions"; refused == reads {
					t.Errorf("answer %d %s", r.status, r.body)
				}
			})
		}
	}
	f.do("DELETE", "/$logs/b", "").want(t, 202, "")
}

// systemPath is a path that an operation's row serves.
func systemPath(container string, row frontend.Row) string {
	path := "/" + container
	if row.On == "blob" {
		path += "/b"
	}
	var query []string
	for name, value := range map[string]string{"comp": row.Comp, "restype": row.Restype} {
		if value != "" {
			query = append(query, name+"="+value)
		}
	}
	return path + "?" + strings.Join(query, "&")
}

func systemHeaders(f *fixture, row frontend.Row) (headers []string) {
	for _, name := range row.Has {
		headers = append(headers, name, f.base+"/$logs/b")
	}
	return headers
}
