package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/accountverb"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

// sasVerb runs `lazuli sas` and returns what it prints.
func sasVerb(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newSASCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// The account, the key and the address come from one connection string.
func TestSASFromAConnectionString(t *testing.T) {
	for _, name := range append([]string{"AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT", accountverb.FileVariable},
		connstr.Variables...) {
		t.Setenv(name, "")
	}
	const shop = "AccountName=shop;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:18080/shop;QueueEndpoint=https://queues.test"
	want := func(begins string, args ...string) {
		t.Helper()
		if got, err := sasVerb(t, args...); err != nil || !strings.HasPrefix(got, begins) {
			t.Errorf("sas %s: %s, %v; want %s…", args, got, err, begins)
		}
	}
	refused := func(says string, args ...string) {
		t.Helper()
		if got, err := sasVerb(t, args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("sas %s: %s, %v; want an error saying %q", args, got, err, says)
		}
	}
	want("http://127.0.0.1:10000/devstoreaccount1/photos?", "container", "photos", "--permissions", "r")
	want("https://127.0.0.1:10000/devstoreaccount1/photos?", "container", "photos", "--permissions", "r", "--https-only")
	refused("expired already", "container", "photos", "--permissions", "r", "--expiry", "-1h")
	refused("expired already", "container", "photos", "--permissions", "r", "--expiry", "0s")
	refused("key of account shop", "container", "photos", "--permissions", "r", "--account", "shop")

	t.Setenv("AzureWebJobsStorage", shop)
	want("http://127.0.0.1:18080/shop/photos?", "container", "photos", "--permissions", "r")
	want("https://127.0.0.1:18080/shop/photos?", "container", "photos", "--permissions", "r", "--https-only")
	want("https://queues.test/orders?", "queue", "orders", "--permissions", "r")
	want("https://shop.table.core.windows.net/People?", "table", "People", "--permissions", "r")
	want("http://other/photos?", "container", "photos", "--permissions", "r", "--endpoint", "http://other/")
	want("http://127.0.0.1:10000/devstoreaccount1/photos?", "container", "photos", "--permissions", "r", "--account",
		"devstoreaccount1")
	want("https://bank.blob.core.windows.net/photos?", "container", "photos", "--permissions", "r", "--connection-string",
		"AccountName=bank;AccountKey=a2V5")

	refused("no account name", "container", "photos", "--permissions", "r", "--connection-string",
		"BlobEndpoint=http://h;SharedAccessSignature=sv=1")
	t.Setenv("LAZULI_CONNECTION_STRING", "nonsense")
	refused("LAZULI_CONNECTION_STRING", "container", "photos", "--permissions", "r")
	t.Setenv("LAZULI_CONNECTION_STRING", "")

	// What is missing is named by its flag.
	refused("--permissions is required", "blob", "photos/a.png")
	refused("--permissions is required", "account", "--services", "b", "--resource-types", "o")
	want("http://127.0.0.1:18080/shop/photos?", "container", "photos", "--policy", "readers")

	file := filepath.Join(t.TempDir(), "accounts")
	cmd := accountverb.NewCommand(nil)
	cmd.SetArgs([]string{"add", "vault", "--file", file})
	cmd.SetOut(new(bytes.Buffer))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("http://127.0.0.1:10000/vault/photos?", "container", "photos", "--permissions", "r", "--account", "vault",
		"--accounts-file", file)
}
