package events_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Changes of an account with a hierarchical namespace are events as Event Grid documents them: through the dfs endpoint
// with its operations and addresses, and directories with types of their own.
// https://learn.microsoft.com/azure/event-grid/event-schema-blob-storage
func TestLakeEvents(t *testing.T) {
	t.Parallel()
	receiver := newHook(t)
	f := start(t, []*hook{receiver}, func(c *server.Config) {
		key, err := auth.ParseKey(auth.DevelopmentKey)
		check.OK(t, err)
		c.Accounts, err = auth.NewManagedAccounts(accountprops.Blob{Hierarchical: true},
			auth.Account{Name: auth.DevelopmentAccount, Keys: []auth.Key{key}})
		check.OK(t, err)
	})
	f.subscribe(receiver, nil)
	base := f.stack.InProcessURL(wire.DataLake, auth.DevelopmentAccount)
	blobs := f.stack.InProcessURL(wire.Blob, auth.DevelopmentAccount)
	do := func(method, url, body string, headers ...string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		check.OK(t, err)
		r.Header.Set("x-ms-version", "2021-12-02")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		answer, err := f.stack.InProcess().RoundTrip(r)
		check.OK(t, err)
		defer answer.Body.Close()
		if answer.StatusCode >= 400 {
			t.Fatalf("%s %s: %s", method, url, answer.Status)
		}
	}
	do("PUT", base+"/photos/d?resource=directory", "")
	do("PUT", base+"/photos/d/f?resource=file", "", "x-ms-content-type", "text/plain")
	do("PATCH", base+"/photos/d/f?action=append&position=0", "hello")
	do("PATCH", base+"/photos/d/f?action=flush&position=5", "")
	do("PATCH", base+"/photos/d/f?action=append&position=5", "!")
	do("PATCH", base+"/photos/d/f?action=flush&position=6&close=true", "")
	do("PUT", base+"/photos/d/g", "", "x-ms-rename-source", "/photos/d/f")
	do("PUT", base+"/photos/e", "", "x-ms-rename-source", "/photos/d")
	do("PUT", base+"/photos/e/h?resource=file", "")
	do("PUT", base+"/photos/e/h", "", "x-ms-rename-source", "/photos/e/g")
	do("DELETE", base+"/photos/e/h", "")
	do("PUT", blobs+"/photos/e/b", "blob", "x-ms-blob-type", "BlockBlob")
	do("DELETE", base+"/photos/e?recursive=true", "")
	do("PUT", blobs+"/photos/empty", "", "x-ms-blob-type", "BlockBlob", "x-ms-meta-hdi_isfolder", "true")
	do("DELETE", blobs+"/photos/empty", "")
	f.flush()
	var got []string
	for _, r := range receiver.got() {
		for _, e := range r.events {
			text, err := json.Marshal(e["data"])
			check.OK(t, err)
			var d struct {
				API, URL, SourceURL, DestinationURL, Recursive string
				ContentLength, ContentOffset                   *int
				BlobType, Sequencer                            string
			}
			check.OK(t, json.Unmarshal(text, &d))
			line := strings.TrimPrefix(e["eventType"].(string), "Microsoft.Storage.") + " " + d.API + " " +
				strings.TrimPrefix(e["subject"].(string), "/blobServices/default/containers/")
			for _, s := range []string{d.URL, d.SourceURL, d.DestinationURL, d.Recursive, d.BlobType} {
				line += " " + strings.NewReplacer(base, "DFS", blobs, "BLOB").Replace(s)
			}
			for _, n := range []*int{d.ContentLength, d.ContentOffset} {
				if n != nil {
					line += fmt.Sprintf(" %d", *n)
				}
			}
			got = append(got, d.Sequencer+"|"+strings.Join(strings.Fields(line), " "))
		}
	}
	slices.Sort(got) // deliveries are concurrent
	for i := range got {
		_, got[i], _ = strings.Cut(got[i], "|")
	}
	want := []string{
		"DirectoryCreated CreateDirectory photos/blobs/d DFS/photos/d",
		"BlobCreated CreateFile photos/blobs/d/f DFS/photos/d/f BlockBlob 0 0",
		"BlobCreated FlushWithClose photos/blobs/d/f DFS/photos/d/f BlockBlob 6 6",
		"BlobRenamed RenameFile photos/blobs/d/g DFS/photos/d/f DFS/photos/d/g",
		"DirectoryRenamed RenameDirectory photos/blobs/e DFS/photos/d DFS/photos/e",
		"BlobCreated CreateFile photos/blobs/e/h DFS/photos/e/h BlockBlob 0 0",
		"BlobRenamed RenameFile photos/blobs/e/h DFS/photos/e/g DFS/photos/e/h",
		"BlobDeleted DeleteFile photos/blobs/e/h DFS/photos/e/h BlockBlob",
		"BlobCreated PutBlob photos/blobs/e/b BLOB/photos/e/b BlockBlob 4",
		"DirectoryDeleted DeleteDirectory photos/blobs/e DFS/photos/e true",
		"DirectoryCreated CreateDirectory photos/blobs/empty BLOB/photos/empty",
		"DirectoryDeleted DeleteDirectory photos/blobs/empty BLOB/photos/empty false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if len(events.DefaultTypes) != 8 {
		t.Errorf("a subscription gets %v", events.DefaultTypes)
	}
}
