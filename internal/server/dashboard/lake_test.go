package dashboard_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
)

// Directories are made, renamed and deleted, and their access control is changed, on the page of an account with a
// hierarchical namespace.
func TestPaths(t *testing.T) {
	t.Parallel()
	accounts, err := auth.NewManagedAccounts(accountprops.Blob{Hierarchical: true},
		*auth.Development().Get(auth.DevelopmentAccount))
	if err != nil {
		t.Fatal(err)
	}
	requests := dashboard.NewRequests(time.Now)
	stack, err := server.Start(server.Config{InMemory: true, Log: slog.New(slog.DiscardHandler), Accounts: accounts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stack.Stop(context.Background()) })
	s := &site{t, dashboard.New(dashboard.Options{Backend: func() dashboard.Backend { return stack }, Accounts: accounts,
		Requests: requests, InMemory: true, Log: slog.New(slog.DiscardHandler)}), stack}

	s.post(base+"containers", "action", "create", "name", "data")
	s.shows(base+"containers", base+"paths/data")
	s.post(base+"paths/data", "action", "create", "name", "raw/2026")
	if status, body, _ := s.do(http.MethodPost, base+"containers/data/upload?name=raw/a.txt", strings.NewReader("text"),
		http.Header{"X-Csrf-Token": {s.token()}}); status != http.StatusCreated {
		t.Fatalf("upload: %d %s", status, body)
	}
	s.shows(base+"blob/data?name=raw/a.txt", "<pre", "HLJR7A1WjeapKbUgxK7Y0Q==")
	s.shows(base+"containers/data?all=1", "raw/a.txt")
	s.post(base+"blob/data?name=raw/a.txt", "action", "delete")
	s.shows(base+"paths/data", "raw/", "rwx")
	s.shows(base+"paths/data?path=raw", "2026/", "other::")
	if to := s.post(base+"paths/data?path=raw", "action", "access", "acl", "user::rwx\ngroup::r-x\nother::---\n",
		"owner", "ada"); !strings.Contains(to, "path=raw") {
		t.Error(to)
	}
	s.shows(base+"paths/data?path=raw", "rwxr-x---", "ada")
	s.post(base+"paths/data?path=raw", "action", "access", "below", "1", "acl", "user::rwx,group::---,other::---")
	s.shows(base+"paths/data?path=raw/2026", "rwx------")
	s.post(base+"paths/data?path=raw", "action", "rename", "to", "cooked")
	s.shows(base+"paths/data?path=cooked", "2026/")
	s.post(base+"paths/data?path=cooked", "action", "delete", "kind", "directory")
	s.shows(base+"paths/data", "The directory is empty.")
	for _, wrong := range [][]string{{"action", "access", "acl", "nonsense"}, {"action", "rename", "to", "x"},
		{"action", "nothing"}} {
		if status, _, _ := s.send(base+"paths/data", s.token(), wrong...); status/100 != 4 {
			t.Errorf("%q: %d", wrong, status)
		}
	}
	if status, _, _ := s.do(http.MethodGet, base+"paths/data?path=missing", nil, nil); status != http.StatusNotFound {
		t.Errorf("a path that is missing: %d", status)
	}
}
