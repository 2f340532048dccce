package tablesvc_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/tablesvc"
)

// key is the key of the account. A program takes it from its configuration.
var key = base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

// The Table service for a client of the Azure SDK.
func Example() {
	// Folder: "data" keeps the tables in that folder.
	service, err := tablesvc.New(tablesvc.Config{InMemory: true, Accounts: map[string]string{"shop": key}})
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()
	server := httptest.NewServer(service.Handler()) // or http.Serve, at an address of the program
	defer server.Close()

	credential, err := aztables.NewSharedKeyCredential("shop", key)
	if err != nil {
		log.Fatal(err)
	}
	client, err := aztables.NewServiceClientWithSharedKey(server.URL+"/shop", credential, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	orders := client.NewClient("Orders")
	if _, err := orders.CreateTable(ctx, nil); err != nil {
		log.Fatal(err)
	}
	order := []byte(`{"PartitionKey": "2026", "RowKey": "42", "Item": "lamp"}`)
	if _, err := orders.AddEntity(ctx, order, nil); err != nil {
		log.Fatal(err)
	}
	all := orders.NewListEntitiesPager(nil)
	for all.More() {
		page, err := all.NextPage(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(page.Entities), "order")
	}
	// Output: 1 order
}
