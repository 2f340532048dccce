package blobsvc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server/devissuer"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

// Callers without a role for an operation are limited by access control lists; callers with a role are not.
func TestLakeCallers(t *testing.T) {
	t.Parallel()
	issuer := must(devissuer.New(devissuer.Config{Now: func() time.Time { return time.Now().Add(-10 * time.Minute) }}))(t)
	role := func(who, what string) auth.Assignment {
		return auth.Assignment{Principal: who, Role: what, Scope: auth.DevelopmentAccount}
	}
	roles := must(auth.NewRoles(role("owner", "Storage Blob Data Owner"), role("reader", "Storage Blob Data Reader"),
		role("writer", "Storage Blob Data Contributor")))(t)
	oauth := must(auth.NewOAuth(roles, issuer.Trust()))(t)
	f := startWith(t, func(c *blobhost.Config) {
		manage(c, accountprops.Blob{Hierarchical: true})
		c.OAuth = oauth
	})
	as := func(who, method, path string, headers ...string) reply {
		t.Helper()
		hr := f.lakeNew(method, path, "", headers...)
		token, _ := issuer.Token(who, auth.StorageAudience)
		hr.Header.Set("Authorization", "Bearer "+token)
		return f.send(hr)
	}
	id := auth.ObjectID
	fs := f.filesystem("files")
	writeFile(t, fs, "open/f", "content")
	writeFile(t, fs, "closed/f", "content")
	writeFile(t, fs, "top", "content")
	set := func(path, acl string) {
		t.Helper()
		f.lakeDo("PATCH", "/files/"+path+"?action=setAccessControl", "", "x-ms-acl", acl).want(t, 200, "")
	}
	set("", "user::rwx,user:"+id("guest")+":--x,group::r-x,mask::r-x,other::---")
	set("open", "user::rwx,user:"+id("guest")+":rwx,group::r-x,mask::rwx,other::---")
	set("open/f", "user::rw-,user:"+id("guest")+":r--,group::r--,mask::r--,other::---")
	const denied = "AuthorizationPermissionMismatch"
	for _, tc := range []struct {
		who, method, path string
		status            int
		headers           []string
	}{
		{"guest", "GET", "/files/open/f", 200, nil},
		{"guest", "GET", "/files/closed/f", 403, nil},
		{"guest", "GET", "/files/top", 403, nil},
		{"stranger", "GET", "/files/open/f", 403, nil},
		{"reader", "GET", "/files/closed/f", 200, nil},
		{"guest", "GET", "/files?resource=filesystem&recursive=false&directory=open", 200, nil},
		{"guest", "GET", "/files?resource=filesystem&recursive=false", 403, nil},
		{"guest", "GET", "/files?resource=filesystem&recursive=true&directory=closed", 403, nil},
		{"guest", "PUT", "/files/open/mine?resource=file", 201, nil},
		{"guest", "PUT", "/files/closed/mine?resource=file", 403, nil},
		{"guest", "PUT", "/files/mine?resource=file", 403, nil},
		{"reader", "PUT", "/files/open/theirs?resource=file", 403, nil},
		{"guest", "PATCH", "/files/open/mine?action=setAccessControl", 200, []string{"x-ms-permissions", "0600"}},
		{"guest", "PATCH", "/files/open/f?action=setAccessControl", 403, []string{"x-ms-permissions", "0777"}},
		{"guest", "PATCH", "/files/open/mine?action=setAccessControl", 403, []string{"x-ms-owner", "someone"}},
		{"writer", "PATCH", "/files/open/f?action=setAccessControl", 403, []string{"x-ms-permissions", "0777"}},
		{"owner", "PATCH", "/files/open/mine?action=setAccessControl", 200, []string{"x-ms-group", "staff"}},
		{"guest", "HEAD", "/files/open/f?action=checkAccess&fsAction=r--", 200, nil},
		{"guest", "HEAD", "/files/open/f?action=checkAccess&fsAction=rw-", 403, nil},
		{"guest", "PUT", "/files/open/moved", 201, []string{"x-ms-rename-source", "/files/open/mine"}},
		{"guest", "PUT", "/files/closed/moved", 403, []string{"x-ms-rename-source", "/files/open/moved"}},
		{"guest", "PUT", "/files/open/stolen", 403, []string{"x-ms-rename-source", "/files/closed/f"}},
		{"guest", "DELETE", "/files/closed/f", 403, nil},
		{"guest", "DELETE", "/files/closed?recursive=true", 403, nil},
		{"guest", "DELETE", "/files/open/moved", 200, nil},
		{"guest", "DELETE", "/files?resource=filesystem", 403, nil},
		{"writer", "PUT", "/files/closed/theirs?resource=file", 201, nil},
	} {
		code := ""
		if tc.status == 403 {
			code = denied
		}
		if r := as(tc.who, tc.method, tc.path, tc.headers...); r.status != tc.status || r.code() != code {
			t.Errorf("%s: %s %s %v: %d %s, want %d %s", tc.who, tc.method, tc.path, tc.headers, r.status, r.code(), tc.status,
				code)
		}
	}
	// The owner of a new file is the caller; the owning group is that of the directory.
	r := f.lakeDo("HEAD", "/files/closed/theirs?action=getAccessControl", "").want(t, 200, "")
	if r.header.Get("x-ms-owner") != id("writer") || r.header.Get("x-ms-group") != "$superuser" {
		t.Errorf("owner %s, group %s", r.header.Get("x-ms-owner"), r.header.Get("x-ms-group"))
	}
	// In a directory with the sticky bit only the owner removes a file.
	f.lakeDo("PUT", "/files/open/sticky?resource=directory", "").want(t, 201, "")
	set("open/sticky", "user::rwx,group::rwx,other::rwx")
	f.lakeDo("PATCH", "/files/open/sticky?action=setAccessControl", "", "x-ms-permissions", "1777").want(t, 200, "")
	writeFile(t, fs, "open/sticky/f", "")
	as("guest", "DELETE", "/files/open/sticky/f").want(t, 403, denied)
	as("guest", "PUT", "/files/open/sticky/own?resource=file").want(t, 201, "")
	as("guest", "DELETE", "/files/open/sticky/own").want(t, 200, "")
	// A recursive change fails where the caller is not the owner, and says where.
	as("guest", "PUT", "/files/open/tree/own?resource=file").want(t, 201, "")
	writeFile(t, fs, "open/tree/super", "")
	r = as("guest", "PATCH", "/files/open/tree?action=setAccessControlRecursive&mode=modify&forceFlag=true", "x-ms-acl",
		"other::r--").want(t, 200, "")
	if !strings.Contains(r.body, `"failureCount":1`) ||
		!strings.Contains(r.body, `"name":"open/tree/super","type":"FILE"`) ||
		!strings.Contains(r.body, `"filesSuccessful":1`) {
		t.Errorf("a recursive change: %s", r.body)
	}
}
