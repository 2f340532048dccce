package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/accounts"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/clock"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

func startManaged(t *testing.T, c Config) *Server {
	t.Helper()
	c.ManagedAccounts = true
	c.InMemory = c.Location == ""
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s, err := Start(c)
	check.OK(t, err)
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

// allowed returns a word for what a key may do in each service: "ok", or the error code.
func allowed(t *testing.T, s *Server, account, key string) string {
	t.Helper()
	ctx := t.Context()
	x := newTenant(t, s.ConnectionStringOf(account, key))
	word := func(err error) string {
		var e *azcore.ResponseError
		switch {
		case err == nil:
			return "ok"
		case errors.As(err, &e) && e.StatusCode == 403:
			return "no"
		}
		return err.Error()
	}
	_, blobs := x.blobs.ServiceClient().GetProperties(ctx, nil)
	_, queues := x.queues.GetServiceProperties(ctx, nil)
	_, tables := x.tables.GetProperties(ctx, nil)
	if a, b, c := word(blobs), word(queues), word(tables); a != b || b != c {
		return fmt.Sprintf("blob %s, queue %s, table %s", a, b, c)
	}
	return word(blobs)
}

// Each service knows an account once it was added, each key until it is rotated, and the account until it is removed.
func TestAddedAccountInAllServices(t *testing.T) {
	t.Parallel()
	s := startManaged(t, Config{})
	m := s.AccountManager()
	keys, err := m.Add("shop", nil, nil)
	check.OK(t, err)
	if len(keys) != 2 || keys[0] == keys[1] || len(keys[0]) != 88 { // 64 bytes in base64
		t.Fatalf("%d keys", len(keys))
	}
	newTenant(t, s.ConnectionStringOf("shop", keys[0])).fill(t, "goods")
	token := accountSAS(t, s, "shop", keys[0])

	steps := []struct {
		name string
		do   func() error
		want [3]string // first key, second key, token
	}{
		{"added", func() error { return nil }, [3]string{"ok", "ok", "ok"}},
		{"key 2 rotated", func() error { _, err := m.Rotate("shop", 2); return err }, [3]string{"ok", "no", "ok"}},
		{"key 1 rotated", func() error { _, err := m.Rotate("shop", 1); return err }, [3]string{"no", "no", "no"}},
	}
	for _, step := range steps {
		check.OK(t, step.do())
		got := [3]string{allowed(t, s, "shop", keys[0]), allowed(t, s, "shop", keys[1]), token()}
		if got != step.want {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
	}
	now, err := m.Keys("shop")
	check.OK(t, err)
	for i, k := range now {
		if got := allowed(t, s, "shop", k); got != "ok" {
			t.Errorf("new key %d: %s", i+1, got)
		}
	}
	if err := m.Remove("shop", false); !errors.Is(err, accounts.ErrHasData) || allowed(t, s, "shop", now[0]) != "ok" {
		t.Errorf("an account with data is removed: %v", err)
	}
	check.OK(t, m.Remove("shop", true))
	if got := allowed(t, s, "shop", now[0]); got != "no" {
		t.Errorf("removed: %s", got)
	}
	if _, err := m.Keys("shop"); !errors.Is(err, accounts.ErrRemoving) {
		t.Errorf("the keys of a removed account: %v", err)
	}
}

// An order to delete what an account has that comes after the account was ended and its name was given to another one
// deletes nothing.
func TestDeletionOfAnAccountInUse(t *testing.T) {
	t.Parallel()
	s := startManaged(t, Config{})
	keys, err := s.AccountManager().Add("shop", nil, nil)
	check.OK(t, err)
	x := newTenant(t, s.ConnectionStringOf("shop", keys[0]))
	x.fill(t, "goods")
	open := s.services.Load()
	for _, svc := range []wire.Service{wire.Blob, wire.Queue, wire.Table} {
		if err := open.partOf(open.of(svc, "shop"), svc).Delete("shop"); !errors.Is(err, accounts.ErrInUse) {
			t.Errorf("%s: the deletion is answered with %v", svc, err)
		}
	}
	if got := x.has(t, "goods"); got != "bqt" {
		t.Errorf("the account has %q afterwards", got)
	}
}

// accountSAS returns what a request with a token that key has signed may do.
func accountSAS(t *testing.T, s *Server, account, key string) func() string {
	t.Helper()
	credential, err := azblob.NewSharedKeyCredential(account, key)
	check.OK(t, err)
	q, err := sas.AccountSignatureValues{ExpiryTime: time.Now().Add(time.Hour), Permissions: "rl",
		ResourceTypes: "sco"}.SignWithSharedKey(credential)
	check.OK(t, err)
	client, err := azblob.NewClientWithNoCredential(s.URL(wire.Blob, account)+"/?"+q.Encode(), nil)
	check.OK(t, err)
	return func() string {
		_, err := client.NewListContainersPager(nil).NextPage(t.Context())
		var e *azcore.ResponseError
		switch {
		case err == nil:
			return "ok"
		case errors.As(err, &e) && e.StatusCode == 403:
			return "no"
		}
		return err.Error()
	}
}

func TestAddedAccountErrors(t *testing.T) {
	t.Parallel()
	s := startManaged(t, Config{})
	m := s.AccountManager()
	_, err := m.Add("shop", nil, nil)
	check.OK(t, err)
	short := "AAAA"
	for _, tc := range []struct {
		name string
		do   func() error
		want error
	}{
		{"add again", func() error { _, err := m.Add("shop", nil, nil); return err }, accounts.ErrExists},
		{"add a configured one", func() error { _, err := m.Add(auth.DevelopmentAccount, nil, nil); return err },
			accounts.ErrConfigured},
		{"upper case", func() error { _, err := m.Add("Shop", nil, nil); return err }, accounts.ErrInvalid},
		{"too short", func() error { _, err := m.Add("ab", nil, nil); return err }, accounts.ErrInvalid},
		{"too long", func() error { _, err := m.Add(strings.Repeat("a", 25), nil, nil); return err }, accounts.ErrInvalid},
		{"a path", func() error { _, err := m.Add("../../x", nil, nil); return err }, accounts.ErrInvalid},
		{"no name", func() error { _, err := m.Add("", nil, nil); return err }, accounts.ErrInvalid},
		{"three keys", func() error { _, err := m.Add("other", []string{short, short, short}, nil); return err },
			accounts.ErrInvalid},
		{"a key that is not base64", func() error { _, err := m.Add("other", []string{"?"}, nil); return err },
			accounts.ErrInvalid},
		{"an empty key", func() error { _, err := m.Add("other", []string{""}, nil); return err }, accounts.ErrInvalid},
		{"an unknown setting", func() error { _, err := m.Add("other", nil, accounts.Settings{"cors": "*"}); return err },
			accounts.ErrInvalid},
		{"settings that exclude each other", func() error {
			_, err := m.Add("other", nil, accounts.Settings{"hierarchical-namespace": "true", "blob-versioning": "true"})
			return err
		}, accounts.ErrInvalid},
		{"set what excludes another", func() error {
			return m.Set("shop", map[string]*string{"blob-immutability": to.Ptr("true")})
		}, accounts.ErrInvalid},
		{"unset an unknown one", func() error { return m.Set("shop", map[string]*string{"cors": nil}) }, accounts.ErrInvalid},
		{"set of another", func() error { return m.Set("other", map[string]*string{"blob-versioning": to.Ptr("true")}) },
			accounts.ErrNotFound},
		{"set of a configured one", func() error {
			return m.Set(auth.DevelopmentAccount, map[string]*string{"blob-versioning": to.Ptr("true")})
		}, accounts.ErrConfigured},
		{"rotate key 3", func() error { _, err := m.Rotate("shop", 3); return err }, accounts.ErrInvalid},
		{"rotate of another", func() error { _, err := m.Rotate("other", 1); return err }, accounts.ErrNotFound},
		{"rotate a configured one", func() error { _, err := m.Rotate(auth.DevelopmentAccount, 1); return err },
			accounts.ErrConfigured},
		{"keys of a configured one", func() error { _, err := m.Keys(auth.DevelopmentAccount); return err },
			accounts.ErrConfigured},
		{"keys of another", func() error { _, err := m.Keys("other"); return err }, accounts.ErrNotFound},
		{"keys of no name", func() error { _, err := m.Keys("x"); return err }, accounts.ErrNotFound},
		{"get another", func() error { _, err := m.Get("other"); return err }, accounts.ErrNotFound},
		{"remove another", func() error { return m.Remove("other", true) }, accounts.ErrNotFound},
		{"remove another without data", func() error { return m.Remove("other", false) }, accounts.ErrNotFound},
		{"remove a configured one", func() error { return m.Remove(auth.DevelopmentAccount, true) },
			accounts.ErrConfigured},
	} {
		if err := tc.do(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	list, more, err := m.List("", "", 10)
	check.OK(t, err)
	if more || len(list) != 2 || list[0].Name != auth.DevelopmentAccount || list[0].Source != accounts.FromConfiguration ||
		list[1].Name != "shop" || list[1].Source != accounts.FromServer {
		t.Errorf("afterwards the accounts are %+v", list)
	}
}

func TestAddedAccountSettings(t *testing.T) {
	t.Parallel()
	s := startManaged(t, Config{})
	m := s.AccountManager()
	keys, err := m.Add("shop", nil, accounts.Settings{"encryption-scopes": "one", "blob-versioning": "true"})
	check.OK(t, err)
	x := newTenant(t, s.ConnectionStringOf("shop", keys[0]))
	scope := "one"
	put := func(name string) error {
		_, err := x.blobs.UploadBuffer(t.Context(), "box", name, []byte("x"),
			&azblob.UploadBufferOptions{CPKScopeInfo: &blob.CPKScopeInfo{EncryptionScope: &scope}})
		return err
	}
	_, err = x.blobs.CreateContainer(t.Context(), "box", nil)
	check.OK(t, err)
	check.OK(t, put("first"))
	scope = "two"
	if err := put("second"); err == nil {
		t.Error("a scope that the account does not have is accepted")
	}
	check.OK(t, m.Set("shop", map[string]*string{"encryption-scopes": to.Ptr("one,two"), "blob-versioning": nil}))
	check.OK(t, put("second"))
	if set := s.config.Accounts.Blob("shop"); set.Versioning || len(set.Scopes) != 2 {
		t.Errorf("the settings are %+v", set)
	}
	err = m.Set("shop", map[string]*string{"hierarchical-namespace": to.Ptr("true")})
	if !errors.Is(err, accounts.ErrInvalid) {
		t.Errorf("the namespace of an account with containers is changed: %v", err)
	}
	a, err := m.Get("shop")
	check.OK(t, err)
	if len(a.Settings) != 1 || a.Settings["encryption-scopes"] != "one,two" {
		t.Errorf("the settings are listed as %v", a.Settings)
	}
}

// Many callers add accounts at once: each name is given once, and all are there after a restart.
func TestConcurrentAdds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startManaged(t, Config{Location: dir})
	const callers, names = 8, 40
	var mu sync.Mutex
	first := map[string]string{}
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for i := range names {
				name := fmt.Sprintf("account%d", i)
				keys, err := s.AccountManager().Add(name, nil, nil)
				switch {
				case err == nil:
					mu.Lock()
					if first[name] != "" {
						t.Errorf("%s was added twice", name)
					}
					first[name] = keys[0]
					mu.Unlock()
				case !errors.Is(err, accounts.ErrExists):
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	check.OK(t, s.Stop(context.Background()))
	s = startManaged(t, Config{Location: dir})
	if len(first) != names || s.config.Accounts.AddedCount() != names {
		t.Fatalf("%d accounts were added, %d are there", len(first), s.config.Accounts.AddedCount())
	}
	for after, n := "", 0; ; {
		page, more, err := s.AccountManager().List("account", after, 7)
		check.OK(t, err)
		for _, a := range page {
			keys, err := s.AccountManager().Keys(a.Name)
			if err != nil || keys[0] != first[a.Name] {
				t.Errorf("%s has other keys: %v", a.Name, err)
			}
			after = a.Name
			n++
		}
		if !more {
			if n != names {
				t.Errorf("pages have %d accounts", n)
			}
			return
		}
	}
}

// gone waits until nothing is left of a removed account.
func gone(t *testing.T, s *Server, account string) {
	t.Helper()
	check.Eventually(t, func() bool {
		_, err := s.AccountManager().Get(account)
		return errors.Is(err, accounts.ErrNotFound)
	}, "nothing is left of the account")
}

// An account that gets data while it is removed without its data is served again, with what it had.
func TestRemovalWithoutDataDeletesNothing(t *testing.T) {
	t.Parallel()
	clk := clock.New(0)
	s := startManaged(t, Config{Now: clk.Now, ClientsNow: time.Now})
	keys, err := s.AccountManager().Add("shop", nil, nil)
	check.OK(t, err)
	check.OK(t, s.AccountManager().Remove("shop", false))
	if got := allowed(t, s, "shop", keys[0]); got != "no" {
		t.Errorf("removed: %s", got)
	}
	// As a request that was authorized before the removal does it.
	late := late(t, s, "shop")
	clk.Advance(2 * time.Minute)
	s.AccountManager().Wake()
	check.Eventually(t, func() bool { return allowed(t, s, "shop", keys[0]) == "ok" }, "the account is served again")
	late()
	check.OK(t, s.AccountManager().Remove("shop", true))
	clk.Advance(2 * time.Minute)
	s.AccountManager().Wake()
	gone(t, s, "shop")
}

// late creates a queue without asking whether the account exists, and returns a check that it is there.
func late(t *testing.T, s *Server, account string) func() {
	t.Helper()
	client, err := azqueue.NewServiceClientWithNoCredential(s.InProcessURL(wire.Queue, account),
		&azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: s.InProcess()}}})
	check.OK(t, err)
	_, err = client.CreateQueue(t.Context(), "late", nil)
	check.OK(t, err)
	return func() {
		t.Helper()
		if _, err := client.NewQueueClient("late").GetProperties(t.Context(), nil); err != nil {
			t.Errorf("what was created during the removal is deleted: %v", err)
		}
	}
}

// An account of the configuration hides an added one of its name, and its data is not deleted, although the added one
// was removed with its data.
func TestConfiguredAccountHidesAddedOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clk := clock.New(0)
	s := startManaged(t, Config{Location: dir, AccountGrace: time.Hour, Now: clk.Now, ClientsNow: time.Now})
	keys, err := s.AccountManager().Add("other", nil, nil)
	check.OK(t, err)
	check.OK(t, s.AccountManager().Remove("other", true))
	check.OK(t, s.Stop(context.Background()))
	key, err := auth.ParseKey(otherKey)
	check.OK(t, err)
	set, err := auth.NewAccounts(auth.Account{Name: "other", Keys: []auth.Key{key}})
	check.OK(t, err)
	s = startManaged(t, Config{Location: dir, Accounts: set, Now: clk.Now, ClientsNow: time.Now})
	x := newTenant(t, s.ConnectionStringOf("other", otherKey))
	x.fill(t, "goods")
	clk.Advance(2 * time.Hour)
	check.OK(t, s.AccountManager().End(t.Context()))
	if found := x.has(t, "goods"); found != "bqt" {
		t.Errorf("of the configured account there is %q", found)
	}
	if got := allowed(t, s, "other", keys[0]); got != "no" {
		t.Errorf("the key of the added account: %s", got)
	}
	if list, _, err := s.AccountManager().List("", "", 10); err != nil || len(list) != 1 ||
		list[0].Source != accounts.FromConfiguration {
		t.Errorf("the accounts are %+v, %v", list, err)
	}
}

// The keys are in no message, and in a file that only its owner reads.
func TestAddedKeysAreSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := &testlog.Buffer{}
	s := startManaged(t, Config{Location: dir, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{
		Level: slog.LevelDebug}))})
	keys, err := s.AccountManager().Add("shop", nil, nil)
	check.OK(t, err)
	fresh, err := s.AccountManager().Rotate("shop", 1)
	check.OK(t, err)
	check.OK(t, s.AccountManager().Remove("shop", true))
	for _, k := range append(keys, fresh) {
		if strings.Contains(log.String(), k) {
			t.Error("a key is in the log")
		}
	}
	if !strings.Contains(log.String(), "account=shop") {
		t.Error("the log does not name the account")
	}
	info, err := os.Stat(s.dir.Blobs())
	check.OK(t, err)
	if info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read the file with the keys: %v", info.Mode())
	}
}

// An account that is added at a node of a cluster is valid at all of them, a replaced key at none, also at a node that
// was away meanwhile.
func TestAccountsOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := newTestCluster(t, 3)
	for i := range c.configs {
		c.configs[i].ManagedAccounts = true
		c.configs[i].AccountGrace = time.Millisecond
		c.configs[i].Accounts = auth.Development() // of its own, as a process has it
	}
	c.start(0, 1, 2)
	// at waits until a key may do the same at all nodes that run, and returns the longest wait.
	at := func(key, want string) (longest time.Duration) {
		t.Helper()
		for _, s := range c.nodes {
			if s == nil {
				continue
			}
			began := time.Now()
			check.Eventually(t, func() bool { return allowed(t, s, "shop", key) == want }, "the key is %s at each node", want)
			longest = max(longest, time.Since(began))
		}
		return longest
	}
	// Without a leader of the log a change fails, and may have happened or not.
	repeat := func(change func() error) {
		t.Helper()
		var err error
		check.Eventually(t, func() bool {
			err = change()
			return !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown)
		}, "the log takes the change")
		check.OK(t, err)
	}
	add := func(node int) (keys []string) {
		t.Helper()
		repeat(func() (err error) {
			if keys, err = c.nodes[node].AccountManager().Add("shop", nil, nil); errors.Is(err, accounts.ErrExists) {
				keys, err = c.nodes[node].AccountManager().Keys("shop")
			}
			return err
		})
		return keys
	}
	keys := add(0)
	t.Logf("added: valid at all nodes after %v", at(keys[0], "ok"))
	newTenantWith(t, c.nodes[1].ConnectionStringOf("shop", keys[1]), patientRetries).fill(t, "goods")

	c.stop(2)
	var fresh string
	repeat(func() (err error) { fresh, err = c.nodes[1].AccountManager().Rotate("shop", 1); return err })
	t.Logf("rotated: invalid at all nodes after %v", at(keys[0], "no"))
	c.start(2)
	at(fresh, "ok")
	at(keys[0], "no")
	at(keys[1], "ok")

	repeat(func() error {
		err := c.nodes[2].AccountManager().Remove("shop", true)
		if errors.Is(err, accounts.ErrNotFound) || errors.Is(err, accounts.ErrRemoving) { // by the change before
			err = nil
		}
		return err
	})
	at(keys[1], "no")
	for _, s := range c.nodes {
		gone(t, s, "shop")
	}
	again := add(0)
	at(again[0], "ok")
	for _, s := range c.nodes {
		x := newTenantWith(t, s.ConnectionStringOf("shop", again[0]), patientRetries)
		if found := x.has(t, "goods"); found != "" {
			t.Errorf("the next account of the name has %q", found)
		}
	}
}
