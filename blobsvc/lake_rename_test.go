package blobsvc_test

import (
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
)

// What a rename does not use is refused; a key that is sent must be that of the file, if the file has one; a container
// that enforces its encryption scope takes only what is in one that enforces the same.
// https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/create
func TestLakeRenameHeaders(t *testing.T) {
	t.Parallel()
	key := keyHeaders("x-ms-encryption-", cpk(1))
	f := managed(t, accountprops.Blob{Hierarchical: true, Scopes: []string{"one", "two"}})
	enforced := []string{"x-ms-deny-encryption-scope-override", "true", "x-ms-default-encryption-scope"}
	for name, headers := range map[string][]string{"files": nil, "one": append(enforced[:3:3], "one"),
		"same": append(enforced[:3:3], "one"), "two": append(enforced[:3:3], "two")} {
		f.do("PUT", "/"+name+"?restype=container", "", headers...).want(t, 201, "")
		f.lakeDo("PUT", "/"+name+"/d/f?resource=file", "").want(t, 201, "")
	}
	f.lakeDo("PUT", "/files/key?resource=file", "", key...).want(t, 201, "")
	const (
		mismatch = "BlobCustomerSpecifiedEncryptionMismatch"
		kinds    = "InvalidSourceOrDestinationResourceType"
		refused  = "UnsupportedHeader"
		policy   = "RequestForbiddenByContainerEncryptionPolicy"
	)
	other := keyHeaders("x-ms-encryption-", cpk(2))
	for _, tc := range []struct {
		from, to string
		headers  []string
		status   int
		code     string
	}{
		{"/files/d", "/files/e", []string{"x-ms-umask", "0022"}, 400, refused},
		{"/files/d", "/files/e", []string{"x-ms-proposed-lease-id", "11111111-1111-1111-1111-111111111111"}, 400, refused},
		{"/files/d", "/files/e", []string{"x-ms-lease-duration", "15"}, 400, refused},
		{"/files/d", "/files/e?resource=file", nil, 409, kinds},
		{"/files/d/f", "/files/e?resource=directory", nil, 409, kinds},
		{"/files/d/f", "/files/e?resource=file", nil, 201, ""},
		{"/files/d", "/files/e?resource=directory&mode=legacy", nil, 409, kinds},
		{"/files/key", "/files/k", other, 409, mismatch},
		{"/files/key", "/files/k", key, 201, ""},
		{"/files/k", "/files/key", nil, 201, ""},
		{"/files/e", "/files/e2", other, 201, ""},
		{"/files/e2", "/files/e", nil, 201, ""},
		{"/files/e", "/one/e", nil, 403, policy},
		{"/two/d/f", "/one/e", nil, 403, policy},
		{"/same/d", "/one/e", nil, 201, ""},
		{"/one/e", "/files/from-one", nil, 201, ""},
	} {
		f.lakeDo("PUT", tc.to, "", append([]string{"x-ms-rename-source", tc.from}, tc.headers...)...).want(t, tc.status,
			tc.code)
	}
	f.lakeDo("PUT", "/files/new?resource=file", "", "x-ms-source-if-match", "*").want(t, 400, refused)
	f.lakeDo("GET", "/files/key", "", key...).want(t, 200, "")
	f.lakeDo("GET", "/files/from-one/f", "").want(t, 200, "")
}

// A tree has no tags: neither those of a request nor those of a copy's source.
func TestLakeHasNoTags(t *testing.T) {
	t.Parallel()
	f := managed(t, accountprops.Blob{Hierarchical: true})
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	const refused = "FeatureNotYetSupportedForHierarchicalNamespaceAccounts"
	f.do("PUT", "/box/c", "x", "x-ms-blob-type", "BlockBlob", "x-ms-tags", "k=v").want(t, 409, refused)
	source := []string{"x-ms-copy-source", f.base + "/box/b", "x-ms-requires-sync", "true", "x-ms-copy-source-tag-option"}
	f.do("PUT", "/box/c", "", append(source[:5:5], "COPY")...).want(t, 409, refused)
	f.do("PUT", "/box/c", "", append(source[:5:5], "REPLACE")...).want(t, 202, "")
}
