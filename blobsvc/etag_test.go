package blobsvc_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
)

// step is a request: the method, path, content and headers of fixture.do.
type step struct {
	method, path, content string
	headers               []string
}

// The ETag and time that a write answers are those of the next read: a client sends them as conditions. The table has
// every operation that writes.
func TestAWriteAnswersTheETagOfTheNextRead(t *testing.T) {
	t.Parallel()
	var covered []string
	const box, b = "/box?restype=container", "/box/b"
	put := func(path, kind string, more ...string) step {
		content := ""
		if kind == "BlockBlob" {
			content = "content"
		}
		return step{"PUT", path, content, append([]string{"x-ms-blob-type", kind}, more...)}
	}
	block, appended := put(b, "BlockBlob"), put(b, "AppendBlob")
	page := put(b, "PageBlob", "x-ms-blob-content-length", "1024")
	text := []string{"x-ms-blob-type", "BlockBlob"}
	for _, c := range []struct {
		operation string
		before    []step
		write     step
		read      string // the path of the resource whose ETag is answered
	}{
		{"CreateContainer", nil, step{"PUT", "/other?restype=container", "", nil}, "/other?restype=container"},
		{"SetContainerMetadata", nil, step{"PUT", box + "&comp=metadata", "", []string{"x-ms-meta-a", "1"}}, box},
		{"SetContainerACL", nil, step{"PUT", box + "&comp=acl", "",
			[]string{"x-ms-blob-public-access", "container"}}, box},
		{"LeaseContainer", nil, step{"PUT", box + "&comp=lease", "",
			[]string{"x-ms-lease-action", "acquire", "x-ms-lease-duration", "15"}}, box},
		{"PutBlob", nil, block, b},
		{"PutBlob", []step{appended}, appended, b},
		{"PutBlob", nil, page, b},
		{"PutBlobFromURL", []step{put("/box/src", "BlockBlob")}, step{"PUT", b, "",
			append([]string{"x-ms-copy-source", "SOURCE"}, text...)}, b},
		{"CopyBlob", []step{put("/box/src", "BlockBlob")}, step{"PUT", b, "", []string{"x-ms-copy-source", "SOURCE"}}, b},
		{"CopyBlobFromURL", []step{put("/box/src", "BlockBlob")}, step{"PUT", b, "",
			[]string{"x-ms-copy-source", "SOURCE", "x-ms-requires-sync", "true"}}, b},
		{"SetBlobProperties", []step{block}, step{"PUT", b + "?comp=properties", "",
			[]string{"x-ms-blob-content-type", "text/plain"}}, b},
		{"SetBlobProperties", []step{page}, step{"PUT", b + "?comp=properties", "",
			[]string{"x-ms-blob-content-length", "512"}}, b},
		{"SetBlobMetadata", []step{block}, step{"PUT", b + "?comp=metadata", "", []string{"x-ms-meta-a", "1"}}, b},
		{"LeaseBlob", []step{block}, step{"PUT", b + "?comp=lease", "",
			[]string{"x-ms-lease-action", "acquire", "x-ms-lease-duration", "15"}}, b},
		{"SnapshotBlob", []step{block}, step{"PUT", b + "?comp=snapshot", "", nil}, b},
		{"SnapshotBlob", []step{block}, step{"PUT", b + "?comp=snapshot", "", []string{"x-ms-meta-a", "1"}},
			b + "?snapshot="},
		{"SetBlobExpiry", []step{block}, step{"PUT", b + "?comp=expiry", "",
			[]string{"x-ms-expiry-option", "RelativeToNow", "x-ms-expiry-time", "3600000"}}, b},
		{"PutBlockList", []step{{"PUT", b + "?comp=block&blockid=YQ==", "one", nil}},
			step{"PUT", b + "?comp=blocklist",
				"<BlockList><Latest>YQ==</Latest></BlockList>", nil}, b},
		{"PutPage", []step{page}, step{"PUT", b + "?comp=page", strings.Repeat("p", 512),
			[]string{"x-ms-page-write", "update", "x-ms-range", "bytes=0-511"}}, b},
		{"PutPage", []step{page}, step{"PUT", b + "?comp=page", "",
			[]string{"x-ms-page-write", "clear", "x-ms-range", "bytes=0-511"}}, b},
		{"PutPageFromURL", []step{page, {"PUT", "/box/src", strings.Repeat("p", 512), text}}, step{"PUT",
			b + "?comp=page", "", []string{"x-ms-page-write", "update", "x-ms-range", "bytes=0-511",
				"x-ms-source-range", "bytes=0-511", "x-ms-copy-source", "SOURCE"}}, b},
		{"AppendBlock", []step{appended}, step{"PUT", b + "?comp=appendblock", "x", nil}, b},
		{"AppendBlockFromURL", []step{appended, put("/box/src", "BlockBlob")}, step{"PUT", b + "?comp=appendblock", "",
			[]string{"x-ms-copy-source", "SOURCE"}}, b},
		{"SealAppendBlob", []step{appended}, step{"PUT", b + "?comp=seal", "", nil}, b},
	} {
		covered = append(covered, c.operation)
		t.Run(c.operation, func(t *testing.T) {
			t.Parallel()
			f := managed(t, accountprops.Blob{Expiry: true})
			f.t = t
			f.do("PUT", box, "", "x-ms-blob-public-access", "blob").want(t, 201, "") // so that sources can be read
			send := func(s step) reply {
				headers := slices.Clone(s.headers)
				for i, h := range headers {
					if h == "SOURCE" {
						headers[i] = f.base + "/box/src"
					}
				}
				return f.do(s.method, s.path, s.content, headers...)
			}
			for _, s := range c.before {
				if r := send(s); r.status >= 300 {
					t.Fatalf("%s %s: %d %s", s.method, s.path, r.status, r.body)
				}
			}
			wrote := send(c.write)
			if wrote.status >= 300 {
				t.Fatalf("%s %s: %d %s", c.write.method, c.write.path, wrote.status, wrote.body)
			}
			path := c.read
			if strings.HasSuffix(path, "?snapshot=") {
				path += wrote.header.Get("x-ms-snapshot") // with metadata of its own it has an ETag of its own
			}
			read := f.do("HEAD", path, "").want(t, 200, "")
			for _, name := range []string{"ETag", "Last-Modified"} {
				if got := wrote.header.Get(name); got == "" || got != read.header.Get(name) {
					t.Errorf("the write answers %s %q, the next read %q", name, got, read.header.Get(name))
				}
			}
		})
	}
	// What answers no ETag of a resource that can be read afterwards.
	without := strings.Fields(`SetBlobServiceProperties RestoreContainer RenameContainer SetBlobTags AbortCopyBlob
		UndeleteBlob SetBlobTier SetBlobImmutabilityPolicy SetBlobLegalHold PutBlock PutBlockFromURL
		IncrementalCopyBlob`)
	for _, row := range blobsvc.Rows() {
		if row.Method == http.MethodPut && row.State != frontend.NotImplemented && !slices.Contains(covered, row.Name) &&
			!slices.Contains(without, row.Name) {
			t.Errorf("%s writes and is not in the table", row.Name)
		}
	}
}
