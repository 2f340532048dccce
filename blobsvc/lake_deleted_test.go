package blobsvc_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server/devissuer"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

var (
	listedItem = regexp.MustCompile(`<Name>([^<]*)</Name>(<DeletionId>\d+</DeletionId>)?`)
)

// A file that expires is kept like one that a client deletes, and from the time at which it was deleted.
func TestLakeExpiredFilesAreKept(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.keepDeleted(7, "")
	writeFile(t, f.filesystem("files"), "x", "x")
	f.do("PUT", "/files/x?comp=expiry", "", "x-ms-expiry-option", "RelativeToNow", "x-ms-expiry-time", "60000").
		want(t, 200, "")
	f.advance(61 * time.Second)
	for _, tt := range []struct {
		after time.Duration
		kept  bool
	}{{0, true}, {24 * time.Hour, true}, {7 * 24 * time.Hour, false}} {
		f.advance(tt.after)
		if err := f.parts.Clean(ctx); err != nil { // which expires files, and then purges those whose time has come
			t.Fatal(err)
		}
		list := f.do("GET", "/files?restype=container&comp=list&showonly=deleted", "").want(t, 200, "")
		if kept := strings.Contains(list.body, "<Name>x</Name>"); kept != tt.kept {
			t.Errorf("%v later: kept %v, want %v\n%s", tt.after, kept, tt.kept, list.body)
		}
	}
}

// Listings of deleted paths, alone and among those that exist, have each item once, in the order of paths, whatever the
// size of the page.
func TestLakeListDeleted(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.keepDeleted(7, "")
	fs := f.filesystem("files")
	for _, name := range []string{"a", "d/one", "d/sub/x", "d/two", "d.txt", "e/f", "gone/g", "gone/sub/h", "z"} {
		writeFile(t, fs, name, name)
	}
	for _, path := range []string{"d/one", "d/sub?recursive=true", "e/f", "gone?recursive=true", "a", "z"} {
		f.lakeDo("DELETE", "/files/"+path, "").want(t, 200, "")
	}
	writeFile(t, fs, "a", "again")
	f.lakeDo("DELETE", "/files/a", "").want(t, 200, "")
	writeFile(t, fs, "a", "and again")
	writeFile(t, fs, "gone", "a file now")
	for _, tc := range []struct{ query, want string }{
		{"&showonly=deleted", "-a -a -d/one -d/sub -e/f -gone -z"},
		{"&include=deleted", "-a -a a d -d/one -d/sub d/two d.txt e -e/f -gone gone -z"},
		{"", "a d d/two d.txt e gone"},
		{"&showonly=deleted&delimiter=/", "-a -a d/ e/ -gone -z"},
		{"&include=deleted&delimiter=/", "-a -a a d/ d.txt e/ -gone gone -z"},
		{"&include=deleted&prefix=d/", "-d/one -d/sub d/two"},
		{"&include=deleted&prefix=d/&delimiter=/", "-d/one -d/sub d/two"},
		{"&showonly=deleted&prefix=d", "-d/one -d/sub"},
		{"&include=deleted&endbefore=e", "-a -a a d -d/one -d/sub d/two d.txt"},
	} {
		for size := 1; size <= 14; size++ {
			var got []string
			for marker, pages := "", 0; ; pages++ {
				r := f.do("GET", fmt.Sprintf("/files?restype=container&comp=list%s&maxresults=%d&marker=%s", tc.query, size,
					marker),
					"").want(t, 200, "")
				items := listedItem.FindAllStringSubmatch(r.body, -1)
				if len(items) > size {
					t.Fatalf("a page of %d has %d items", size, len(items))
				}
				for _, m := range items {
					if m[2] != "" {
						m[1] = "-" + m[1]
					}
					got = append(got, m[1])
				}
				next := nextMarker.FindStringSubmatch(r.body)
				if next == nil || pages > 20 {
					break
				}
				marker = next[1]
			}
			if list := strings.Join(got, " "); list != tc.want {
				t.Errorf("%s, pages of %d: %s, want %s", tc.query, size, list, tc.want)
			}
		}
	}
}

// What was deleted is out of reach for callers that access control lists limit: the lists of the directories that it
// was in may be gone.
func TestLakeDeletedCallers(t *testing.T) {
	t.Parallel()
	issuer := must(devissuer.New(devissuer.Config{Now: func() time.Time { return time.Now().Add(-10 * time.Minute) }}))(t)
	roles := must(auth.NewRoles(auth.Assignment{Principal: "reader", Role: "Storage Blob Data Reader",
		Scope: auth.DevelopmentAccount}))(t)
	oauth := must(auth.NewOAuth(roles, issuer.Trust()))(t)
	f := startWith(t, func(c *blobhost.Config) {
		manage(c, accountprops.Blob{Hierarchical: true})
		c.OAuth = oauth
	})
	f.keepDeleted(7, "")
	fs := f.filesystem("files")
	writeFile(t, fs, "secret", "")
	r := f.lakeDo("DELETE", "/files/secret", "").want(t, 200, "")
	f.lakeDo("PATCH", "/files/?action=setAccessControl", "", "x-ms-permissions", "0777").want(t, 200, "")
	const denied = "AuthorizationPermissionMismatch"
	for _, tc := range []struct {
		who, method, path string
		status            int
		code              string
	}{
		{"guest", "GET", "/files?restype=container&comp=list", 200, ""},
		{"guest", "GET", "/files?restype=container&comp=list&showonly=deleted", 403, denied},
		{"guest", "GET", "/files?restype=container&comp=list&include=deleted", 403, denied},
		{"guest", "PUT", "/files/secret?comp=undelete", 403, denied},
		{"reader", "GET", "/files?restype=container&comp=list&showonly=deleted", 200, ""},
		{"reader", "PUT", "/files/secret?comp=undelete", 403, denied},
	} {
		hr := f.lakeNew(tc.method, tc.path, "", "x-ms-undelete-source", "secret?deletionid="+r.header.Get("x-ms-deletion-id"))
		hr.Host = strings.Replace(hr.Host, ".dfs.", ".blob.", 1)
		token, _ := issuer.Token(tc.who, auth.StorageAudience)
		hr.Header.Set("Authorization", "Bearer "+token)
		if got := f.send(hr); got.status != tc.status || got.code() != tc.code {
			t.Errorf("%s: %s %s: %d %s, want %d %s", tc.who, tc.method, tc.path, got.status, got.code(), tc.status, tc.code)
		}
	}
}
