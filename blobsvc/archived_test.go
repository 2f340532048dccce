package blobsvc_test

import (
	"testing"
	"time"
)

// archivedCase is an operation on a blob in the archive, /box/b, with its answer.
type archivedCase struct {
	method, path, content string
	headers               []string
	status                int
	code                  string
	// leaving is the answer for a blob on its way out of the archive, if it is another one.
	leaving     int
	leavingCode string
}

// What an archived blob permits: its description can be read, its tags and tier changed, and it can be leased and
// deleted. Its content cannot be read or changed, nor its metadata and properties, and nothing replaces it: neither
// blocks (https://github.com/Azure/azure-storage-azcopy/issues/993) nor Put Blob
// (https://github.com/rclone/rclone/issues/3982). A blob on its way out of the archive is still there.
// https://learn.microsoft.com/azure/storage/blobs/access-tiers-overview#archive-access-tier
// https://learn.microsoft.com/rest/api/storageservices/set-blob-tier#remarks
func TestArchivedBlobs(t *testing.T) {
	t.Parallel()
	const (
		source   = "x-ms-copy-source"
		archived = "BlobArchived"
	)
	f := start(t)
	f.do("PUT", "/box?restype=container", "", "x-ms-blob-public-access", "blob").want(t, 201, "")
	f.do("PUT", "/box/online", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	online, sync := []string{source, f.base + "/box/online"}, []string{"x-ms-requires-sync", "true"}
	blob := []string{"x-ms-blob-type", "BlockBlob"}
	cases := []archivedCase{
		{method: "GET", path: "/box/b", status: 409, code: archived},
		{method: "GET", path: "/box/b", headers: []string{"x-ms-range", "bytes=0-0"}, status: 409, code: archived},
		{method: "POST", path: "/box/b?comp=query", content: sqlBody("SELECT * FROM BlobStorage"), status: 409,
			code: archived},
		{method: "GET", path: "/box/b?comp=blocklist", status: 409, code: archived},
		{method: "PUT", path: "/box/b?comp=snapshot", status: 409, code: archived},
		{method: "PUT", path: "/box/b?comp=metadata", headers: []string{"x-ms-meta-a", "2"}, status: 409, code: archived},
		{method: "PUT", path: "/box/b?comp=properties", headers: []string{"x-ms-blob-content-type", "a/b"}, status: 409,
			code: archived},

		// Nothing replaces it.
		{method: "PUT", path: "/box/b", content: "y", headers: blob, status: 409, code: archived},
		{method: "PUT", path: "/box/b", content: "y", headers: append(blob, "x-ms-access-tier", "Hot"), status: 409,
			code: archived},
		{method: "PUT", path: "/box/b", content: "y", headers: append(blob, "If-None-Match", "*"), status: 409,
			code: "BlobAlreadyExists"},
		{method: "PUT", path: "/box/b", content: "y", headers: append(blob, "If-Match", `"0x1"`), status: 412,
			code: "ConditionNotMet"},
		{method: "PUT", path: "/box/b", headers: append(blob, online...), status: 409, code: archived},
		{method: "PUT", path: "/box/b", headers: online, status: 409, code: archived},
		{method: "PUT", path: "/box/b", headers: append(sync, online...), status: 409, code: archived},
		{method: "PUT", path: "/box/b?comp=block&blockid=YQ==", content: "y", status: 409, code: archived},
		{method: "PUT", path: "/box/b?comp=block&blockid=YQ==", headers: online, status: 409, code: archived},
		{method: "PUT", path: "/box/b?comp=blocklist", content: "<BlockList></BlockList>", status: 409, code: archived},

		// As a source it can only be copied to an online tier.
		{method: "PUT", path: "/box/new", headers: []string{source, f.base + "/box/b"}, status: 409, code: archived},
		{method: "PUT", path: "/box/new?comp=block&blockid=YQ==", headers: []string{source, f.base + "/box/b"}, status: 409,
			code: "CannotVerifyCopySource"},
		{method: "PUT", path: "/box/b", headers: []string{source, f.base + "/box/b", "x-ms-access-tier", "Hot"}, status: 409,
			code: archived},
		{method: "PUT", path: "/box/new", headers: []string{source, f.base + "/box/b", "x-ms-access-tier", "Hot"},
			status: 202},
		{method: "DELETE", path: "/box/new", status: 202},

		{method: "HEAD", path: "/box/b", status: 200},
		{method: "GET", path: "/box/b?comp=metadata", status: 200},
		{method: "GET", path: "/box/b?comp=tags", status: 200},
		{method: "PUT", path: "/box/b?comp=tags", content: "<Tags><TagSet></TagSet></Tags>", status: 204},
		{method: "GET", path: "/box?restype=container&comp=list", status: 200},
		{method: "PUT", path: "/box/b?comp=lease", headers: []string{"x-ms-lease-action", "acquire", "x-ms-lease-duration",
			"-1", "x-ms-proposed-lease-id", "00000000-0000-0000-0000-000000000001"}, status: 201},
		{method: "PUT", path: "/box/b?comp=lease", headers: []string{"x-ms-lease-action", "release", "x-ms-lease-id",
			"00000000-0000-0000-0000-000000000001"}, status: 200},
		{method: "PUT", path: "/box/b?comp=tier", headers: []string{"x-ms-access-tier", "Archive"}, status: 200,
			leaving: 409, leavingCode: "BlobBeingRehydrated"},
		{method: "DELETE", path: "/box/b", status: 202},
	}
	walkArchived(t, f, f.do, cases, func() {
		f.do("PUT", "/box/b", "x", append(blob, "x-ms-access-tier", "Archive")...).want(t, 201, "")
	})
	f.do("PUT", "/box/b", "y", blob...).want(t, 201, "")
}

// The same on the dfs endpoint, whose appends and flushes are another way to write. Names and access control are not
// content: they can be changed.
func TestArchivedFiles(t *testing.T) {
	t.Parallel()
	const archived = "BlobArchived"
	f := lake(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	cases := []archivedCase{
		{method: "GET", path: "/box/b", status: 409, code: archived},
		{method: "PATCH", path: "/box/b?action=append&position=1", content: "y", status: 409, code: archived},
		{method: "PATCH", path: "/box/b?action=append&position=1&flush=true", content: "y", status: 409, code: archived},
		{method: "PATCH", path: "/box/b?action=flush&position=1", status: 409, code: archived},
		{method: "PATCH", path: "/box/b?action=setProperties", headers: []string{"x-ms-properties", "a=MQ=="}, status: 409,
			code: archived},
		{method: "PATCH", path: "/box/b?action=setProperties", headers: []string{"x-ms-content-type", "a/b"}, status: 409,
			code: archived},
		{method: "PUT", path: "/box/b?resource=file", status: 409, code: archived},
		{method: "HEAD", path: "/box/b", status: 200},
		{method: "HEAD", path: "/box/b?action=getStatus", status: 200},
		{method: "HEAD", path: "/box/b?action=getAccessControl", status: 200},
		{method: "PATCH", path: "/box/b?action=setAccessControl", headers: []string{"x-ms-permissions", "0777"},
			status: 200},
		{method: "GET", path: "/box?resource=filesystem&recursive=true", status: 200},
		{method: "PUT", path: "/box/c", headers: []string{"x-ms-rename-source", "/box/b"}, status: 201},
		{method: "PUT", path: "/box/b", headers: []string{"x-ms-rename-source", "/box/c"}, status: 201},
		{method: "DELETE", path: "/box/b", status: 200},
	}
	walkArchived(t, f, f.lakeDo, cases, func() {
		f.lakeDo("PUT", "/box/b?resource=file", "").want(t, 201, "")
		f.lakeDo("PATCH", "/box/b?action=append&position=0&flush=true", "x").want(t, 202, "")
		f.do("PUT", "/box/b?comp=tier", "", "x-ms-access-tier", "Archive").want(t, 200, "")
	})
	f.lakeDo("PATCH", "/box/b?action=append&position=1&flush=true", "y").want(t, 202, "")
}

// walkArchived sends the requests for a blob that write puts into the archive, and again for one on its way out of it.
// A refused one must leave the blob as it is. In the end /box/b is a blob that has arrived online.
func walkArchived(t *testing.T, f *fixture, do func(string, string, string, ...string) reply, cases []archivedCase,
	write func()) {
	t.Helper()
	for _, leaving := range []bool{false, true} {
		write()
		if leaving {
			f.do("PUT", "/box/b?comp=tier", "", "x-ms-access-tier", "Hot").want(t, 202, "")
		}
		for _, tc := range cases {
			if leaving && tc.leaving != 0 {
				tc.status, tc.code = tc.leaving, tc.leavingCode
			}
			before := f.do("HEAD", "/box/b", "").header
			got := do(tc.method, tc.path, tc.content, tc.headers...)
			if got.status != tc.status || got.code() != tc.code {
				t.Errorf("leaving %t: %s %s %q: %d %s, want %d %s", leaving, tc.method, tc.path, tc.headers, got.status,
					got.code(), tc.status, tc.code)
			}
			after := f.do("HEAD", "/box/b", "").header
			for _, h := range []string{"Etag", "Content-Type", "Content-Length", "X-Ms-Access-Tier", "X-Ms-Archive-Status",
				"X-Ms-Lease-State", "X-Ms-Meta-A"} {
				if got.status >= 400 && before.Get(h) != after.Get(h) {
					t.Errorf("leaving %t: %s %s was refused and has changed %s: %q, before %q", leaving, tc.method, tc.path, h,
						after.Get(h), before.Get(h))
				}
			}
		}
	}
	write()
	f.do("PUT", "/box/b?comp=tier", "", "x-ms-access-tier", "Hot").want(t, 202, "")
	f.advance(time.Hour)
	f.do("PUT", "/box/b?comp=metadata", "", "x-ms-meta-a", "2").want(t, 200, "")
	f.do("GET", "/box/b", "").want(t, 200, "")
}
