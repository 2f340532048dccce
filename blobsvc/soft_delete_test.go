package blobsvc_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
)

func (f *fixture) keepDeleted(days int, more string) {
	f.t.Helper()
	policy := "<Enabled>false</Enabled>"
	if days > 0 {
		policy = fmt.Sprintf("<Enabled>true</Enabled><Days>%d</Days>%s", days, more)
	}
	f.do("PUT", "/?restype=service&comp=properties", "<StorageServiceProperties><DeleteRetentionPolicy>"+policy+
		"</DeleteRetentionPolicy></StorageServiceProperties>").want(f.t, 202, "")
}

func TestUndeleteBlob(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.keepDeleted(2, "")
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	list := func(include string) []string {
		return f.listAll("box", url.Values{"include": {include}}, 2)
	}
	put := func(content string) {
		f.do("PUT", "/box/b", content, "x-ms-blob-type", "BlockBlob", "x-ms-tags", "k=v").want(t, 201, "")
	}
	f.do("PUT", "/box/b?comp=undelete", "").want(t, 404, "BlobNotFound")
	put("one")
	f.do("PUT", "/box/b?comp=snapshot", "").want(t, 201, "")
	r := f.do("DELETE", "/box/b", "", "x-ms-delete-snapshots", "include").want(t, 202, "")
	if r.header.Get("x-ms-delete-type-permanent") != "false" {
		t.Errorf("headers %v", r.header)
	}
	for _, method := range []string{"GET", "HEAD", "DELETE"} {
		f.do(method, "/box/b", "").want(t, 404, "BlobNotFound")
	}
	f.do("PUT", "/box/b?comp=snapshot", "").want(t, 404, "BlobNotFound")
	f.do("PUT", "/box/b", "", "x-ms-blob-type", "BlockBlob", "If-Match", "*").want(t, 412, "ConditionNotMet")
	if got := list("snapshots"); len(got) != 0 {
		t.Errorf("listed %v", got)
	}
	if diff := cmp.Diff([]string{"b@", "b"}, list("snapshots,deleted")); diff != "" {
		t.Error(diff)
	}
	if r := f.do("GET", "/box?restype=container&comp=list&include=deleted", ""); !strings.Contains(r.body,
		"<Deleted>true</Deleted>") ||
		!strings.Contains(r.body, "<RemainingRetentionDays>1</RemainingRetentionDays>") ||
		!strings.Contains(r.body, "<DeletedTime>") {
		t.Error(r.body)
	}
	f.do("PUT", "/box/b?comp=undelete", "").want(t, 200, "")
	if r := f.do("GET", "/box/b", "").want(t, 200, ""); r.body != "one" || r.header.Get("x-ms-tag-count") != "1" {
		t.Errorf("%q %v", r.body, r.header)
	}
	if diff := cmp.Diff([]string{"b@", "b"}, list("snapshots")); diff != "" {
		t.Error(diff)
	}
	// What is overwritten stays as a deleted snapshot, and so does what was deleted before.
	put("two")
	f.do("DELETE", "/box/b", "", "x-ms-delete-snapshots", "include").want(t, 202, "")
	put("three")
	if diff := cmp.Diff([]string{"b"}, list("snapshots")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b@", "b@", "b@", "b"}, list("snapshots,deleted")); diff != "" {
		t.Error(diff)
	}
	f.do("PUT", "/box/b?comp=undelete", "").want(t, 200, "")
	if r := f.do("GET", "/box/b", "").want(t, 200, ""); r.body != "three" {
		t.Errorf("content %q", r.body)
	}
	if diff := cmp.Diff([]string{"b@", "b@", "b@", "b"}, list("snapshots")); diff != "" {
		t.Error(diff)
	}
}

func TestRetentionEnds(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.keepDeleted(3, "")
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	for _, name := range []string{"a", "b", "c"} {
		f.do("PUT", "/box/"+name, strings.Repeat(name, 1000), "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	}
	f.do("DELETE", "/box/a", "").want(t, 202, "")
	f.advance(48 * time.Hour)
	f.do("DELETE", "/box/b", "").want(t, 202, "")
	f.advance(25 * time.Hour)
	if err := f.parts.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	f.do("PUT", "/box/a?comp=undelete", "").want(t, 404, "BlobNotFound")
	f.do("PUT", "/box/b?comp=undelete", "").want(t, 200, "")
	f.do("GET", "/box/b", "").want(t, 200, "")
	f.keepDeleted(0, "")
	if r := f.do("DELETE", "/box/c", "").want(t, 202, ""); r.header.Get("x-ms-delete-type-permanent") != "true" {
		t.Errorf("headers %v", r.header)
	}
	f.do("PUT", "/box/c?comp=undelete", "").want(t, 404, "BlobNotFound")
}

func TestDeletePermanently(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.keepDeleted(3, "<AllowPermanentDelete>true</AllowPermanentDelete>")
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	at := "/box/b?snapshot=" + f.do("PUT", "/box/b?comp=snapshot", "").want(t, 201, "").header.Get("x-ms-snapshot")
	f.do("DELETE", at+"&deletetype=permanent", "").want(t, 409, "BlobSnapshotNotSoftDeleted")
	f.do("DELETE", "/box/b?deletetype=permanent", "").want(t, 409, "OperationNotAllowedOnSoftDeletedBlob")
	f.do("DELETE", at, "").want(t, 202, "")
	f.anonymous("DELETE", at+"&deletetype=permanent&"+accountSAS(t, "d")).want(t, 403, "AuthorizationPermissionMismatch")
	f.anonymous("DELETE", at+"&deletetype=permanent&"+accountSAS(t, "dy")).want(t, 202, "")
	f.do("PUT", "/box/b?comp=undelete", "").want(t, 200, "")
	f.do("GET", at, "").want(t, 404, "BlobNotFound")
	// A container goes with all that is deleted in it.
	f.do("DELETE", "/box/b", "").want(t, 202, "")
	f.do("DELETE", "/box?restype=container", "").want(t, 202, "")
	if err := f.parts.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	if a := must(f.parts.State.Maintenance.Audit(func(err error) { t.Error(err) }))(t); a.Blobs+a.Snapshots != 0 {
		t.Errorf("%+v", a)
	}
}

// accountSAS is a token for blobs with these permissions.
func accountSAS(t *testing.T, permissions string) string {
	t.Helper()
	key := must(azblob.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey))(t)
	values := sas.AccountSignatureValues{ExpiryTime: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC), Permissions: permissions,
		ResourceTypes: "co"}
	q := must(values.SignWithSharedKey(key))(t)
	return q.Encode()
}
