package server

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A node whose database with the names of trees is damaged gets it from the other nodes after `lazuli fsck --repair`:
// names, owners, lists and entity tags are those that the others serve.
func TestNodeWithDamagedTree(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	accounts, err := auth.NewManagedAccounts(accountprops.Blob{Hierarchical: true},
		*auth.Development().Get(auth.DevelopmentAccount))
	check.OK(t, err)
	c := newTestCluster(t, 3)
	for i := range c.configs {
		c.configs[i].Accounts = accounts
	}
	c.start(0, 1, 2)
	try := func(node int, method, path string, headers ...string) (status int, body string) {
		t.Helper()
		r := check.Must(http.NewRequestWithContext(t.Context(), method,
			c.nodes[node].InProcessURL(wire.DataLake, auth.DevelopmentAccount)+path, nil))(t)
		r.Header.Set("x-ms-version", "2023-11-03")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		answer := check.Must(c.nodes[node].InProcess().RoundTrip(r))(t)
		defer answer.Body.Close()
		return answer.StatusCode, string(check.Must(io.ReadAll(answer.Body))(t))
	}
	dfs := func(node int, method, path string, headers ...string) (body string) {
		t.Helper()
		attempts := 0
		check.Eventually(t, func() bool {
			var status int
			status, body = try(node, method, path, headers...)
			attempts++
			// An attempt whose outcome is unknown may have created it, or moved or deleted it.
			did := attempts > 1 && method != http.MethodGet && (status == http.StatusConflict || status == http.StatusNotFound)
			if status >= 300 && status < 500 && !did {
				t.Fatalf("%s %s: %d %s", method, path, status, body)
			}
			return status < 500
		}, "%s %s is answered without an election", method, path)
		return body
	}
	dfs(0, "PUT", "/box?resource=filesystem")
	for i := range 40 {
		dfs(i%3, "PUT", fmt.Sprintf("/box/a/%d/file?resource=file", i))
	}
	dfs(1, "PATCH", "/box/a?action=setAccessControl", "x-ms-acl", "user::rwx,user:u:r-x,group::r-x,other::---")
	dfs(2, "PUT", "/box/moved", "x-ms-rename-source", "/box/a")
	dfs(0, "DELETE", "/box/moved/7?recursive=true")
	const list = "/box?resource=filesystem&recursive=true"
	want := dfs(0, "GET", list)
	newTenantWith(t, c.nodes[0].ConnectionString(), patientRetries).fill(t, "content")

	const damaged = 2
	folder := c.configs[damaged].Location
	c.stop(damaged)
	// Content that a node has not copied yet is no damage.
	for _, name := range check.Must(filepath.Glob(filepath.Join(folder, "extents", "*")))(t) {
		check.OK(t, os.Remove(name))
	}
	lacking, err := fsck.Check(t.Context(), folder, fsck.Options{})
	if err != nil || !lacking.Clean || lacking.Notes == 0 || lacking.Warnings > 0 {
		t.Errorf("the check of a node without content says %+v, %v, want a note", lacking, err)
	}
	path := filepath.Join(folder, "blobs.db")
	p := check.Must(os.ReadFile(path))(t)
	for at := 8192; at < len(p); at += 4096 { // a byte of each page of the tree
		p[at+100] ^= 4
	}
	check.OK(t, os.WriteFile(path, p, 0o600))
	if found, err := fsck.Check(t.Context(), folder, fsck.Options{}); err != nil || found.Clean {
		t.Fatalf("the check finds nothing: %v", err)
	}
	r, err := fsck.Check(t.Context(), folder, fsck.Options{Repair: true})
	if err != nil || !r.Clean || len(r.Repaired) == 0 || len(r.Lost) > 0 {
		t.Fatalf("the repair says %+v, %v", r, err)
	}
	c.start(damaged)
	if got := dfs(damaged, "GET", list); got != want {
		t.Errorf("after the repair the node lists\n%s\nand others list\n%s", got, want)
	}
}
