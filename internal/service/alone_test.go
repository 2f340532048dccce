package service_test

import (
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/signer"
	"github.com/lazuli-storage/lazuli/queuesvc"
	"github.com/lazuli-storage/lazuli/tablesvc"
)

// alone is a service that a program opens by its public configuration.
type alone interface {
	Handler() http.Handler
	Ready() error
	Close() error
}

// config has the fields that the configurations have in common.
type config struct {
	folder   string
	memory   bool
	accounts map[string]string
}

// services are the three services, each with a request that creates something, and the answer to its repetition.
var services = []struct {
	name   string
	open   func(config) (alone, error)
	method string
	path   string
	body   string
	again  int
}{
	{"table", func(c config) (alone, error) {
		return opened(tablesvc.New(tablesvc.Config{Folder: c.folder, InMemory: c.memory, Accounts: c.accounts,
			Relaxed: true, Log: quiet}))
	}, "POST", "/Tables", `{"TableName":"Orders"}`, 409},
	{"queue", func(c config) (alone, error) {
		return opened(queuesvc.New(queuesvc.Config{Folder: c.folder, InMemory: c.memory, Accounts: c.accounts,
			Relaxed: true, Log: quiet}))
	}, "PUT", "/orders", "", 204},
	{"blob", func(c config) (alone, error) {
		return opened(blobsvc.New(blobsvc.Config{Folder: c.folder, InMemory: c.memory, Accounts: c.accounts,
			Relaxed: true, Log: quiet}))
	}, "PUT", "/orders?restype=container", "", 409},
}

var quiet = slog.New(slog.DiscardHandler)

// opened makes a nil interface of the nil pointer beside an error.
func opened[S alone](s S, err error) (alone, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

var (
	key  = base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	shop = signer.Account{Name: "shop", Key: signer.ParseKey(key)}
)

// What a service without a server keeps is in its folder when it is opened again. While it is open, the folder is
// locked; after Close, which can be called twice, nothing holds it.
func TestFolderOfAServiceAlone(t *testing.T) {
	t.Parallel()
	for _, svc := range services {
		t.Run(svc.name, func(t *testing.T) {
			t.Parallel()
			c := config{folder: t.TempDir(), accounts: map[string]string{"shop": key}}
			for _, want := range []int{201, svc.again} {
				s, err := svc.open(c)
				check.OK(t, err)
				if got := send(s, svc.method, svc.path, svc.body); got != want {
					t.Errorf("status %d, want %d", got, want)
				}
				check.OK(t, s.Ready())
				if second, err := svc.open(c); !errors.Is(err, datadir.ErrLocked) {
					t.Errorf("the folder is opened twice: %v", err)
					if err == nil {
						_ = second.Close()
					}
				}
				check.OK(t, s.Close())
				check.OK(t, s.Close())
			}
		})
	}
}

// A configuration that is not valid is refused with its reason, which does not have the key.
func TestConfigurationsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, svc := range services {
		for want, c := range map[string]config{
			"either Config.Folder or Config.InMemory": {folder: t.TempDir(), memory: true},
			"Config.InMemory is required":             {},
			"account shop, key 1":                     {memory: true, accounts: map[string]string{"shop": "c2VjcmV0 not base64"}},
			"UPPER":                                   {memory: true, accounts: map[string]string{"UPPER": key}},
		} {
			s, err := svc.open(c)
			if err == nil {
				_ = s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), svc.name+"svc") ||
				strings.Contains(err.Error(), "c2VjcmV0") {
				t.Errorf("%s: error %v, want one with %q", svc.name, err, want)
			}
		}
	}
	if s, err := blobsvc.New(blobsvc.Config{InMemory: true, CopySources: []string{"a/b"}}); err == nil {
		_ = s.Close()
		t.Error("blobsvc takes a copy source that is no host")
	}
}

// The hierarchical namespace is one for all accounts of a Blob service.
func TestHierarchicalNamespace(t *testing.T) {
	t.Parallel()
	for tree, want := range map[bool]string{true: "true", false: "false"} {
		s, err := blobsvc.New(blobsvc.Config{InMemory: true, Accounts: map[string]string{"shop": key},
			HierarchicalNamespace: tree, Log: quiet})
		check.OK(t, err)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, request("GET", "/?restype=account&comp=properties", ""))
		var header strings.Builder
		check.OK(t, w.Header().Write(&header))
		if !strings.Contains(header.String(), "x-ms-is-hns-enabled: "+want+"\r\n") {
			t.Errorf("answer %d, want one with x-ms-is-hns-enabled %s:\n%s", w.Code, want, &header)
		}
		check.OK(t, s.Close())
	}
}

func send(s alone, method, path, body string) int {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, request(method, path, body))
	return w.Code
}

// request returns a signed request to the account.
func request(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, "http://127.0.0.1/shop"+path, strings.NewReader(body))
	r.Header.Set("x-ms-date", time.Now().UTC().Format(http.TimeFormat))
	r.Header.Set("x-ms-version", "2021-12-02")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
		signer.Account{Name: shop.Name, Key: shop.Key, Table: true}.SharedKeyLite(r, r.URL.Path)
		return r
	}
	shop.SharedKey(r, r.URL.Path)
	return r
}
