package server_test

import (
	"errors"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"github.com/lazuli-storage/lazuli/server"
)

// A program adds accounts, replaces keys and removes accounts while its server runs.
func TestChangeAccounts(t *testing.T) {
	t.Parallel()
	s := start(t, server.Config{InMemory: true, ManagedAccounts: true})
	a, err := s.AddAccount(server.Account{Name: "shop", Settings: map[string]string{"blob-versioning": "true"}})
	if err != nil || len(a.Keys) != 2 {
		t.Fatalf("%d keys, %v", len(a.Keys), err)
	}
	create := func(key, container string) error {
		blobs, err := azblob.NewClientFromConnectionString(s.ConnectionStringOf("shop", key), nil)
		if err == nil {
			_, err = blobs.CreateContainer(t.Context(), container, nil)
		}
		return err
	}
	if err := create(a.Keys[0], "first"); err != nil {
		t.Fatal(err)
	}
	fresh, err := s.RotateKey("shop", 1)
	if err != nil {
		t.Fatal(err)
	}
	if create(a.Keys[0], "second") == nil {
		t.Error("a key that was replaced is valid")
	}
	for name, key := range map[string]string{"third": a.Keys[1], "fourth": fresh} {
		if err := create(key, name); err != nil {
			t.Error(err)
		}
	}
	if keys, err := s.AccountKeys("shop"); err != nil || keys[0] != fresh || keys[1] != a.Keys[1] {
		t.Errorf("other keys, %v", err)
	}
	if err := s.SetAccount("shop", map[string]*string{"blob-versioning": nil}); err != nil {
		t.Error(err)
	}
	if err := s.RemoveAccount("shop", false); !errors.Is(err, server.ErrAccountHasData) {
		t.Errorf("an account with containers is removed: %v", err)
	}
	if err := s.RemoveAccount("shop", true); err != nil {
		t.Error(err)
	}
	if create(fresh, "fifth") == nil {
		t.Error("a removed account is served")
	}
	list, more, err := s.ListAccounts("", 10)
	if err != nil || more || len(list) != 2 || !list[0].Configured || list[1].Name != "shop" || !list[1].Removing {
		t.Errorf("the accounts are %+v, %v", list, err)
	}
}

func TestAccountsThatCannotBeChanged(t *testing.T) {
	t.Parallel()
	s := start(t, server.Config{InMemory: true})
	if _, err := s.AddAccount(server.Account{Name: "shop"}); !errors.Is(err, server.ErrNotAllowed) {
		t.Errorf("add: %v", err)
	}
	if err := s.RemoveAccount("devstoreaccount1", true); !errors.Is(err, server.ErrNotAllowed) {
		t.Errorf("remove: %v", err)
	}
}
