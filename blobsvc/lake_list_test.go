package blobsvc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/test/check"
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

// A prefix in a listing by hierarchy has the properties of its directory, from the version on that has them, with its
// permissions if the request includes them, in both formats.
func TestLakeListByHierarchy(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.keepDeleted(7, "")
	fs := f.filesystem("files")
	f.lakeDo("PUT", "/files/d?resource=directory", "", "x-ms-permissions", "0755", "x-ms-umask", "0000").want(t, 201, "")
	for _, name := range []string{"d/one", "implicit/two", "gone/three"} {
		writeFile(t, fs, name, name)
	}
	f.do("PUT", "/files/blob/four", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	f.lakeDo("DELETE", "/files/d/one", "").want(t, 200, "")
	f.lakeDo("DELETE", "/files/gone/three", "").want(t, 200, "")
	f.lakeDo("DELETE", "/files/gone?recursive=true", "").want(t, 200, "")
	list := func(query, version string) map[string]map[string]string {
		items := map[string]map[string]string{}
		for _, item := range itemsOf(t, f.do("GET", "/files?restype=container&comp=list&delimiter=/"+query, "",
			"x-ms-version", version).want(t, 200, "").body) {
			items[item["Name"]] = item
		}
		return items
	}
	for _, name := range []string{"d", "implicit", "blob"} {
		head := f.do("HEAD", "/files/"+name, "").want(t, 200, "").header
		item := list("", "2020-06-12")[name+"/"]
		want := map[string]string{"Name": name + "/", "ResourceType": "blobprefix", "Content-Length": "0",
			"Creation-Time": head.Get("x-ms-creation-time"), "Last-Modified": head.Get("Last-Modified"),
			"Etag": strings.Trim(head.Get("ETag"), `"`), "BlobType": "BlockBlob", "AccessTier": "Hot",
			"AccessTierInferred": "true", "LeaseStatus": "unlocked", "LeaseState": "available", "ServerEncrypted": "true"}
		if d := cmp.Diff(want, item); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	const element = "<ResourceType>directory</ResourceType><Content-Length>0</Content-Length><BlobType>"
	if r := f.do("GET", "/files?restype=container&comp=list&delimiter=/", "", "x-ms-version", "2020-06-12"); strings.Count(
		r.body, element) != 3 {
		t.Error(r.body)
	}
	if item := list("", "2020-04-08")["d/"]; len(item) != 2 {
		t.Errorf("before the version: %v", item)
	}
	item := list("&include=permissions", "2021-12-02")["d/"]
	if item["Owner"] != "$superuser" || item["Group"] != "$superuser" || item["Permissions"] != "rwxr-xr-x" ||
		item["Acl"] != "user::rwx,group::r-x,other::r-x" {
		t.Errorf("permissions: %v", item)
	}
	// What was deleted in a directory that exists, and in one that does not.
	deleted := list("&showonly=deleted", "2021-12-02")
	if deleted["d/"]["Etag"] == "" || deleted["gone/"] == nil || deleted["gone/"]["Etag"] != "" {
		t.Errorf("deleted: %v", deleted)
	}
	for _, query := range []string{"", "&include=permissions,metadata", "&include=deleted", "&showonly=deleted"} {
		want := itemsOf(t, f.do("GET", "/files?restype=container&comp=list&delimiter=/"+query, "",
			"x-ms-version", "2026-10-06").want(t, 200, "").body)
		var got []map[string]string
		for i, row := range f.listArrowOf(t, "files", "&delimiter=/"+query).Rows {
			got = append(got, asXML(row))
			for _, name := range []string{"DeletionId", "Content-CRC64"} { // which no client reads in this format
				delete(want[i], name)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("Arrow, %q: %s", query, d)
		}
	}
}

// Each item has a length, directories that other writes made too: clients cannot read an item without it. Only the
// first version leaves it out (recorded).
func TestLakeListHasLengths(t *testing.T) {
	t.Parallel()
	f := lake(t)
	writeFile(t, f.filesystem("files"), "lake/sub/file", "")
	f.do("PUT", "/files/blob/file", "", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	for version, want := range map[string]int{"2019-02-02": 2, "2019-12-12": 5, "2023-11-03": 5} {
		r := f.lakeDo("GET", "/files?resource=filesystem&recursive=true", "", "x-ms-version", version).want(t, 200, "")
		if got := strings.Count(r.body, `"contentLength":"0"`); got != want || strings.Count(r.body, `"name"`) != 5 {
			t.Errorf("%s: %d items of %d with a length: %s", version, got, want, r.body)
		}
	}
}

// TestListsShareParts: an item that is written with the parts of those before it is the one that a page of its own has.
func TestListsShareParts(t *testing.T) {
	t.Parallel()
	for _, setting := range []accountprops.Blob{{Hierarchical: true}, {}} {
		f := managed(t, setting)
		f.do("PUT", "/box?restype=container", "").want(t, 201, "")
		for i := range 24 {
			dir := fmt.Sprintf("/box/d%d", i%5)
			headers := []string{"x-ms-blob-type", "BlockBlob"}
			switch i % 6 {
			case 1:
				headers = append(headers, "x-ms-blob-content-type", "text/plain")
			case 2:
				headers = append(headers, "x-ms-meta-a", fmt.Sprint(i/12))
			case 3:
				headers = append(headers, "x-ms-access-tier", "Cool")
			case 4:
				headers[1] = "AppendBlob"
			}
			content := strings.Repeat("x", i)
			if i%6 == 4 {
				content = ""
			}
			f.do("PUT", fmt.Sprintf("%s/blob%d", dir, i), content, headers...).want(t, 201, "")
			if i%8 == 0 {
				f.lakeDo("PUT", fmt.Sprintf("%s/below%d?resource=directory", dir, i), "").want(t, 201, "")
			}
			if !setting.Hierarchical {
				continue
			}
			f.lakeDo("PUT", fmt.Sprintf("%s/path%d?resource=file", dir, i), "", "x-ms-permissions", "0640", "x-ms-umask",
				fmt.Sprintf("00%d0", i/8), "x-ms-encryption-context", strings.Repeat("context", i/12)).want(t, 201, "")
		}
		for _, version := range []string{"2019-02-02", "2021-12-02", "2026-06-06"} {
			for _, query := range []string{"", "&include=metadata", "&delimiter=/&prefix=d1/", "&include=permissions"} {
				if !setting.Hierarchical && strings.Contains(query, "permissions") {
					continue
				}
				if want, got := f.itemsOfBlobs(query, version, 1), f.itemsOfBlobs(query, version, 5000); got != want ||
					got == "" {
					t.Errorf("List Blobs%s of %s: %s", query, version, cmp.Diff(want, got))
				}
			}
			for _, query := range []string{"recursive=true", "recursive=false&directory=d0"} {
				if want, got := f.itemsOfPaths(query, version, 1), f.itemsOfPaths(query, version, 5000); got != want ||
					got == "" {
					t.Errorf("List Paths, %s of %s: %s", query, version, cmp.Diff(want, got))
				}
			}
		}
	}
}

// itemsOfBlobs lists /box by pages of a size and returns the text of the items.
func (f *fixture) itemsOfBlobs(query, version string, size int) (items string) {
	f.t.Helper()
	marker := ""
	for {
		path := fmt.Sprintf("/box?restype=container&comp=list%s&maxresults=%d&marker=%s", query, size, marker)
		body := f.do("GET", path, "", "x-ms-version", version).want(f.t, 200, "").body
		items += between(body, "<Blobs>", "</Blobs>")
		if marker = between(body, "<NextMarker>", "<"); marker == "" {
			return items
		}
	}
}

// itemsOfPaths is itemsOfBlobs for List Paths.
func (f *fixture) itemsOfPaths(query, version string, size int) (items string) {
	f.t.Helper()
	token := ""
	for {
		path := fmt.Sprintf("/box?resource=filesystem&%s&maxResults=%d&continuation=%s", query, size,
			url.QueryEscape(token))
		r := f.lakeDo("GET", path, "", "x-ms-version", version).want(f.t, 200, "")
		items += strings.ReplaceAll(between(r.body, `"paths":[`, "]"), "},{", "}{")
		if token = r.header.Get("x-ms-continuation"); token == "" {
			return items
		}
	}
}

// TestListPathsBesideDamage damages the last entry of one directory and the first of another: the directory between
// them, whose entries are stored between theirs, is listed as before.
func TestListPathsBesideDamage(t *testing.T) {
	t.Parallel()
	f := managed(t, accountprops.Blob{Hierarchical: true})
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	const files = 40
	for _, dir := range []string{"before", "between", "behind"} {
		f.lakeDo("PUT", "/box/"+dir+"?resource=directory", "").want(t, 201, "")
		for i := range files {
			f.lakeDo("PUT", fmt.Sprintf("/box/%s/%s-%02d?resource=file", dir, dir, i), "").want(t, 201, "")
		}
	}
	// changed opens the service on what change makes of its file.
	path := f.dir + "/blobs.db"
	changed := func(change func(p []byte) []byte) {
		svc := f.svc
		f.svc = nil
		check.OK(t, svc.Close())
		p, err := os.ReadFile(path)
		check.OK(t, err)
		check.OK(t, os.WriteFile(path, change(p), 0o600))
		f.open()
	}
	var clean []byte
	changed(func(p []byte) []byte { clean = bytes.Clone(p); return damaged(t, p, "before-39", "behind-00") })
	list := func(dir string) string { return "/box?resource=filesystem&recursive=false&directory=" + dir }
	body := f.lakeDo("GET", list("between"), "").want(t, 200, "").body
	for i := range files {
		if name := fmt.Sprintf(`"between/between-%02d"`, i); !strings.Contains(body, name) {
			t.Errorf("the listing lacks %s", name)
		}
	}
	for _, dir := range []string{"before", "behind"} {
		f.lakeDo("GET", list(dir), "").want(t, 500, "InternalError")
	}
	changed(func([]byte) []byte { return clean }) // the end of the test checks all of it
}

// damaged inverts a bit behind each place of a database where a name stands: of an entry of a directory it is the first
// of the value, which follows its key.
func damaged(t *testing.T, p []byte, names ...string) []byte {
	for _, name := range names {
		parts := bytes.Split(p, []byte(name))
		if len(parts) == 1 {
			t.Fatalf("%s is not in the file", name)
		}
		for _, behind := range parts[1:] {
			behind[0] ^= 1
		}
	}
	return p
}
