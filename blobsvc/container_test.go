package blobsvc_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

func TestCreateContainer(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.service().NewContainerClient("photos")
	resp, err := c.Create(ctx, &container.CreateOptions{Metadata: map[string]*string{"Owner": to.Ptr("me")},
		Access: to.Ptr(container.PublicAccessTypeBlob)})
	if err != nil {
		t.Fatal(err)
	}
	if resp.ETag == nil || resp.LastModified == nil || !strings.HasPrefix(string(*resp.ETag), `"0x8D`) {
		t.Errorf("ETag %v, Last-Modified %v", resp.ETag, resp.LastModified)
	}
	_, err = c.Create(ctx, nil)
	wantCode(t, err, 409, "ContainerAlreadyExists")

	for name, want := range map[string]struct {
		status int
		code   string
	}{
		"abc": {201, ""}, "a1-b2": {201, ""}, "$root": {201, ""}, "$web": {201, ""}, strings.Repeat("a", 63): {201, ""},
		"ab": {400, "OutOfRangeInput"}, strings.Repeat("a", 64): {400, "OutOfRangeInput"},
		"Abc": {400, "InvalidResourceName"}, "a--b": {400, "InvalidResourceName"}, "-abc": {400, "InvalidResourceName"},
		"abc-": {400, "InvalidResourceName"}, "a_bc": {400, "InvalidResourceName"}, "$other": {400, "InvalidResourceName"},
		"%C3%A4bc": {400, "InvalidResourceName"},
	} {
		t.Run("name "+name, func(t *testing.T) {
			f.do("PUT", "/"+name+"?restype=container", "").want(t, want.status, want.code)
		})
	}
	f.do("PUT", "/private?restype=container", "", "x-ms-blob-public-access", "all").want(t, 400, "InvalidHeaderValue")
	f.do("PUT", "/private?restype=container", "", "x-ms-meta-1a", "x").want(t, 400, "InvalidMetadata")
	f.do("PUT", "/private?restype=container", "", "x-ms-meta-", "x").want(t, 400, "EmptyMetadataKey")
	f.do("PUT", "/private?restype=container", "", "x-ms-meta-a", strings.Repeat("x", 8<<10)).want(t, 400,
		"MetadataTooLarge")
	f.do("GET", "/private?restype=container", "").want(t, 404, "ContainerNotFound")
}

func TestGetContainerProperties(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	if _, err := c.SetMetadata(ctx,
		&container.SetMetadataOptions{Metadata: map[string]*string{"Hello": to.Ptr("World")}}); err != nil {
		t.Fatal(err)
	}
	p := must(c.GetProperties(ctx, nil))(t)
	if *p.LeaseState != "available" || *p.LeaseStatus != "unlocked" || *p.HasImmutabilityPolicy || *p.HasLegalHold ||
		p.BlobPublicAccess != nil {
		t.Errorf("properties %+v", p)
	}
	if got := *p.Metadata["Hello"]; got != "World" {
		t.Errorf("metadata %q", got)
	}
	_, err := f.service().NewContainerClient("nowhere").GetProperties(ctx, nil)
	wantCode(t, err, 404, "ContainerNotFound")
	name := strings.Split(c.URL(), "/")[4]
	f.do("HEAD", "/"+name+"?restype=container", "").want(t, 200, "")
	f.do("GET", "/"+name+"?restype=container", "", "x-ms-lease-id", "6a0d0d3c-0000-4000-8000-000000000000").want(t, 412,
		"LeaseNotPresentWithContainerOperation")
	f.do("GET", "/"+name+"?restype=container", "", "x-ms-lease-id", "no-guid").want(t, 400, "InvalidHeaderValue")
}

func TestGetContainerMetadata(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/meta?restype=container", "", "x-ms-meta-Color", "blue").want(t, 201, "")
	r := f.do("GET", "/meta?restype=container&comp=metadata", "").want(t, 200, "")
	if r.header.Get("x-ms-meta-color") != "blue" || r.header.Get("ETag") == "" {
		t.Errorf("headers %v", r.header)
	}
	f.do("HEAD", "/meta?restype=container&comp=metadata", "").want(t, 200, "")
	f.do("GET", "/none?restype=container&comp=metadata", "").want(t, 404, "ContainerNotFound")
}

func TestSetContainerMetadata(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	before := must(c.GetProperties(ctx, nil))(t)
	if _, err := c.SetMetadata(ctx,
		&container.SetMetadataOptions{Metadata: map[string]*string{"a": to.Ptr("1")}}); err != nil {
		t.Fatal(err)
	}
	after := must(c.GetProperties(ctx, nil))(t)
	if *before.ETag == *after.ETag {
		t.Error("the entity tag did not change")
	}
	if _, err := c.SetMetadata(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if got := must(c.GetProperties(ctx, nil))(t).Metadata; len(got) != 0 {
		t.Errorf("metadata %v after it was cleared", maps.Collect(maps.All(got)))
	}
	future := time.Now().Add(time.Hour)
	_,
		err := c.SetMetadata(ctx,
		&container.SetMetadataOptions{
			ModifiedAccessConditions: &container.ModifiedAccessConditions{IfModifiedSince: &future}})
	wantCode(t, err, 412, "ConditionNotMet")
	f.do("PUT", "/none?restype=container&comp=metadata", "").want(t, 404, "ContainerNotFound")
}

func TestDeleteContainer(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	if _, err := c.NewBlockBlobClient("a").Upload(ctx, body("x"), nil); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	conditions := func(m *container.ModifiedAccessConditions) *container.DeleteOptions {
		return &container.DeleteOptions{AccessConditions: &container.AccessConditions{ModifiedAccessConditions: m}}
	}
	_, err := c.Delete(ctx, conditions(&container.ModifiedAccessConditions{IfUnmodifiedSince: &past}))
	wantCode(t, err, 412, "ConditionNotMet")
	name := strings.Split(c.URL(), "/")[4]
	f.do("DELETE", "/"+name+"?restype=container", "", "If-Match", "*").want(t, 400, "ConditionHeadersNotSupported")
	if _, err := c.Delete(ctx, conditions(&container.ModifiedAccessConditions{IfModifiedSince: &past})); err != nil {
		t.Fatal(err)
	}
	_, err = c.Delete(ctx, nil)
	wantCode(t, err, 404, "ContainerNotFound")
	// The name is free again, and what was in the container is gone, before anything was collected.
	if _, err := c.Create(ctx, nil); err != nil {
		t.Fatal(err)
	}
	_, err = c.NewBlobClient("a").GetProperties(ctx, nil)
	wantCode(t, err, 404, "BlobNotFound")
}

// A deleted container's contents are removed in the background, also after a restart in the middle.
func TestDeletedContainerIsCollected(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	for i := range 30 {
		client := c.NewBlockBlobClient(fmt.Sprint("blob", i))
		if _, err := client.StageBlock(ctx, blockName(1), body("uncommitted"), nil); err != nil {
			t.Fatal(err)
		}
		if i%3 > 0 {
			if _, err := client.Upload(ctx, body("content"), &blockUpload{Tags: map[string]string{"a": "b"}}); err != nil {
				t.Fatal(err)
			}
		}
		if i%3 > 1 {
			if _, err := client.CreateSnapshot(ctx, &blob.CreateSnapshotOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := c.Delete(ctx, nil); err != nil {
		t.Fatal(err)
	}
	f.reopen()
	if err := f.parts.Clean(context.Background()); err != nil {
		t.Fatal(err)
	}
	audit := must(f.parts.State.Maintenance.Audit(func(err error) { t.Error(err) }))(t)
	if audit.Containers+audit.Blobs+audit.Snapshots+audit.UncommittedBlocks != 0 || audit.Live != 0 {
		t.Errorf("left over: %+v", audit)
	}
}
