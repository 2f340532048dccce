package blobsvc_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

// A page of List Paths ends at the size at which other listings end, and the next one goes on behind it.
func TestLakeListEndsLargePages(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	const files = 2100
	name, context := strings.Repeat("n", 900), strings.Repeat("c", 1000)
	for i := range files {
		w := sink{header: http.Header{}}
		hr := f.lakeNew("PUT", fmt.Sprintf("/box/%s%04d?resource=file", name, i), "", "x-ms-encryption-context", context)
		in := httptest.NewRequest("PUT", hr.URL.RequestURI(), http.NoBody)
		in.Header, in.Host = hr.Header, hr.Host
		if f.svc.LakeHandler().ServeHTTP(&w, in); w.status != 201 {
			t.Fatalf("status %d", w.status)
		}
	}
	listed, pages := 0, 0
	for token := ""; ; pages++ {
		r := f.lakeDo("GET", "/box?resource=filesystem&recursive=true&continuation="+token, "").want(t, 200, "")
		var page struct{ Paths []struct{ Name string } }
		if err := json.Unmarshal([]byte(r.body), &page); err != nil {
			t.Fatal(err)
		}
		for _, p := range page.Paths {
			if want := fmt.Sprintf("%s%04d", name, listed); p.Name != want {
				t.Fatalf("path %d is %s", listed, p.Name)
			}
			listed++
		}
		if len(r.body) > budget.Answer+4<<10 {
			t.Errorf("a page of %d bytes", len(r.body))
		}
		if token = r.header.Get("x-ms-continuation"); token == "" {
			break
		}
	}
	if listed != files || pages != 1 {
		t.Errorf("%d paths in %d pages", listed, pages+1)
	}
}

// The containers that the system writes are flat in every account, for List Paths as well.
func TestLakeListOfSystemContainer(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.do("PUT", "/$web?restype=container", "").want(t, 201, "")
	for _, name := range []string{"a/b", "c/d"} {
		f.do("PUT", "/$web/"+name, "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	}
	r := f.lakeDo("GET", "/$web?resource=filesystem&recursive=true&directory=a", "").want(t, 200, "")
	if !strings.Contains(r.body, `"name":"a/b"`) || strings.Contains(r.body, "c/d") {
		t.Error(r.body)
	}
}
