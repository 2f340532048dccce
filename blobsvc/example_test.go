package blobsvc_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http/httptest"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"github.com/lazuli-storage/lazuli/blobsvc"
)

// key is the key of the account. A program takes it from its configuration.
var key = base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

// The Blob service for a client of the Azure SDK.
func Example() {
	// Folder: "data" keeps the blobs in that folder.
	service, err := blobsvc.New(blobsvc.Config{InMemory: true, Accounts: map[string]string{"shop": key}})
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()
	server := httptest.NewServer(service.Handler()) // or http.Serve, at an address of the program
	defer server.Close()

	credential, err := azblob.NewSharedKeyCredential("shop", key)
	if err != nil {
		log.Fatal(err)
	}
	client, err := azblob.NewClientWithSharedKeyCredential(server.URL+"/shop", credential, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if _, err := client.CreateContainer(ctx, "photos", nil); err != nil {
		log.Fatal(err)
	}
	if _, err := client.UploadBuffer(ctx, "photos", "lamp.txt", []byte("a lamp"), nil); err != nil {
		log.Fatal(err)
	}
	blob, err := client.DownloadStream(ctx, "photos", "lamp.txt", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer blob.Body.Close()
	text, err := io.ReadAll(blob.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", text)
	// Output: a lamp
}
