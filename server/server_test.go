package server_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/server"
)

func start(t *testing.T, c server.Config) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

var key = base64.StdEncoding.EncodeToString([]byte("a key of a test, which nobody else uses"))

// A program sets accounts with settings of their own, and sees each request.
func TestAccountsAndRequests(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var mu sync.Mutex
	var seen []server.Request
	s := start(t, server.Config{InMemory: true,
		Accounts: []server.Account{{Name: "flat", Keys: []string{key}},
			{Name: "trees", Keys: []string{key}, Settings: map[string]string{"hierarchical-namespace": "true"}}},
		Observe: func(r server.Request) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, r)
		}})
	for _, account := range []string{"flat", "trees"} {
		blobs, err := azblob.NewClientFromConnectionString(s.ConnectionStringOf(account, key), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := blobs.CreateContainer(ctx, "con", nil); err != nil {
			t.Fatal(err)
		}
		info, err := blobs.ServiceClient().GetAccountInfo(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := *info.IsHierarchicalNamespaceEnabled, account == "trees"; got != want {
			t.Errorf("account %s: hierarchical namespace %v, want %v", account, got, want)
		}
		if _, err := blobs.DeleteBlob(ctx, "con", "missing", nil); err == nil {
			t.Error("the deletion of a missing blob succeeded")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	var lines []string
	for _, r := range seen {
		lines = append(lines, fmt.Sprint(r.Service, " ", r.Account, " ", r.Operation, " ", r.Status, " ", r.Code))
	}
	want := []string{"blob flat CreateContainer 201 ", "blob flat GetAccountInformation 200 ",
		"blob flat DeleteBlob 404 BlobNotFound", "blob trees CreateContainer 201 ",
		"blob trees GetAccountInformation 200 ", "blob trees DeleteBlob 404 BlobNotFound"}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("observed\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// Faults, snapshots and the client in the process are there for programs too.
func TestFaultsAndSnapshots(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := start(t, server.Config{Location: t.TempDir(), Relaxed: true, Faults: true})
	options := &azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: s.Client(),
		Retry: policy.RetryOptions{MaxRetries: -1}}}
	queues, err := azqueue.NewServiceClientFromConnectionString(s.ConnectionString(), options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := queues.CreateQueue(ctx, "que", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(ctx, "one", false); err != nil {
		t.Fatal(err)
	}
	name, err := s.AddFault([]byte(`{"name": "busy", "operation": "PutMessage", "error": "ServerBusy"}`))
	if err != nil {
		t.Fatal(err)
	}
	put := func() int {
		_, err := queues.NewQueueClient("que").EnqueueMessage(ctx, "m", nil)
		var failed *azcore.ResponseError
		if errors.As(err, &failed) {
			return failed.StatusCode
		}
		if err != nil {
			t.Fatal(err)
		}
		return http.StatusCreated
	}
	if got := put(); got != http.StatusServiceUnavailable {
		t.Errorf("with the fault: status %d, want 503", got)
	}
	if err := s.RemoveFault(name); err != nil {
		t.Fatal(err)
	}
	if got := put(); got != http.StatusCreated {
		t.Errorf("without the fault: status %d, want 201", got)
	}
	if err := s.Restore(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	left, err := queues.NewQueueClient("que").PeekMessages(ctx, nil)
	if err != nil || len(left.Messages) != 0 {
		t.Errorf("after the restore: %d messages, %v; the snapshot has none", len(left.Messages), err)
	}
	if err := s.Subscribe(ctx, []byte(`{}`)); !errors.Is(err, server.ErrNotAllowed) {
		t.Errorf("Subscribe without Config.Events: %v, want ErrNotAllowed", err)
	}
}

// A configuration that is not valid is refused before anything is opened, with the name of the field or account, and
// without keys.
func TestWrongConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config server.Config
		want   string
	}{
		"nothing":           {server.Config{}, "Location"},
		"a service":         {server.Config{InMemory: true, Services: []server.Service{"file"}}, `"file" is not a service`},
		"an account's name": {server.Config{InMemory: true, Accounts: []server.Account{{Name: "No", Keys: []string{key}}}}, "No"},
		"no key":            {server.Config{InMemory: true, Accounts: []server.Account{{Name: "acc"}}}, "acc"},
		"a setting": {server.Config{InMemory: true, Accounts: []server.Account{{Name: "acc", Keys: []string{key},
			Settings: map[string]string{"no-such-setting": "1"}}}}, "no-such-setting"},
		"roles alone": {server.Config{InMemory: true, Roles: []server.Role{{Principal: "*", Name: "Owner", Scope: "*"}}},
			"Issuers"},
		"an issuer's keys": {server.Config{InMemory: true, Issuers: []server.Issuer{{ID: "https://issuer.example",
			KeySet: []byte("{}")}}}, "https://issuer.example"},
		"hosts":   {server.Config{InMemory: true, CopySources: server.Hosts{Names: []string{"a b"}}}, "CopySources"},
		"a peer":  {server.Config{InMemory: true, Cluster: &server.Cluster{Node: "a"}}, "Cluster"},
		"streams": {server.Config{InMemory: true, NATS: server.NATS{Tables: true}}, "NATS"},
		"a port":  {server.Config{InMemory: true, Blob: "127.0.0.1:port"}, "Blob"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := server.Start(t.Context(), c.config)
			if err == nil {
				t.Fatal(errors.Join(errors.New("the server started"), s.Stop(t.Context())))
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), key) {
				t.Errorf("error %q, want one that names %q and no key", err, c.want)
			}
		})
	}
}

// No format verb prints the keys of an account.
func TestKeysAreNotPrinted(t *testing.T) {
	t.Parallel()
	a := server.Account{Name: "acc", Keys: []string{key}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, a); strings.Contains(got, key) {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}
