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
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
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
	requests := requestlog.New(time.Now)
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
	// One view: the address of the container leads to the directory, that of a file to its content.
	for from, want := range map[string]string{base + "containers/data?prefix=raw/&done=saved": base +
		"paths/data?done=saved&path=raw", base + "paths/data?path=raw/a.txt": base + "blob/data?name=raw%2Fa.txt"} {
		if status, _, header := s.do(http.MethodGet, from, nil, nil); status != http.StatusSeeOther ||
			header.Get("Location") != want {
			t.Errorf("%s: %d %s, want %s", from, status, header.Get("Location"), want)
		}
	}
	s.shows(base+"blob/data?name=raw/a.txt", "<pre", "HLJR7A1WjeapKbUgxK7Y0Q==", "Rename to", "user::rw-")
	s.shows(base+"containers/data?all=1", "raw/a.txt")
	s.shows(base+"containers/data/size?path=raw/", `{"items":1,"bytes":4,`)
	s.shows(base+"paths/data", "raw/", "rwx", "data-upload", "Properties of the container")
	s.shows(base+"paths/data?path=raw", "2026/", "other::", "4 B", `data-prefix="raw/"`)
	if to := s.post(base+"paths/data?path=raw", "action", "access", "acl",
		"user::rwx\ngroup::r-x\nother::---\n"); !strings.Contains(to, "path=raw") {
		t.Error(to)
	}
	s.post(base+"paths/data?path=raw", "action", "owner", "owner", "ada", "group", "", "permissions", "rwxr-x---")
	s.shows(base+"paths/data?path=raw", "rwxr-x---", "ada")
	s.post(base+"paths/data?path=raw/a.txt", "action", "owner", "owner", "ada", "permissions", "0600")
	s.shows(base+"blob/data?name=raw/a.txt", "rw-------", "ada")
	s.post(base+"paths/data?path=raw", "action", "access", "below", "1", "acl", "user::rwx,group::---,other::---")
	s.shows(base+"paths/data?path=raw/2026", "rwx------")
	s.post(base+"paths/data?path=raw", "action", "rename", "to", "cooked")
	s.shows(base+"paths/data?path=cooked", "2026/")
	s.post(base+"paths/data?path=cooked", "action", "deleteChosen", "chosen", "cooked/2026/", "chosen", "cooked/a.txt")
	s.shows(base+"paths/data?path=cooked", "The directory is empty.")
	s.post(base+"paths/data?path=cooked", "action", "delete", "kind", "directory")
	s.shows(base+"paths/data", "The directory is empty.")
	s.post(base+"containers/data", "action", "metadata", "metadata", "color: blue")
	s.shows(base+"paths/data", "color: blue")

	// What the service refuses is shown beside the form, which keeps what was entered.
	s.post(base+"paths/data", "action", "create", "name", "there")
	if status, body, _ := s.do(http.MethodPost, base+"containers/data/upload?name=f", strings.NewReader("text"),
		http.Header{"X-Csrf-Token": {s.token()}}); status != http.StatusCreated {
		t.Fatalf("upload: %d %s", status, body)
	}
	for _, c := range []struct {
		path   string
		status int
		want   []string
		form   []string
	}{
		{"", 400, []string{"InvaldAccessControlList: The access control list value is invalid", ">nonsense</textarea>"},
			[]string{"action", "access", "acl", "nonsense"}},
		{"?path=f", 400, []string{"InvaldAccessControlList", ">user::rwz</textarea>", "Download"},
			[]string{"action", "access", "acl", "user::rwz"}},
		{"?path=f", 400, []string{"InvalidPermission", `value="rwz"`, "Download"},
			[]string{"action", "owner", "owner", "x", "permissions", "rwz"}},
		{"?path=f", 404, []string{"RenameDestinationParentPathNotFound", `value="no/where"`, "Create the directory above"},
			[]string{"action", "rename", "to", "no/where"}},
		{"", 409, []string{"PathAlreadyExists", "there/"}, []string{"action", "create", "name", "there"}},
		{"", 400, nil, []string{"action", "rename", "to", "x"}},
		{"", 400, nil, []string{"action", "nothing"}},
		{"", 400, nil, []string{"action", "deleteChosen"}},
		{"?path=none", 404, nil, []string{"action", "owner", "owner", "x"}},
	} {
		status, body, _ := s.send(base+"paths/data"+c.path, s.token(), c.form...)
		if status != c.status {
			t.Errorf("%q of %s: %d, want %d", c.form, c.path, status, c.status)
		}
		for _, want := range c.want {
			if !strings.Contains(body, want) {
				_, body, _ = strings.Cut(body, "<main")
				t.Errorf("%q of %s: the page has no %q:\n%s", c.form, c.path, want, body)
			}
		}
	}
	if status, _, _ := s.do(http.MethodGet, base+"paths/data?path=missing", nil, nil); status != http.StatusNotFound {
		t.Errorf("a path that is missing: %d", status)
	}
}
