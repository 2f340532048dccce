package blobsvc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
)

func TestSnapshotBlob(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	b := c.NewBlockBlobClient("b")
	_, err := b.CreateSnapshot(ctx, nil)
	wantCode(t, err, 404, "BlobNotFound")
	up := must(b.Upload(ctx, body("one"), &blockUpload{Metadata: map[string]*string{"A": to.Ptr("1")}}))(t)
	one := must(b.CreateSnapshot(ctx, nil))(t)
	if *one.ETag != *up.ETag {
		t.Errorf("the snapshot has entity tag %s, the blob %s", *one.ETag, *up.ETag)
	}
	must(b.Upload(ctx, body("two"), nil))(t)
	two := must(b.CreateSnapshot(ctx, &blob.CreateSnapshotOptions{Metadata: map[string]*string{"B": to.Ptr("2")}}))(t)
	must(b.Upload(ctx, body("three"), nil))(t)
	for snapshot, want := range map[string]string{*one.Snapshot: "one", *two.Snapshot: "two"} {
		at := must(b.WithSnapshot(snapshot))(t)
		if got := string(download(t, at, nil)); got != want {
			t.Errorf("%s holds %q, want %q", snapshot, got, want)
		}
		p := must(at.GetProperties(ctx, nil))(t)
		if p.LeaseState != nil || p.AccessTier == nil || *p.AccessTier != "Hot" || p.AccessTierInferred == nil {
			t.Errorf("a snapshot has a lease, or no inferred tier: %+v", p)
		}
		if want == "one" && *p.Metadata["A"] != "1" || want == "two" && (*p.Metadata["B"] != "2" || len(p.Metadata) != 1) {
			t.Errorf("%s: metadata %v", want, p.Metadata)
		}
	}
	other := azcore.ETag(`"0x1"`)
	_, err = b.CreateSnapshot(ctx, &blob.CreateSnapshotOptions{AccessConditions: &blob.AccessConditions{
		ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &other}}})
	wantCode(t, err, 412, "ConditionNotMet")
	if string(download(t, b, nil)) != "three" {
		t.Error("the base blob changed")
	}
}

// Snapshots of append and page blobs do not see what comes later.
func TestSnapshotsOfGrowingBlobs(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	a := c.NewAppendBlobClient("a")
	must(a.Create(ctx, nil))(t)
	must(a.AppendBlock(ctx, body("one"), nil))(t)
	snapA := must(a.CreateSnapshot(ctx, nil))(t)
	must(a.AppendBlock(ctx, body("two"), nil))(t)
	p := c.NewPageBlobClient("p")
	must(p.Create(ctx, 1024, nil))(t)
	first, second := string(randomBytes(1024)), string(randomBytes(512))
	must(p.UploadPages(ctx, body(first), blob.HTTPRange{Count: 1024}, nil))(t)
	snapP := must(p.CreateSnapshot(ctx, nil))(t)
	must(p.UploadPages(ctx, body(second), blob.HTTPRange{Offset: 256 * 2, Count: 512}, nil))(t)
	if got := string(download(t, must(a.WithSnapshot(*snapA.Snapshot))(t), nil)); got != "one" {
		t.Errorf("append snapshot %q", got)
	}
	if got := string(download(t, must(p.WithSnapshot(*snapP.Snapshot))(t), nil)); got != first {
		t.Error("page snapshot changed")
	}
	if got := string(download(t, p, nil)); got != first[:512]+second {
		t.Error("page blob differs")
	}
}

// A snapshot of many blocks shares their list, and takes a few milliseconds whatever the size.
func TestSnapshotOfManyBlocks(t *testing.T) {
	t.Parallel()
	f := start(t)
	b := f.container().NewBlockBlobClient("b")
	var ids []string
	for i := range 100 {
		must(b.StageBlock(ctx, blockName(i), body(fmt.Sprint(i)), nil))(t)
	}
	for i := range 20_000 {
		ids = append(ids, blockName(i%100))
	}
	must(b.CommitBlockList(ctx, ids, nil))(t)
	begun := time.Now()
	snap := must(b.CreateSnapshot(ctx, nil))(t)
	t.Logf("a snapshot of 20,000 blocks took %v", time.Since(begun))
	want := download(t, b, nil)
	must(b.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeOnly)}))(t)
	if string(download(t, b, nil)) != string(want) {
		t.Error("content went with the snapshot")
	}
	must(b.CreateSnapshot(ctx, nil))(t)
	must(b.CommitBlockList(ctx, ids[:1], nil))(t)
	_ = snap
	if err := f.parts.Clean(ctx); err != nil {
		t.Fatal(err)
	}
}
