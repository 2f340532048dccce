package lazulitest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/lazulitest"
)

func TestStart(t *testing.T) {
	l := lazulitest.Start(t)
	ctx := context.Background()
	blobs, err := azblob.NewClientFromConnectionString(l.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blobs.CreateContainer(ctx, "things", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := blobs.UploadStream(ctx, "things", "b", strings.NewReader("hello"), nil); err != nil {
		t.Fatal(err)
	}
	queues, err := azqueue.NewServiceClientFromConnectionString(l.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := queues.CreateQueue(ctx, "orders", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := queues.NewQueueClient("orders").EnqueueMessage(ctx, "hello", nil); err != nil {
		t.Fatal(err)
	}
	tables, err := aztables.NewServiceClientFromConnectionString(l.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tables.CreateTable(ctx, "people", nil); err != nil {
		t.Fatal(err)
	}
}
