package blobsvc_test

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
)

func TestDeleteBlob(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	b := c.NewBlockBlobClient("b")
	_, err := b.Delete(ctx, nil)
	wantCode(t, err, 404, "BlobNotFound")
	up := must(b.Upload(ctx, body("x"), &blockUpload{Tags: map[string]string{"a": "b"}}))(t)
	other := azcore.ETag(`"0x1"`)
	with := func(tag *azcore.ETag) *blob.DeleteOptions {
		return &blob.DeleteOptions{
			AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: tag}}}
	}
	_, err = b.Delete(ctx, with(&other))
	wantCode(t, err, 412, "ConditionNotMet")
	must(b.Delete(ctx, with(up.ETag)))(t)
	_, err = b.GetProperties(ctx, nil)
	wantCode(t, err, 404, "BlobNotFound")

	must(b.Upload(ctx, body("x"), nil))(t)
	snap := must(b.CreateSnapshot(ctx, nil))(t)
	must(b.CreateSnapshot(ctx, nil))(t)
	_, err = b.Delete(ctx, nil)
	wantCode(t, err, 409, "SnapshotsPresent")
	at := must(b.WithSnapshot(*snap.Snapshot))(t)
	_, err = at.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeOnly)})
	wantCode(t, err, 400, "InvalidHeaderValue")
	must(at.Delete(ctx, nil))(t)
	_, err = at.GetProperties(ctx, nil)
	wantCode(t, err, 404, "BlobNotFound")
	must(b.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeOnly)}))(t)
	must(b.GetProperties(ctx, nil))(t)
	must(b.CreateSnapshot(ctx, nil))(t)
	must(b.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)}))(t)
	audit := must(f.parts.State.Maintenance.Audit(func(err error) { t.Error(err) }))(t)
	if audit.Blobs+audit.Snapshots != 0 {
		t.Errorf("left over: %+v", audit)
	}
}

func TestDeleteBlobRefusals(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("DELETE", "/box/b?deletetype=permanent", "").want(t, 409, "OperationNotAllowedOnSoftDeletedBlob")
	f.do("DELETE", "/box/b?deletetype=some", "").want(t, 400, "InvalidQueryParameterValue")
	f.do("DELETE", "/box/b", "", "x-ms-delete-snapshots", "some").want(t, 400, "InvalidHeaderValue")
}
