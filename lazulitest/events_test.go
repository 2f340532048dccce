package lazulitest_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	l := lazulitest.Start(t, lazulitest.WithEvents())
	queues, err := azqueue.NewServiceClientFromConnectionString(l.ConnectionString(), nil)
	check.OK(t, err)
	_, err = queues.CreateQueue(t.Context(), "changes", nil)
	check.OK(t, err)
	blobs, err := azblob.NewClientFromConnectionString(l.ConnectionString(), nil)
	check.OK(t, err)
	_, err = blobs.CreateContainer(t.Context(), "photos", nil)
	check.OK(t, err)
	l.Subscribe(t, lazulitest.EventSubscription{Name: "changes", EndpointType: "storagequeue", Endpoint: "changes"})
	_, err = blobs.UploadBuffer(t.Context(), "photos", "a.jpg", []byte("x"), nil)
	check.OK(t, err)
	l.FlushEvents(t)
	got, err := queues.NewQueueClient("changes").DequeueMessage(t.Context(), nil)
	check.OK(t, err)
	if len(got.Messages) != 1 {
		t.Fatalf("%d messages after the flush, want 1", len(got.Messages))
	}
	if text, err := base64.StdEncoding.DecodeString(*got.Messages[0].MessageText); err != nil ||
		!strings.Contains(string(text), `"Microsoft.Storage.BlobCreated"`) {
		t.Errorf("message %s, %v", text, err)
	}
}
