package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// containers are those that examples create or expect.
var containers = []string{"mycontainer", "testcontainer", "your-container"}

const tableName = "myTable"

// clean deletes the containers and the table of examples.
func clean(ctx context.Context, connection string) error {
	blobs, err := azblob.NewClientFromConnectionString(connection, nil)
	if err != nil {
		return err
	}
	for _, name := range containers {
		_, _ = blobs.DeleteContainer(ctx, name, nil) // which need not exist
	}
	tables, err := aztables.NewServiceClientFromConnectionString(connection, nil)
	if err != nil {
		return err
	}
	_, _ = tables.DeleteTable(ctx, tableName, nil)
	return nil
}

// prepare makes what examples expect to find: containers with blobs, a queue, a table, and files beside the example.
// What exists stays.
func prepare(ctx context.Context, connection, folder, example string) error {
	for _, name := range []string{"BigFile.bin", "cloud.jpg"} {
		if err := os.WriteFile(filepath.Join(folder, name), make([]byte, 1<<20), 0o600); err != nil {
			return err
		}
	}
	blobs, err := azblob.NewClientFromConnectionString(connection, nil)
	if err != nil {
		return err
	}
	for _, name := range containers {
		// The errors are those of containers that exist or are leased.
		_, _ = blobs.CreateContainer(ctx, name,
			&azblob.CreateContainerOptions{Access: to.Ptr(container.PublicAccessTypeBlob)})
		for _, blob := range []string{"BigBlob.bin", "validated-blob.txt", "BlockBlob.txt", "sample-blob"} {
			_, _ = blobs.UploadBuffer(ctx, name, blob, []byte(strings.Repeat("content", 1000)), nil)
		}
	}
	queues, err := azqueue.NewServiceClientFromConnectionString(connection, nil)
	if err != nil {
		return err
	}
	_, _ = queues.CreateQueue(ctx, "samplequeue", nil)
	tables, err := aztables.NewServiceClientFromConnectionString(connection, nil)
	if err != nil {
		return err
	}
	_, _ = tables.CreateTable(ctx, tableName, nil)
	if strings.HasSuffix(example, "DeleteEntity") { // others add it
		_, _ = tables.NewClient(tableName).AddEntity(ctx, []byte(`{"PartitionKey":"pk001","RowKey":"rk001"}`), nil)
	}
	return nil
}
