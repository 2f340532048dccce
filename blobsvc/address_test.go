package blobsvc_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Every operation that reads takes a version.
func TestReadVersions(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	box := f.container()
	b := box.NewBlockBlobClient("b")
	must(b.StageBlock(ctx, blockName(1), body("one"), nil))(t)
	one := must(b.CommitBlockList(ctx, []string{blockName(1)},
		&blockblob.CommitBlockListOptions{Metadata: map[string]*string{"k": to.Ptr("one")}}))(t)
	must(b.StageBlock(ctx, blockName(2), body("second"), nil))(t)
	must(b.CommitBlockList(ctx, []string{blockName(2)}, nil))(t)
	must(b.StageBlock(ctx, blockName(3), body("x"), nil))(t)
	old := must(b.WithVersionID(*one.VersionID))(t)
	list := must(old.GetBlockList(ctx, blockblob.BlockListTypeAll, nil))(t)
	if len(list.CommittedBlocks) != 1 || *list.CommittedBlocks[0].Name != blockName(1) ||
		len(list.UncommittedBlocks) != 0 {
		t.Errorf("%+v", list)
	}
	at := pathOf(t, b.URL()) + "?versionid=" + *one.VersionID
	if r := f.do("GET", at+"&comp=metadata", "").want(t, 200, ""); r.header.Get("x-ms-meta-k") != "one" {
		t.Errorf("%v", r.header)
	}
	if r := f.do("GET", at, "", "x-ms-range", "bytes=1-1").want(t, 206, ""); r.body != "n" {
		t.Errorf("range %q", r.body)
	}
	// Conditions are about the version.
	f.do("GET", at, "", "If-Match", string(*one.ETag)).want(t, 200, "")
	f.do("GET", pathOf(t, b.URL()), "", "If-Match", string(*one.ETag)).want(t, 412, "ConditionNotMet")
	f.do("DELETE", at, "", "If-None-Match", string(*one.ETag)).want(t, 412, "ConditionNotMet")
	f.do("GET", at, "", "x-ms-lease-id", "6a0d0d3c-0000-4000-8000-000000000000").want(t, 412,
		"LeaseNotPresentWithBlobOperation")
	f.do("PUT", at+"&comp=block&blockid=YQ==", "x").want(t, 400, "InvalidQueryParameterValue")
	f.do("PUT", at+"&comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1").want(t, 400,
		"InvalidQueryParameterValue")
	f.do("PUT", at+"&comp=snapshot", "").want(t, 400, "InvalidQueryParameterValue")
	f.do("PUT", at+"&comp=undelete", "").want(t, 400, "InvalidQueryParameterValue")

	p := box.NewPageBlobClient("p")
	first := must(p.Create(ctx, 1024, nil))(t)
	must(p.UploadPages(ctx, body(strings.Repeat("p", 512)), blob.HTTPRange{Count: 512}, nil))(t)
	must(p.SetMetadata(ctx, nil, nil))(t)
	must(p.ClearPages(ctx, blob.HTTPRange{Count: 1024}, nil))(t)
	ranges := must(must(p.WithVersionID(*first.VersionID))(t).NewGetPageRangesPager(
		&pageblob.GetPageRangesOptions{}).NextPage(ctx))(t)
	if len(ranges.PageRange) != 1 || *ranges.PageRange[0].End != 511 {
		t.Errorf("%+v", ranges.PageRange)
	}
}

// Operations on the base blob refuse a snapshot in the URL, rather than act on the base blob all the same.
func TestWritesRefuseSnapshots(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "base", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	at := f.do("PUT", "/box/b?comp=snapshot", "").want(t, 201, "").header.Get("x-ms-snapshot")
	for _, tc := range []struct {
		name, query, body string
		headers           []string
	}{
		{"Put Blob", "", "x", []string{"x-ms-blob-type", "BlockBlob"}},
		{"Set Blob Metadata", "&comp=metadata", "", []string{"x-ms-meta-k", "v"}},
		{"Set Blob Properties", "&comp=properties", "", []string{"x-ms-blob-content-type", "text/html"}},
		{"Lease Blob", "&comp=lease", "", []string{"x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1"}},
		{"Snapshot Blob", "&comp=snapshot", "", nil},
		{"Undelete Blob", "&comp=undelete", "", nil},
		{"Put Block", "&comp=block&blockid=YQ==", "x", nil},
		{"Put Block List", "&comp=blocklist", "<BlockList/>", nil},
		{"Copy Blob", "", "", []string{"x-ms-copy-source", f.base + "/box/b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.do("PUT", "/box/b?snapshot="+at+tc.query, tc.body, tc.headers...).want(t, 400, "InvalidQueryParameterValue")
		})
	}
	if r := f.do("GET", "/box/b", "").want(t, 200, ""); r.body != "base" {
		t.Errorf("the base blob is %q", r.body)
	}
}

// A batch deletes versions, and sets their tiers.
func TestBatchOfVersions(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	box := f.container()
	b := box.NewBlockBlobClient("b")
	var ids []string
	for _, text := range []string{"one", "two", "three"} {
		ids = append(ids, *must(b.Upload(ctx, body(text), nil))(t).VersionID)
	}
	tiers := must(box.NewBatchBuilder())(t)
	if err := tiers.SetTier("b", blob.AccessTierCool, &container.BatchSetTierOptions{VersionID: &ids[0]}); err != nil {
		t.Fatal(err)
	}
	must(box.SubmitBatch(ctx, tiers, nil))(t)
	if p := must(must(b.WithVersionID(ids[0]))(t).GetProperties(ctx, nil))(t); *p.AccessTier != "Cool" {
		t.Errorf("tier %s", *p.AccessTier)
	}
	batch := must(box.NewBatchBuilder())(t)
	for i := range ids {
		if err := batch.Delete("b", &container.BatchDeleteOptions{VersionID: &ids[i]}); err != nil {
			t.Fatal(err)
		}
	}
	var codes []string
	for _, r := range must(box.SubmitBatch(ctx, batch, nil))(t).Responses {
		if r.Error == nil {
			codes = append(codes, "")
			continue
		}
		wantCode(t, r.Error, 403, "OperationNotAllowedOnRootBlob")
		codes = append(codes, "root")
	}
	if diff := cmp.Diff([]string{"", "", "root"}, codes); diff != "" {
		t.Error(diff)
	}
	wantVersions(t, box, "b "+ids[2]+"*")
}

// A token for a version is good for that one alone.
func TestVersionToken(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	var ids []string
	for _, text := range []string{"one", "two", "three"} {
		ids = append(ids, f.do("PUT", "/box/b", text, "x-ms-blob-type", "BlockBlob").want(t, 201,
			"").header.Get("x-ms-version-id"))
	}
	// The SDK for Go signs no token for a version that a server could accept: it leaves the version out.
	key := must(auth.ParseKey(auth.DevelopmentKey))(t)
	q := must(auth.Token{Permissions: "rx", Expiry: "2099-01-01T00:00:00Z", Resource: "bv", Snapshot: ids[0]}.
		Sign(auth.DevelopmentAccount, key, wire.Blob, "box/b"))(t)
	token := "&" + q
	if r := f.anonymous("GET", "/box/b?versionid="+ids[0]+token).want(t, 200, ""); r.body != "one" {
		t.Errorf("content %q", r.body)
	}
	f.anonymous("GET", "/box/b?versionid="+ids[1]+token).want(t, 403, "AuthenticationFailed")
	f.anonymous("GET", "/box/b?"+token[1:]).want(t, 403, "AuthenticationFailed")
	// As a copy's source it reads the version.
	f.do("PUT", "/box/copy", "", "x-ms-copy-source", f.base+"/box/b?versionid="+ids[0]+token).want(t, 202, "")
	if r := f.do("GET", "/box/copy", "").want(t, 200, ""); r.body != "one" {
		t.Errorf("copied %q", r.body)
	}
	f.anonymous("DELETE", "/box/b?versionid="+ids[0]+token).want(t, 202, "")
	f.do("GET", "/box/b?versionid="+ids[0], "").want(t, 404, "BlobNotFound")
}

// Containers with a meaning of their own have versions as any other; what the system writes has none.
func TestVersionsInSpecialContainers(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	for _, name := range []string{"$web", "$root"} {
		f.do("PUT", "/"+name+"?restype=container", "").want(t, 201, "")
	}
	for _, at := range []string{"/$web/b", "/b"} {
		if r := f.do("PUT", at, "x", "x-ms-blob-type", "BlockBlob").want(t, 201, ""); r.header.Get("x-ms-version-id") == "" {
			t.Errorf("%s has no version", at)
		}
	}
	for _, target := range []string{"/devstoreaccount1/$logs?restype=container", "/devstoreaccount1/$logs/b",
		"/devstoreaccount1/$logs/b"} {
		hr := httptest.NewRequestWithContext(wire.WithSystem(ctx), "PUT", target, http.NoBody)
		hr.Header.Set("x-ms-blob-type", "BlockBlob")
		hr.Header.Set("x-ms-version", "2021-12-02")
		w := httptest.NewRecorder()
		f.svc.Handler().ServeHTTP(w, hr)
		if w.Code != 201 || w.Header().Get("x-ms-version-id") != "" {
			t.Errorf("%s: %d %v", target, w.Code, w.Header())
		}
	}
	if r := f.do("GET", "/$logs?restype=container&comp=list&include=versions", "").want(t, 200, ""); strings.Count(r.body,
		"<Blob>") != 1 {
		t.Error(r.body)
	}
}
