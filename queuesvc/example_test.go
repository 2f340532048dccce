package queuesvc_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/queuesvc"
)

// key is the key of the account. A program takes it from its configuration.
var key = base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

// The Queue service for a client of the Azure SDK.
func Example() {
	// Folder: "data" keeps the queues in that folder.
	service, err := queuesvc.New(queuesvc.Config{InMemory: true, Accounts: map[string]string{"shop": key}})
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()
	server := httptest.NewServer(service.Handler()) // or http.Serve, at an address of the program
	defer server.Close()

	credential, err := azqueue.NewSharedKeyCredential("shop", key)
	if err != nil {
		log.Fatal(err)
	}
	client, err := azqueue.NewServiceClientWithSharedKeyCredential(server.URL+"/shop", credential, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	orders := client.NewQueueClient("orders")
	if _, err := orders.Create(ctx, nil); err != nil {
		log.Fatal(err)
	}
	if _, err := orders.EnqueueMessage(ctx, "lamp", nil); err != nil {
		log.Fatal(err)
	}
	taken, err := orders.DequeueMessage(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(*taken.Messages[0].MessageText)
	// Output: lamp
}
