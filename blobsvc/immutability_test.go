package blobsvc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

func startImmutable(t testing.TB) *fixture {
	t.Helper()
	return managed(t, accountprops.Blob{Versioning: true, Immutability: true})
}

var (
	unlocked = to.Ptr(blob.ImmutabilityPolicySettingUnlocked)
	locked   = to.Ptr(blob.ImmutabilityPolicySettingLocked)
)

func TestSetBlobImmutabilityPolicy(t *testing.T) {
	t.Parallel()
	f := startImmutable(t)
	box := f.container()
	if p := must(box.GetProperties(ctx, nil))(t); !*p.IsImmutableStorageWithVersioningEnabled ||
		*p.HasImmutabilityPolicy || *p.HasLegalHold {
		t.Errorf("%+v", p)
	}
	b := box.NewBlockBlobClient("b")
	one := must(b.Upload(ctx, body("one"), nil))(t)
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	r := must(b.SetImmutabilityPolicy(ctx, until, &blob.SetImmutabilityPolicyOptions{Mode: unlocked}))(t)
	if !r.ImmutabilityPolicyExpiry.Equal(until) || *r.ImmutabilityPolicyMode != "unlocked" {
		t.Errorf("%+v", r)
	}
	p := must(b.GetProperties(ctx, nil))(t)
	if !p.ImmutabilityPolicyExpiresOn.Equal(until) || *p.ImmutabilityPolicyMode != "unlocked" || *p.ETag != *one.ETag {
		t.Errorf("%+v", p)
	}
	pager := box.NewListBlobsFlatPager(
		&container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{ImmutabilityPolicy: true, LegalHold: true}})
	item := must(pager.NextPage(ctx))(t).Segment.BlobItems[0].Properties
	if !item.ImmutabilityPolicyExpiresOn.Equal(until) || *item.ImmutabilityPolicyMode != "unlocked" ||
		item.LegalHold != nil {
		t.Errorf("%+v", item)
	}
	_, err := b.Delete(ctx, nil)
	wantCode(t, err, 409, "BlobImmutableDueToPolicy")
	_, err = b.SetMetadata(ctx, nil, nil)
	wantCode(t, err, 409, "BlobImmutableDueToPolicy")
	must(b.SetTier(ctx, blob.AccessTierCool, nil))(t)
	must(b.SetTags(ctx, map[string]string{"a": "b"}, nil))(t)
	// Overwriting makes a version without a policy; the old one keeps its own.
	must(b.Upload(ctx, body("two"), nil))(t)
	if p := must(b.GetProperties(ctx, nil))(t); p.ImmutabilityPolicyMode != nil {
		t.Errorf("%+v", p)
	}
	old := must(b.WithVersionID(*one.VersionID))(t)
	_, err = old.Delete(ctx, nil)
	wantCode(t, err, 409, "BlobImmutableDueToPolicy")
	must(b.SetMetadata(ctx, nil, nil))(t)
	// An unlocked policy can be shortened and deleted.
	must(old.SetImmutabilityPolicy(ctx, until.Add(-time.Minute), nil))(t)
	must(old.DeleteImmutabilityPolicy(ctx, nil))(t)
	must(old.Delete(ctx, nil))(t)
	// A locked one only prolonged.
	must(b.SetImmutabilityPolicy(ctx, until, &blob.SetImmutabilityPolicyOptions{Mode: locked}))(t)
	_, err = b.SetImmutabilityPolicy(ctx, until.Add(-time.Second), &blob.SetImmutabilityPolicyOptions{Mode: locked})
	wantCode(t, err, 409, "BlobImmutableDueToPolicy")
	_, err = b.SetImmutabilityPolicy(ctx, until.Add(time.Hour), &blob.SetImmutabilityPolicyOptions{Mode: unlocked})
	wantCode(t, err, 409, "BlobImmutableDueToPolicy")
	if r := must(b.SetImmutabilityPolicy(ctx, until.Add(time.Hour), nil))(t); *r.ImmutabilityPolicyMode != "locked" {
		t.Errorf("%+v", r)
	}
	_, err = box.NewBlobClient("none").SetImmutabilityPolicy(ctx, until, nil)
	wantCode(t, err, 404, "BlobNotFound")
	_, err = box.Delete(ctx, nil)
	wantCode(t, err, 409, "ContainerImmutableStorageWithVersioningEnabled")
	past := time.Now().Add(-time.Hour)
	_, err = b.SetImmutabilityPolicy(ctx, until.Add(2*time.Hour),
		&blob.SetImmutabilityPolicyOptions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfUnmodifiedSince: &past}})
	wantCode(t, err, 412, "ConditionNotMet")
}

func TestDeleteBlobImmutabilityPolicy(t *testing.T) {
	t.Parallel()
	f := startImmutable(t)
	box := f.container()
	b := box.NewBlockBlobClient("b")
	_, err := b.DeleteImmutabilityPolicy(ctx, nil)
	wantCode(t, err, 404, "BlobNotFound")
	must(b.Upload(ctx, body("one"), nil))(t)
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	must(b.SetImmutabilityPolicy(ctx, until, nil))(t)
	for range 2 { // the second has nothing to delete, and succeeds
		must(b.DeleteImmutabilityPolicy(ctx, nil))(t)
		if p := must(b.GetProperties(ctx, nil))(t); p.ImmutabilityPolicyMode != nil {
			t.Errorf("%+v", p)
		}
	}
	must(b.SetMetadata(ctx, nil, nil))(t)
	must(b.SetImmutabilityPolicy(ctx, until, &blob.SetImmutabilityPolicyOptions{Mode: locked}))(t)
	_, err = b.DeleteImmutabilityPolicy(ctx, nil)
	wantCode(t, err, 409, "ImmutabilityPolicyDeleteOnLockedPolicy")
}

func TestImmutabilityRequests(t *testing.T) {
	t.Parallel()
	f := startImmutable(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	soon := f.now().Add(time.Hour).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
	policy, hold := "/box/b?comp=immutabilityPolicies", "/box/b?comp=legalhold"
	f.do("PUT", policy, "").want(t, 400, "MissingRequiredHeader")
	f.do("PUT", policy, "", "x-ms-immutability-policy-mode", "unlocked").want(t, 400, "MissingRequiredHeader")
	f.do("PUT", policy, "", "x-ms-immutability-policy-until-date", "tomorrow").want(t, 400, "InvalidHeaderValue")
	f.do("PUT", policy, "", "x-ms-immutability-policy-until-date", "Mon, 02 Jan 2006 15:04:05 GMT").want(t, 400,
		"InvalidHeaderValue")
	f.do("PUT", policy, "", "x-ms-immutability-policy-until-date", soon, "x-ms-immutability-policy-mode",
		"mutable").want(t, 400, "InvalidHeaderValue")
	f.do("PUT", hold, "").want(t, 400, "MissingRequiredHeader")
	f.do("PUT", hold, "", "x-ms-legal-hold", "maybe").want(t, 400, "InvalidHeaderValue")
	f.do("PUT", "/box/c", "x", "x-ms-blob-type", "BlockBlob", "x-ms-immutability-policy-mode", "unlocked").want(t, 400,
		"MissingRequiredHeader")
	f.anonymous("PUT", policy+"&"+accountSAS(t, "rwd"), "x-ms-immutability-policy-until-date", soon).want(t, 403,
		"AuthorizationPermissionMismatch")
	f.anonymous("PUT", policy+"&"+accountSAS(t, "i"), "x-ms-immutability-policy-until-date", soon).want(t, 200, "")
	f.anonymous("PUT", "/box/sas?"+accountSAS(t, "cw"), "x-ms-blob-type", "BlockBlob", "x-ms-legal-hold", "true").want(t,
		403, "AuthorizationPermissionMismatch")
	f.anonymous("PUT", "/box/sas?"+accountSAS(t, "cw"), "x-ms-blob-type", "BlockBlob", "x-ms-legal-hold", "false").want(t,
		201, "")
	f.anonymous("PUT", "/box/sas?"+accountSAS(t, "cwi"), "x-ms-blob-type", "BlockBlob", "x-ms-legal-hold", "true").want(t,
		201, "")
	f.do("PUT", policy+"&versionid=2020-01-01T00:00:00.0000000Z", "", "x-ms-immutability-policy-until-date", soon).want(t,
		404, "BlobNotFound")
	// The policy ends by itself, but what it covered is not changed in place after that either.
	f.do("DELETE", "/box/b", "").want(t, 409, "BlobImmutableDueToPolicy")
	f.advance(2 * time.Hour)
	f.do("PUT", "/box/b?comp=metadata", "", "x-ms-meta-a", "b").want(t, 409, "BlobImmutableDueToPolicy")
	f.do("DELETE", "/box/b", "").want(t, 202, "")
}

func TestSetBlobLegalHold(t *testing.T) {
	t.Parallel()
	f := startImmutable(t)
	box := f.container()
	b := box.NewBlockBlobClient("b")
	one := must(b.Upload(ctx, body("one"), nil))(t)
	if r := must(b.SetLegalHold(ctx, true, nil))(t); !*r.LegalHold {
		t.Errorf("%+v", r)
	}
	if p := must(b.GetProperties(ctx, nil))(t); !*p.LegalHold {
		t.Errorf("%+v", p)
	}
	pager := box.NewListBlobsFlatPager(
		&container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{LegalHold: true}})
	if item := must(pager.NextPage(ctx))(t).Segment.BlobItems[0].Properties; !*item.LegalHold {
		t.Errorf("%+v", item)
	}
	_, err := b.Delete(ctx, nil)
	wantCode(t, err, 409, "BlobImmutableDueToLegalHold")
	must(b.Upload(ctx, body("two"), nil))(t)
	old := must(b.WithVersionID(*one.VersionID))(t)
	_, err = old.Delete(ctx, nil)
	wantCode(t, err, 409, "BlobImmutableDueToLegalHold")
	must(old.SetLegalHold(ctx, false, nil))(t)
	must(old.Delete(ctx, nil))(t)
	p := box.NewPageBlobClient("p")
	must(p.Create(ctx, 1024, nil))(t)
	must(p.SetLegalHold(ctx, true, nil))(t)
	_, err = p.UploadPages(ctx, body(strings.Repeat("p", 512)), blob.HTTPRange{Count: 512}, nil)
	wantCode(t, err, 409, "BlobImmutableDueToLegalHold")
	_, err = p.Resize(ctx, 512, nil)
	wantCode(t, err, 409, "BlobImmutableDueToLegalHold")
	a := box.NewAppendBlobClient("a")
	must(a.Create(ctx, nil))(t)
	must(a.SetLegalHold(ctx, true, nil))(t)
	_, err = a.AppendBlock(ctx, body("x"), nil)
	wantCode(t, err, 409, "BlobImmutableDueToLegalHold")
	// A snapshot is protected on its own.
	snap := must(a.CreateSnapshot(ctx, nil))(t)
	must(must(a.BlobClient().WithSnapshot(*snap.Snapshot))(t).Delete(ctx, nil))(t)
}

// What is written can be protected from the first moment.
func TestWriteProtected(t *testing.T) {
	t.Parallel()
	f := startImmutable(t)
	box := f.container()
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	src := box.NewBlockBlobClient("src")
	must(src.Upload(ctx, body("src"), nil))(t)
	for what, write := range map[string]func(*blockblob.Client) error{
		"put": func(b *blockblob.Client) error {
			_, err := b.Upload(ctx, body("x"),
				&blockblob.UploadOptions{ImmutabilityPolicyExpiryTime: &until, ImmutabilityPolicyMode: locked,
					LegalHold: to.Ptr(true)})
			return err
		},
		"commit": func(b *blockblob.Client) error {
			must(b.StageBlock(ctx, blockName(1), body("x"), nil))(t)
			_, err := b.CommitBlockList(ctx, []string{blockName(1)},
				&blockblob.CommitBlockListOptions{ImmutabilityPolicyExpiryTime: &until, ImmutabilityPolicyMode: locked,
					LegalHold: to.Ptr(true)})
			return err
		},
		"copy": func(b *blockblob.Client) error {
			_, err := b.StartCopyFromURL(ctx, src.URL(),
				&blob.StartCopyFromURLOptions{ImmutabilityPolicyExpiry: &until, ImmutabilityPolicyMode: locked,
					LegalHold: to.Ptr(true)})
			return err
		},
		"copynow": func(b *blockblob.Client) error {
			_, err := b.CopyFromURL(ctx, src.URL(),
				&blob.CopyFromURLOptions{ImmutabilityPolicyExpiry: &until, ImmutabilityPolicyMode: locked, LegalHold: to.Ptr(true)})
			return err
		},
	} {
		b := box.NewBlockBlobClient(what)
		if err := write(b); err != nil {
			t.Fatal(what, err)
		}
		if p := must(b.GetProperties(ctx, nil))(t); !p.ImmutabilityPolicyExpiresOn.Equal(until) ||
			*p.ImmutabilityPolicyMode != "locked" || !*p.LegalHold {
			t.Errorf("%s: %+v", what, p)
		}
		must(b.SetLegalHold(ctx, false, nil))(t)
		_, err := b.Delete(ctx, nil)
		wantCode(t, err, 409, "BlobImmutableDueToPolicy")
	}
}

// Where versions are no longer kept, what is protected and no version is not overwritten.
func TestProtectedWithoutVersions(t *testing.T) {
	t.Parallel()
	on := true
	f := startWith(t, func(c *blobhost.Config) { manage(c, accountprops.Blob{Versioning: on, Immutability: on}) })
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	hold := func(path string) {
		f.do("PUT", path, "held", "x-ms-blob-type", "BlockBlob", "x-ms-legal-hold", "true").want(t, 201, "")
	}
	hold("/box/version")
	on = false
	f.reopen()
	hold("/box/none")
	f.do("PUT", "/box/none", "", "x-ms-blob-type", "BlockBlob").want(t, 409, "BlobImmutableDueToLegalHold")
	if r := f.do("GET", "/box/none", "").want(t, 200, ""); r.body != "held" || r.header.Get("x-ms-version-id") != "" {
		t.Errorf("%q %v", r.body, r.header)
	}
	f.do("PUT", "/box/version", "", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	if r := f.do("GET", "/box?restype=container&comp=list&include=versions,legalhold", "").want(t, 200,
		""); strings.Count(r.body, "<LegalHold>true") != 2 {
		t.Error(r.body)
	}
}

// Containers are enabled when they are made, and an empty one can be deleted.
func TestImmutableContainers(t *testing.T) {
	t.Parallel()
	on := false
	f := startWith(t, func(c *blobhost.Config) { manage(c, accountprops.Blob{Versioning: true, Immutability: on}) })
	f.do("PUT", "/plain?restype=container", "").want(t, 201, "")
	f.do("PUT", "/plain/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	on = true
	f.reopen()
	f.do("PUT", "/plain/b?comp=legalhold", "", "x-ms-legal-hold", "true").want(t, 409,
		"ImmutableStorageWithVersioningNotEnabled")
	f.do("PUT", "/plain/c", "x", "x-ms-blob-type", "BlockBlob", "x-ms-legal-hold", "true").want(t, 409,
		"ImmutableStorageWithVersioningNotEnabled")
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	if r := f.do("GET", "/?comp=list", "").want(t, 200, ""); strings.Count(r.body,
		"<ImmutableStorageWithVersioningEnabled>true<") != 1 {
		t.Error(r.body)
	}
	one := f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob", "x-ms-legal-hold", "true").want(t, 201,
		"").header.Get("x-ms-version-id")
	on = false
	f.reopen()
	f.do("DELETE", "/box/b", "").want(t, 409, "BlobImmutableDueToLegalHold")
	f.do("PUT", "/box/b?comp=legalhold", "", "x-ms-legal-hold", "false").want(t, 200, "")
	f.do("DELETE", "/box/b", "").want(t, 202, "")
	f.do("DELETE", "/box?restype=container", "").want(t, 409, "ContainerImmutableStorageWithVersioningEnabled")
	f.do("DELETE", "/box/b?versionid="+one, "").want(t, 202, "")
	f.do("DELETE", "/box?restype=container", "").want(t, 202, "")
	f.do("DELETE", "/plain?restype=container", "").want(t, 202, "")
}
