package blobsvc_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server/devissuer"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// The matrix of access control: each operation on each endpoint, for a caller in each class of a list, with each set of
// permissions on each file and directory that the operation touches, all other permissions granted. The permissions
// that an operation needs are those of Microsoft's table.
// https://learn.microsoft.com/azure/storage/blobs/data-lake-storage-access-control#common-scenarios-related-to-acl-permissions

// The tree of the matrix. Each operation passes the directories on its way.
var (
	matrixDirs = []string{"", "x", "x/y", "x/z"}
	matrixFile = "x/y/f"
)

// matrixOperation is an operation with the permissions that it needs.
type matrixOperation struct {
	name, method, path, content string
	headers                     []string
	blob                        bool // on the Blob endpoint
	needs                       map[string]posix.Perm
	owner                       bool // only the owner of the file may do it
	super                       bool // only the superuser may
	changes                     bool // the tree is made again after it
}

const (
	mx = posix.Execute
	mr = posix.Read
	mw = posix.Write
)

// through holds what a way to x/y needs, and more.
func through(more map[string]posix.Perm) map[string]posix.Perm {
	needs := map[string]posix.Perm{"": mx, "x": mx, "x/y": mx}
	for path, p := range more {
		needs[path] |= p
	}
	return needs
}

type perms = map[string]posix.Perm

var matrixOperations = []matrixOperation{
	{name: "read", method: "GET", path: "/files/x/y/f", needs: through(perms{matrixFile: mr})},
	{name: "read, Blob", method: "GET", path: "/files/x/y/f", blob: true, needs: through(perms{matrixFile: mr})},
	{name: "properties", method: "HEAD", path: "/files/x/y/f", needs: through(perms{matrixFile: mr})},
	{name: "status", method: "HEAD", path: "/files/x/y/f?action=getStatus", needs: through(nil)},
	{name: "access control", method: "HEAD", path: "/files/x/y/f?action=getAccessControl", needs: through(nil)},
	{name: "check access", method: "HEAD", path: "/files/x/y/f?action=checkAccess&fsAction=rw-",
		needs: through(perms{matrixFile: mr | mw})},
	{name: "list", method: "GET", path: "/files?resource=filesystem&recursive=false&directory=x/y",
		needs: perms{"": mx, "x": mx, "x/y": mr | mx}},
	{name: "list, Blob", method: "GET", path: "/files?restype=container&comp=list&delimiter=/&prefix=x/y/", blob: true,
		needs: perms{"": mx, "x": mx, "x/y": mr | mx}},
	{name: "list the root", method: "GET", path: "/files?resource=filesystem&recursive=false", needs: perms{"": mr | mx}},
	{name: "list everything", method: "GET", path: "/files?resource=filesystem&recursive=true&directory=x",
		needs: perms{"": mx, "x": mr | mx, "x/y": mr | mx, "x/z": mr | mx}},
	{name: "append", method: "PATCH", path: "/files/x/y/f?action=append&position=7", content: "x",
		needs: through(perms{matrixFile: mr | mw})},
	{name: "flush", method: "PATCH", path: "/files/x/y/f?action=flush&position=7",
		needs: through(perms{matrixFile: mr | mw})},
	{name: "set properties", method: "PATCH", path: "/files/x/y/f?action=setProperties",
		headers: []string{"x-ms-properties", "a=MQ=="}, needs: through(perms{matrixFile: mw})},
	{name: "set metadata, Blob", method: "PUT", path: "/files/x/y/f?comp=metadata", blob: true,
		headers: []string{"x-ms-meta-a", "1"}, needs: through(perms{matrixFile: mw})},
	{name: "overwrite, Blob", method: "PUT", path: "/files/x/y/f", blob: true, content: "content",
		headers: []string{"x-ms-blob-type", "BlockBlob"}, needs: through(perms{matrixFile: mw})},
	{name: "create a file", method: "PUT", path: "/files/x/y/new?resource=file", changes: true,
		needs: through(perms{"x/y": mw | mx})},
	{name: "create a directory", method: "PUT", path: "/files/x/y/new?resource=directory", changes: true,
		needs: through(perms{"x/y": mw | mx})},
	{name: "create, Blob", method: "PUT", path: "/files/x/y/new", blob: true, content: "content", changes: true,
		headers: []string{"x-ms-blob-type", "BlockBlob"}, needs: through(perms{"x/y": mw | mx})},
	{name: "delete", method: "DELETE", path: "/files/x/y/f", changes: true, needs: through(perms{"x/y": mw | mx})},
	{name: "delete, Blob", method: "DELETE", path: "/files/x/y/f", blob: true, changes: true,
		needs: through(perms{"x/y": mw | mx})},
	{name: "delete a tree", method: "DELETE", path: "/files/x/y?recursive=true", changes: true,
		needs: perms{"": mx, "x": mw | mx, "x/y": mr | mw | mx}},
	{name: "move out", method: "PUT", path: "/files/x/z/f", headers: []string{"x-ms-rename-source", "/files/x/y/f"},
		changes: true, needs: through(perms{"x/y": mw | mx, "x/z": mw | mx})},
	{name: "move a directory", method: "PUT", path: "/files/x/z/y", headers: []string{"x-ms-rename-source", "/files/x/y"},
		changes: true, needs: perms{"": mx, "x": mw | mx, "x/z": mw | mx}},
	{name: "change permissions", method: "PATCH", path: "/files/x/y/f?action=setAccessControl", changes: true,
		headers: []string{"x-ms-permissions", "0777"}, needs: through(nil), owner: true},
	{name: "change the owner", method: "PATCH", path: "/files/x/y/f?action=setAccessControl", changes: true,
		headers: []string{"x-ms-owner", "someone"}, needs: through(nil), super: true},
	{name: "change the group", method: "PATCH", path: "/files/x/y/f?action=setAccessControl", changes: true,
		headers: []string{"x-ms-group", auth.ObjectID("staff")}, needs: through(nil), owner: true},
	{name: "change the group to one of others", method: "PATCH", path: "/files/x/y/f?action=setAccessControl",
		changes: true, headers: []string{"x-ms-group", "foreign"}, needs: through(nil), super: true},

	// What a creation and a rename do by options that other operations guard.
	{name: "move with permissions", method: "PUT", path: "/files/x/z/f", changes: true, owner: true,
		headers: []string{"x-ms-rename-source", "/files/x/y/f", "x-ms-permissions", "0777", "x-ms-umask", "0002"},
		needs:   through(perms{"x/y": mw | mx, "x/z": mw | mx})},
	{name: "move with properties", method: "PUT", path: "/files/x/z/f", changes: true,
		headers: []string{"x-ms-rename-source", "/files/x/y/f", "x-ms-properties", "a=MQ=="},
		needs:   through(perms{"x/y": mw | mx, "x/z": mw | mx, matrixFile: mw})},
	{name: "overwrite", method: "PUT", path: "/files/x/y/f?resource=file", changes: true,
		needs: through(perms{matrixFile: mw})},
	{name: "overwrite with permissions", method: "PUT", path: "/files/x/y/f?resource=file", changes: true,
		headers: []string{"x-ms-permissions", "0777"}, needs: through(perms{matrixFile: mw, "x/y": mw | mx})},
	{name: "overwrite with a list", method: "PUT", path: "/files/x/y/f?resource=file", changes: true, owner: true,
		headers: []string{"x-ms-acl", "user::rwx,group::rwx,other::rwx"},
		needs:   through(perms{matrixFile: mw, "x/y": mw | mx})},
	{name: "overwrite with a group", method: "PUT", path: "/files/x/y/f?resource=file", changes: true, owner: true,
		headers: []string{"x-ms-group", auth.ObjectID("staff")}, needs: through(perms{matrixFile: mw, "x/y": mw | mx})},
	{name: "overwrite with an owner", method: "PUT", path: "/files/x/y/f?resource=file", changes: true, super: true,
		headers: []string{"x-ms-owner", "another"}, needs: through(perms{matrixFile: mw, "x/y": mw | mx})},
	{name: "take over", method: "PUT", path: "/files/x/y/f?resource=file", changes: true, owner: true,
		headers: []string{"x-ms-owner", auth.ObjectID("guest")}, needs: through(perms{matrixFile: mw, "x/y": mw | mx})},
	{name: "take over a directory", method: "PUT", path: "/files/x/y?resource=directory", changes: true, owner: true,
		headers: []string{"x-ms-owner", auth.ObjectID("guest")}, needs: perms{"": mx, "x": mw | mx, "x/y": mw}},
	{name: "open a directory", method: "PUT", path: "/files/x/y?resource=directory", changes: true, owner: true,
		headers: []string{"x-ms-permissions", "0777"}, needs: perms{"": mx, "x": mw | mx, "x/y": mw}},
	{name: "create with a group", method: "PUT", path: "/files/x/y/new?resource=file", changes: true,
		headers: []string{"x-ms-group", auth.ObjectID("staff")}, needs: through(perms{"x/y": mw | mx})},
	{name: "create with a group of others", method: "PUT", path: "/files/x/y/new?resource=file", changes: true,
		super: true, headers: []string{"x-ms-group", "foreign"}, needs: through(perms{"x/y": mw | mx})},
	{name: "create with an owner", method: "PUT", path: "/files/x/y/new?resource=file", changes: true, super: true,
		headers: []string{"x-ms-owner", "another"}, needs: through(perms{"x/y": mw | mx})},
	{name: "create with itself as the owner", method: "PUT", path: "/files/x/y/new?resource=file", changes: true,
		headers: []string{"x-ms-owner", auth.ObjectID("guest")}, needs: through(perms{"x/y": mw | mx})},
}

// matrixClasses are the classes in which a caller gets permissions p from a list; those of the other classes are the
// opposite, so that a wrong class shows.
var matrixClasses = map[string]func(guest, staff string, p posix.Perm) (acl, owner, group string){
	"owner": func(guest, _ string, p posix.Perm) (string, string, string) {
		return fmt.Sprintf("user::%[1]s,user:%[2]s:%[3]s,group::%[3]s,mask::rwx,other::%[3]s", p, guest, opposite(p)), guest,
			"others"
	},
	"named user": func(guest, staff string, p posix.Perm) (string, string, string) {
		return fmt.Sprintf("user::%[3]s,user:%[1]s:%[2]s,group::%[3]s,group:%[4]s:%[3]s,mask::rwx,other::%[3]s", guest, p,
			opposite(p), staff), "someone", staff
	},
	"masked user": func(guest, _ string, p posix.Perm) (string, string, string) {
		return fmt.Sprintf("user::%[3]s,user:%[1]s:rwx,group::%[3]s,mask::%[2]s,other::%[3]s", guest, p, opposite(p)),
			"someone",
			"others"
	},
	"owning group": func(_, staff string, p posix.Perm) (string, string, string) {
		return fmt.Sprintf("user::%[2]s,group::%[1]s,other::%[2]s", p, opposite(p)), "someone", staff
	},
	"named group": func(_, staff string, p posix.Perm) (string, string, string) {
		return fmt.Sprintf("user::%[3]s,group::---,group:%[1]s:%[2]s,mask::rwx,other::%[3]s", staff, p, opposite(p)),
			"someone", "others"
	},
	"others": func(_, _ string, p posix.Perm) (string, string, string) {
		return fmt.Sprintf("user::%[2]s,user:someone-else:%[2]s,group::%[2]s,mask::rwx,other::%[1]s", p, opposite(p)),
			"someone", "others"
	},
}

func opposite(p posix.Perm) posix.Perm { return posix.All &^ p }

func TestLakeAccessMatrix(t *testing.T) {
	t.Parallel()
	for number, class := range slices.Sorted(maps.Keys(matrixClasses)) {
		list := matrixClasses[class]
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			m := newMatrix(t)
			m.build()
			cases := 0
			for n, node := range append([]string{matrixFile}, matrixDirs...) {
				for p := range posix.All + 1 {
					// The quick matrix has a quarter of the sets: one, and the one with the other permissions, so
					// that each is there once and missing once. Other nodes and classes have the other sets.
					if (number+n+int(min(p, opposite(p))))%check.Size(4, 1) != 0 {
						continue
					}
					has := func(path string) posix.Perm {
						if path == node {
							return p
						}
						return posix.All
					}
					m.grant(list, has)
					for _, op := range matrixOperations {
						want := !op.super && (!op.owner || class == "owner")
						for path, need := range op.needs {
							want = want && has(path)&need == need
						}
						cases++
						status := m.as("guest", op)
						if (status < 300) != want || !want && status != http.StatusForbidden {
							t.Errorf("%s, with %s on %q: %d, want it %v", op.name, p, node, status, want)
						}
						if want && op.changes {
							m.build()
							m.grant(list, has)
						}
					}
				}
			}
			t.Logf("%d cases", cases)
		})
	}
}

// The other callers, on a tree that gives no caller anything: what roles and tokens grant does not depend on lists.
func TestLakeCallersMatrix(t *testing.T) {
	t.Parallel()
	all, reads := []string{}, []string{"read", "read, Blob", "properties", "status", "access control", "check access",
		"list", "list, Blob", "list the root", "list everything"}
	for _, op := range matrixOperations {
		all = append(all, op.name)
	}
	ofOwner := []string{"change permissions", "change the owner", "change the group", "change the group to one of others",
		"move with permissions", "overwrite with a list", "overwrite with a group", "overwrite with an owner", "take over",
		"take over a directory", "open a directory", "create with a group", "create with a group of others",
		"create with an owner", "create with itself as the owner"} // whose headers name the guest, and its group
	for _, c := range []struct {
		caller string
		allows []string
		not    []string
	}{
		{"owner", all, nil},
		{"writer", all, ofOwner},
		{"reader", reads, []string{"check access"}}, // whose fsAction has w
		{"stranger", nil, nil},
	} {
		t.Run(c.caller, func(t *testing.T) {
			t.Parallel()
			m := newMatrix(t)
			m.build()
			closed := func() {
				m.grant(matrixClasses["others"], func(string) posix.Perm { return 0 })
			}
			closed()
			for _, op := range matrixOperations {
				want := slices.Contains(c.allows, op.name) && !slices.Contains(c.not, op.name)
				status := m.as(c.caller, op)
				if (status < 300) != want || !want && status != http.StatusForbidden {
					t.Errorf("%s: %d, want it %v", op.name, status, want)
				}
				if want && op.changes {
					m.build()
					closed()
				}
			}
		})
	}
}

// In a directory with the sticky bit only the owner of an item, and that of the directory, remove and move it, whatever
// the permissions.
func TestLakeStickyMatrix(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	guest := auth.ObjectID("guest")
	for _, op := range matrixOperations {
		if !slices.Contains([]string{"delete", "delete, Blob", "move out", "overwrite with permissions"}, op.name) {
			continue
		}
		for _, sticky := range []bool{false, true} {
			for _, ownFile := range []bool{false, true} {
				for _, ownDir := range []bool{false, true} {
					m.build()
					m.grant(matrixClasses["others"], func(string) posix.Perm { return posix.All })
					mode := map[bool]string{false: "0777", true: "1777"}[sticky]
					m.set("x/y", "x-ms-permissions", mode)
					m.set(matrixFile, "x-ms-acl", "user::rwx,group::rwx,other::rwx")
					if ownFile {
						m.set(matrixFile, "x-ms-owner", guest)
					}
					if ownDir {
						m.set("x/y", "x-ms-owner", guest)
					}
					want := !sticky || ownFile || ownDir
					if status := m.as("guest", op); (status < 300) != want {
						t.Errorf("%s, sticky %v, own file %v, own directory %v: %d", op.name, sticky, ownFile, ownDir, status)
					}
				}
			}
		}
	}
}

// matrix is a service with the tree of the matrix.
type matrix struct {
	*fixture
	issuer *devissuer.Issuer
}

func newMatrix(t *testing.T) *matrix {
	t.Helper()
	issuer := must(devissuer.New(devissuer.Config{Now: func() time.Time { return time.Now().Add(-10 * time.Minute) },
		Groups: map[string][]string{"guest": {"staff"}}}))(t)
	role := func(who, what string) auth.Assignment {
		return auth.Assignment{Principal: who, Role: what, Scope: auth.DevelopmentAccount}
	}
	roles := must(auth.NewRoles(role("owner", "Storage Blob Data Owner"), role("reader", "Storage Blob Data Reader"),
		role("writer", "Storage Blob Data Contributor")))(t)
	oauth := must(auth.NewOAuth(roles, issuer.Trust()))(t)
	m := &matrix{issuer: issuer, fixture: startWith(t, func(c *blobhost.Config) {
		manage(c, accountprops.Blob{Hierarchical: true})
		c.OAuth = oauth
	})}
	m.filesystem("files")
	return m
}

// build makes the tree, without what was there.
func (m *matrix) build() {
	m.t.Helper()
	m.lakeDo("DELETE", "/files/x?recursive=true", "")
	m.lakeDo("PUT", "/files/x/z?resource=directory", "").want(m.t, 201, "")
	m.lakeDo("PUT", "/files/x/y/f?resource=file", "").want(m.t, 201, "")
	m.lakeDo("PATCH", "/files/x/y/f?action=append&position=0&flush=true", "content").want(m.t, 202, "")
}

// grant sets the lists of the tree.
func (m *matrix) grant(list func(guest, staff string, p posix.Perm) (acl, owner, group string),
	has func(path string) posix.Perm) {
	m.t.Helper()
	for _, path := range append([]string{matrixFile}, matrixDirs...) {
		acl, owner, group := list(auth.ObjectID("guest"), auth.ObjectID("staff"), has(path))
		m.set(path, "x-ms-acl", acl, "x-ms-owner", owner, "x-ms-group", group)
	}
}

func (m *matrix) set(path string, headers ...string) {
	m.t.Helper()
	m.lakeDo("PATCH", "/files/"+path+"?action=setAccessControl", "", headers...).want(m.t, 200, "")
}

// as sends an operation with the token of a caller, and returns the status.
func (m *matrix) as(who string, op matrixOperation) int {
	m.t.Helper()
	hr := m.lakeNew(op.method, op.path, op.content, op.headers...)
	if op.blob {
		hr.Host = auth.DevelopmentAccount + ".blob.localhost"
	}
	token, _ := m.issuer.Token(who, auth.StorageAudience)
	hr.Header.Set("Authorization", "Bearer "+token)
	return m.send(hr).status
}
