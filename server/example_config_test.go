package server_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log"
	"log/slog"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/server"
)

// A server for several programs: an account of its own in place of the development account, tokens of an issuer, and
// hosts from which blobs may be copied. Every field has a type that a program can make.
func ExampleConfig() {
	ctx := context.Background()
	key := base64.StdEncoding.EncodeToString([]byte("a key of 32 bytes or more, from a file that others cannot read"))
	requests := make(chan server.Request, 1)
	s, err := server.Start(ctx, server.Config{
		InMemory: true, // a server that lasts has Location: its data folder
		Accounts: []server.Account{{Name: "shop", Keys: []string{key},
			Settings: map[string]string{"hierarchical-namespace": "true"}}},
		Issuers: []server.Issuer{{ID: "https://login.example.com/v2.0", KeysURL: "https://login.example.com/keys"}},
		Roles: []server.Role{{Principal: "11111111-2222-3333-4444-555555555555", Name: "Storage Queue Data Reader",
			Scope: "shop"}},
		RequireHTTPS:   false, // true with TLS, where other machines reach the server
		CopySources:    server.Hosts{Names: []string{"*.example.com"}},
		MaxConnections: 1000,
		NATS:           server.NATS{}, // the queues' log is in the data folder; URL has it on servers of their own
		Observe:        func(r server.Request) { requests <- r },
		Log:            slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Stop(ctx)

	queues, err := azqueue.NewServiceClientFromConnectionString(s.ConnectionStringOf("shop", key),
		&azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: s.Client()}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := queues.CreateQueue(ctx, "orders", nil); err != nil {
		log.Fatal(err)
	}
	r := <-requests
	fmt.Println(r.Service, r.Account, r.Operation, r.Status)
	// Output: queue shop CreateQueue 201
}

// A node of a cluster of three. Start returns when it and one other node are there.
func ExampleCluster() {
	ctx := context.Background()
	s, err := server.Start(ctx, server.Config{
		Location: "/var/lib/shop",
		Cluster: &server.Cluster{
			Node:   "a",
			Listen: "10.0.0.1:6222",
			Peers: map[string]string{
				"a": "10.0.0.1:6222",
				"b": "10.0.0.2:6222",
				"c": "10.0.0.3:6222",
			},
			SecretFile: "/etc/shop/cluster-secret",
		},
		Waiting: func(reason string) { log.Print(reason) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Stop(ctx)
}
