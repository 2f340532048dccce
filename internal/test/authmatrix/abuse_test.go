package authmatrix

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/signer"
)

// send signs and sends a request whose target is not normalised.
func (h *fixture) send(svc wire.Service, method, target, body string, header ...string) *httptest.ResponseRecorder {
	return h.sendAs(svc, account, h.key, method, target, body, header...)
}

func (h *fixture) sendAs(svc wire.Service, name string, key auth.Key, method, target, body string,
	header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:10000/", strings.NewReader(body))
	r.RequestURI, r.RemoteAddr = target, "127.0.0.1:5555"
	r.Header.Set("x-ms-version", "2019-02-02")
	r.Header.Set("x-ms-date", time.Now().UTC().Format(http.TimeFormat))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	parsed, err := wire.Parse(svc, r, nil, time.Now(), wire.Options{})
	if err == nil {
		_, r.URL.RawQuery, _ = strings.Cut(target, "?")
		// The signature covers the path as the server reads it, so that the request is not refused for its signature.
		signer.Account{Name: name, Key: key, Table: svc == wire.Table}.SharedKeyLite(r, parsed.URIPath)
	}
	w := httptest.NewRecorder()
	h.handlers[svc].ServeHTTP(w, r)
	return w
}

// Paths that a file system, a proxy or a decoder would resolve to another resource are plain names here, or refused.
func TestPathsLeadNowhere(t *testing.T) {
	h, dir := buildIn(t)
	const secret = "the other account's secret"
	for _, step := range [][3]string{{"PUT", "/" + other + "/box?restype=container", ""},
		{"PUT", "/" + other + "/box/thing", secret}} {
		if w := h.sendAs(wire.Blob, other, h.otherKey, step[0], step[1], step[2], "x-ms-blob-type",
			"BlockBlob"); w.Code != 201 {
			t.Fatalf("%s %s: %d %s", step[0], step[1], w.Code, w.Body)
		}
	}
	if w := h.send(wire.Blob, "PUT", "/"+account+"/box?restype=container", ""); w.Code != 201 {
		t.Fatalf("create: %d %s", w.Code, w.Body)
	}
	before := files(t, dir)
	for _, path := range []string{
		"/" + account + "/../" + other + "/box/thing", "/" + account + "/%2e%2e/" + other + "/box/thing",
		"/" + account + "/..%2f" + other + "/box/thing",
		"/" + account + "%2f..%2f" + other + "/box/thing", "/" + account + "/box/../../" + other + "/box/thing",
		"/" + account + "//" + other + "/box/thing",
		"//" + other + "/box/thing", "/" + account + "/box%2f..%2f..%2f" + other + "%2fbox/thing",
		"/" + account + ";/" + other + "/box/thing",
		"/" + account + "/box/..%5c..%5cthing", "/" + account + "/box/%c0%ae%c0%ae/thing", "/" + account + "/box/%ff%fe",
		"/" + account + "/box/a%00b",
		"/" + account + "/box%00/thing", "/" + account + "%00/box/thing", "/" + account + "/box/%",
		"/" + account + "/box/%zz", "/" + account + "/./box/thing",
		"/" + account + "/box/%252e%252e/thing", "/" + account + "/box/" + strings.Repeat("../", 300) + "etc/passwd",
		"/%2e%2e/" + account + "/box/thing",
		"/" + account + "/box/\xc0\xaf", "/" + account + "/CON", "/" + account + "/box/aux.txt",
		"http://127.0.0.1:10000/" + other + "/box/thing",
		"/" + account + "/" + strings.Repeat("a/", 2000),
	} {
		for _, svc := range services {
			for _, method := range []string{"GET", "PUT", "DELETE", "HEAD", "POST"} {
				w := h.send(svc, method, path, "x", "x-ms-blob-type", "BlockBlob")
				if w.Code >= 500 && w.Code != 501 {
					t.Errorf("%s %s %q: %d %s", svc, method, path, w.Code, w.Body)
				}
				if strings.Contains(w.Body.String(), secret) {
					t.Errorf("%s %s %q shows the other account's blob", svc, method, path)
				}
			}
		}
	}
	if w := h.sendAs(wire.Blob, other, h.otherKey, "GET", "/"+other+"/box/thing", ""); w.Body.String() != secret {
		t.Errorf("the other account's blob is %d %q afterwards", w.Code, w.Body)
	}
	for name := range files(t, dir) {
		if !before[name] && !strings.HasPrefix(name, "extents") {
			t.Errorf("the file %s was made", name)
		}
	}
}

func files(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	check.OK(t, filepath.WalkDir(filepath.Dir(dir), func(path string, _ fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		names[name] = true
		return err
	}))
	return names
}

// Documents whose cost is much higher than their size are refused at once.
func TestDocumentsAreBounded(t *testing.T) {
	h := build(t)
	if w := h.send(wire.Table, "POST", "/"+account+"/Tables", `{"TableName":"Tab"}`, "Content-Type",
		"application/json"); w.Code != 201 {
		t.Fatalf("create the table: %d %s", w.Code, w.Body)
	}
	if w := h.send(wire.Queue, "PUT", "/"+account+"/line", ""); w.Code != 201 {
		t.Fatalf("create the queue: %d %s", w.Code, w.Body)
	}
	laughs :=
		`<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>`
	external := `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>`
	for _, tc := range []struct {
		name                 string
		svc                  wire.Service
		method, target, body string
	}{
		{"entities in service properties", wire.Blob, "PUT", "/?restype=service&comp=properties",
			laughs + "<StorageServiceProperties><DefaultServiceVersion>&c;</DefaultServiceVersion></StorageServiceProperties>"},
		{"external entity in service properties", wire.Queue, "PUT", "/?restype=service&comp=properties",
			external + "<StorageServiceProperties><Logging><Version>&a;</Version></Logging></StorageServiceProperties>"},
		{"external entity in a message", wire.Queue, "POST", "/line/messages",
			external + "<QueueMessage><MessageText>&a;</MessageText></QueueMessage>"},
		{"deep XML", wire.Queue, "POST", "/line/messages", strings.Repeat("<a>", 15000)},
		{"deep XML in access policies", wire.Table, "PUT", "/Tab?comp=acl",
			"<SignedIdentifiers>" + strings.Repeat("<a>", 15000)},
		{"another character set", wire.Queue, "POST", "/line/messages",
			`<?xml version="1.0" encoding="UTF-7"?><QueueMessage><MessageText>x</MessageText></QueueMessage>`},
		{"deep JSON array", wire.Table, "POST", "/Tab",
			`{"PartitionKey":"p","RowKey":"r","x":` + strings.Repeat("[", 200000)},
		{"deep JSON object", wire.Table, "POST", "/Tab", strings.Repeat(`{"a":`, 200000)},
		{"not UTF-8", wire.Table, "POST", "/Tab", "{\"PartitionKey\":\"\xff\",\"RowKey\":"},
		{"deep filter", wire.Table, "GET", "/Tab?$filter=" + strings.Repeat("(", 15000), ""},
		{"long chain of nots", wire.Table, "GET", "/Tab?$filter=" + strings.Repeat("not%20", 5000) + "x", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			begin := time.Now()
			w := h.send(tc.svc, tc.method, "/"+account+tc.target, tc.body, "Content-Type", "application/json")
			if w.Code < 400 || w.Code >= 500 || w.Code == 403 {
				t.Errorf("%d %.300s", w.Code, w.Body)
			}
			if strings.Contains(w.Body.String(), "root:") {
				t.Error("the answer has a file of the machine")
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}
