package lazulitest_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/lazulitest"
)

// A blob that was overwritten by mistake is restored by copying the version before it.
func TestRestoreVersion(t *testing.T) {
	ctx := context.Background()
	l := lazulitest.Start(t, lazulitest.WithBlobImmutability(), lazulitest.WithContainerSoftDelete(7))
	blobs, err := service.NewClientFromConnectionString(l.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blobs.CreateContainer(ctx, "things", nil); err != nil {
		t.Fatal(err)
	}
	letter := blobs.NewContainerClient("things").NewBlockBlobClient("letter")
	good, err := letter.Upload(ctx, streaming.NopCloser(strings.NewReader("good")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := letter.SetLegalHold(ctx, true, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := letter.Upload(ctx, streaming.NopCloser(strings.NewReader("bad")), nil); err != nil {
		t.Fatal(err)
	}
	before, err := letter.WithVersionID(*good.VersionID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.Delete(ctx, nil); !bloberror.HasCode(err, "BlobImmutableDueToLegalHold") {
		t.Errorf("deleting what is held: %v", err)
	}
	if _, err := letter.CopyFromURL(ctx, before.URL(), nil); err != nil {
		t.Fatal(err)
	}
	r, err := letter.DownloadStream(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || string(text) != "good" {
		t.Errorf("restored %q, %v", text, err)
	}
}
