// A first program: one entity, one message and one blob, through the Azure SDK for Go.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// The published development account. (The SDK for Go does not know the short form UseDevelopmentStorage=true.)
const development = "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;" +
	"AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;" +
	"BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;" +
	"QueueEndpoint=http://127.0.0.1:10001/devstoreaccount1;" +
	"TableEndpoint=http://127.0.0.1:10002/devstoreaccount1;"

func main() {
	connection := cmp.Or(os.Getenv("LAZULI_CONNECTION_STRING"), os.Getenv("AzureWebJobsStorage"),
		os.Getenv("AZURE_STORAGE_CONNECTION_STRING"), development)
	ctx := context.Background()

	tables := must(aztables.NewServiceClientFromConnectionString(connection, nil))
	tables.CreateTable(ctx, "Employees", nil) // an error if it exists, which is fine here
	employees := tables.NewClient("Employees")
	entity := must(json.Marshal(aztables.EDMEntity{
		Entity:     aztables.Entity{PartitionKey: "Sales", RowKey: "0001"},
		Properties: map[string]any{"Name": "Ada", "Since": 1843},
	}))
	must(employees.UpsertEntity(ctx, entity, nil))
	got := must(employees.GetEntity(ctx, "Sales", "0001", nil))
	var ada aztables.EDMEntity
	check(json.Unmarshal(got.Value, &ada))
	fmt.Println("table:", ada.Properties["Name"], ada.Properties["Since"])

	queues := must(azqueue.NewServiceClientFromConnectionString(connection, nil))
	orders := queues.NewQueueClient("orders")
	orders.Create(ctx, nil)
	must(orders.EnqueueMessage(ctx, "order 42", nil))
	received := must(orders.DequeueMessage(ctx, nil)).Messages[0]
	fmt.Println("queue:", *received.MessageText)
	must(orders.DeleteMessage(ctx, *received.MessageID, *received.PopReceipt, nil))

	blobs := must(azblob.NewClientFromConnectionString(connection, nil))
	blobs.CreateContainer(ctx, "reports", nil)
	must(blobs.UploadBuffer(ctx, "reports", "today.txt", []byte("all is well"), nil))
	report := must(blobs.DownloadStream(ctx, "reports", "today.txt", nil))
	defer report.Body.Close()
	fmt.Println("blob: ", string(must(io.ReadAll(report.Body))))
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
