package auth

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func newStored(t *testing.T, name string, keys int) StoredAccount {
	t.Helper()
	s := StoredAccount{Name: name}
	for range keys {
		text, _, err := GenerateKey()
		must(t, err)
		s.Keys = append(s.Keys, text)
	}
	return s
}

func TestAccountsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "accounts")
	want := []StoredAccount{newStored(t, "one", 1), newStored(t, "two", 2)}
	must(t, writeAccountsFile(path, want))
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	got, err := ReadAccountsFile(path)
	must(t, err)
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("read %d accounts that are not those written", len(got))
	}
	accounts, err := LoadAccounts(path)
	if err != nil || len(accounts) != 2 || len(accounts[1].Keys) != 2 {
		t.Errorf("%d accounts, %v", len(accounts), err)
	}
}

// Edits at the same time wait for each other: none is lost.
func TestEditAccountsFileTogether(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "accounts")
	const editors = 16
	var group sync.WaitGroup
	for i := range editors {
		added := newStored(t, fmt.Sprintf("account%d", i), 1)
		group.Go(func() {
			err := EditAccountsFile(path, func(list []StoredAccount) ([]StoredAccount, error) {
				return append(list, added),
					nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	list, err := ReadAccountsFile(path)
	if err != nil || len(list) != editors {
		t.Errorf("%d accounts, want %d; %v", len(list), editors, err)
	}
}

func TestAccountsFileRefusals(t *testing.T) {
	t.Parallel()
	key := newStored(t, "one", 1).Keys[0]
	for name, text := range map[string]string{
		"no key": "one\n", "three keys": "one:" + key + ":" + key + ":" + key, "bad name": "One!:" + key,
		"bad key": "one:" + key + "$",
		"twice":   "one:" + key + "\none:" + key, "empty key": "one:",
	} {
		path := filepath.Join(t.TempDir(), "accounts")
		must(t, os.WriteFile(path, []byte("# comment\n\n"+text), 0o600))
		_, err := LoadAccounts(path)
		if err == nil {
			t.Errorf("%s: taken", name)
		} else if strings.Contains(err.Error(), key[:20]) {
			t.Errorf("%s: the error shows the key", name)
		}
	}
	path := filepath.Join(t.TempDir(), "accounts")
	must(t, os.WriteFile(path, []byte("one:"+key), 0o600))
	must(t, os.Chmod(path, 0o666))
	if _, err := LoadAccounts(path); err == nil {
		t.Error("a file that everybody may write to is taken")
	}
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, os.Chmod(path, 0o600))
	if _, err := LoadAccounts(path); err == nil {
		t.Error("a file without accounts is taken")
	}
}

func TestWatchAccounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounts")
	one := newStored(t, "one", 2)
	must(t, writeAccountsFile(path, []StoredAccount{one}))
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		accounts := Development()
		reload := make(chan os.Signal)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go WatchAccounts(ctx, path, accounts, time.Second, reload, slog.New(slog.NewTextHandler(&log, nil)))
		synctest.Wait()
		if accounts.Get("one") == nil || accounts.Get(DevelopmentAccount) != nil {
			t.Fatalf("accounts %v", accounts.Names())
		}
		must(t, writeAccountsFile(path, []StoredAccount{one, newStored(t, "two", 1)}))
		time.Sleep(1500 * time.Millisecond) // of the bubble's clock
		synctest.Wait()
		if accounts.Get("two") == nil {
			t.Errorf("after a change: accounts %v", accounts.Names())
		}
		must(t, os.WriteFile(path, []byte("garbage"), 0o600))
		reload <- os.Interrupt
		synctest.Wait()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if accounts.Get("two") == nil {
			t.Error("a broken file takes the accounts away")
		}
		if n := strings.Count(log.String(), "cannot be used"); n != 1 {
			t.Errorf("the broken file is logged %d times, want once:\n%s", n, &log)
		}
		for _, k := range one.Keys {
			if strings.Contains(log.String(), k) {
				t.Error("the log has a key")
			}
		}
	})
}
