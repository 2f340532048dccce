package blobsvc_test

import (
	"fmt"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
)

// What an event tells of what was there before.
func TestChangeFeedDetails(t *testing.T) {
	t.Parallel()
	f := startFeed(t)
	c := f.container()
	b := c.NewBlockBlobClient("b")
	put := func() blob.GetPropertiesResponse {
		t.Helper()
		must(b.Upload(ctx, body("x"), &blockUpload{HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("text/a"),
			BlobContentLanguage: to.Ptr("de")}}))(t)
		return must(b.GetProperties(ctx, nil))(t)
	}
	put()
	must(b.SetTier(ctx, blob.AccessTierCool, nil))(t)
	put() // over it, and nothing is kept
	must(b.SetHTTPHeaders(ctx, blob.HTTPHeaders{BlobContentType: to.Ptr("text/b"), BlobCacheControl: to.Ptr("max-age=1"),
		BlobContentLanguage: to.Ptr("de")}, nil))(t)
	must(b.SetTags(ctx, map[string]string{"a": "1", "b": "2"}, nil))(t)
	must(b.SetTags(ctx, nil, nil))(t)
	f.keepDeleted(5, "")
	put() // over it, which becomes a soft-deleted snapshot
	must(b.Delete(ctx, nil))(t)
	must(b.Undelete(ctx, nil))(t)
	must(b.SetTier(ctx, blob.AccessTierArchive, nil))(t)
	must(b.SetTier(ctx, blob.AccessTierHot, nil))(t)
	events, records := f.feed()
	var got []string
	for i, r := range records {
		info, _ := r["previousInfo"].(map[string]any)
		if info["SoftDeleteSnapshot"] != nil {
			if at := fmt.Sprint(info["SoftDeleteSnapshot"]); len(at) != 28 || at[:13] != r.text("eventTime")[:13] {
				t.Errorf("snapshot %s of an event at %s", at, r.text("eventTime"))
			}
			info["SoftDeleteSnapshot"] = "at"
		}
		got = append(got, fmt.Sprint(events[i], " | ", r.text("previousInfo"), " | ", r.text("blobPropertiesUpdated"), " | ",
			r.text("blobTagsUpdated"), " | ", r.text("asyncOperationInfo")))
	}
	restored := "BlobCreated UndeleteBlob b | map[WasBlobSoftDeleted:true] |  |  | "
	want := []string{
		"BlobCreated PutBlob b |  |  |  | ",
		"BlobTierChanged SetBlobTier b | map[PreviousTier:Hot WasBlobSoftDeleted:false] |  |  | ",
		"BlobCreated PutBlob b | map[PreviousTier:Cool WasBlobSoftDeleted:false] |  |  | ",
		"BlobPropertiesUpdated SetBlobProperties b |  | map[CacheControl:map[current:max-age=1 previous:] " +
			"ContentMD5:map[current: previous:" + md5Of([]byte("x")) +
			"] ContentType:map[current:text/b previous:text/a]] |  | ",
		"BlobPropertiesUpdated SetBlobTags b |  |  | map[current:map[a:1 b:2] previous:map[]] | ",
		"BlobPropertiesUpdated SetBlobTags b |  |  | map[current:map[] previous:map[a:1 b:2]] | ",
		"BlobCreated PutBlob b | map[PreviousTier:Hot SoftDeleteSnapshot:at WasBlobSoftDeleted:true] |  |  | ",
		"BlobDeleted DeleteBlob b | map[PreviousTier:Hot WasBlobSoftDeleted:true] |  |  | ",
		restored, restored, // the snapshot, and the blob
		"BlobTierChanged SetBlobTier b | map[PreviousTier:Hot WasBlobSoftDeleted:false] |  |  | ",
		"BlobAsyncOperationInitiated SetBlobTier b | map[PreviousTier:Archive WasBlobSoftDeleted:false] |  |  | " +
			"map[DestinationTier:Hot WasAsyncOperation:true]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Records of versions have the version before them, and a container that was made again is another.
func TestChangeFeedVersions(t *testing.T) {
	t.Parallel()
	f := managed(t, accountprops.Blob{ChangeFeed: true, Versioning: true})
	c := f.container()
	b := c.NewBlockBlobClient("b")
	one := *must(b.Upload(ctx, body("1"), nil))(t).VersionID
	two := *must(b.Upload(ctx, body("2"), nil))(t).VersionID
	three := *must(b.SetMetadata(ctx, map[string]*string{"A": to.Ptr("b")}, nil))(t).VersionID
	must(b.Delete(ctx, nil))(t)
	must(c.Delete(ctx, nil))(t)
	must(c.Create(ctx, nil))(t)
	four := *must(b.Upload(ctx, body("4"), nil))(t).VersionID
	_, records := f.feed()
	var got []string
	for _, r := range records {
		info, _ := r["previousInfo"].(map[string]any)
		got = append(got, fmt.Sprint(r.text("blobVersion"), " ", info["BlobVersion"], " ", info["LastVersion"]))
	}
	want := []string{one + " <nil> <nil>", two + " " + two + " " + one, three + " " + three + " " + two,
		three + " <nil> " + three, four + " <nil> <nil>"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if a, z := records[0].text("containerVersion"),
		records[4].text("containerVersion"); a != records[3].text("containerVersion") || a == z || a == "" {
		t.Errorf("versions of the container %s and %s", a, z)
	}
}
