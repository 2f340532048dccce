package blobsvc_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/sas"
	lakeservice "github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/service"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/lakesvc"
	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/devissuer"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// The matrix of tokens, derived from the operations table of the dfs endpoint: every operation that does something
// beyond its need, with every option that its row declares, on what exists and on what does not, by tokens of every
// kind of resource, with all letters and with each set that lacks one. What is expected follows from the declarations.

// tokenLetters are the letters of tokens for paths.
const tokenLetters = "racwdlmeop"

// optionValues are the options of the declarations, as a request sends them.
var optionValues = map[string][]string{
	"X-Ms-Permissions": {"x-ms-permissions", "0777"},
	"X-Ms-Umask":       {"x-ms-umask", "0002", "x-ms-permissions", "0777"}, // a rename takes it with permissions alone
	"X-Ms-Acl":         {"x-ms-acl", "user::rwx,group::r-x,other::r-x"},
	"X-Ms-Owner":       {"x-ms-owner", "someone"},
	"X-Ms-Group":       {"x-ms-group", "some-group"},
	"X-Ms-Properties":  {"x-ms-properties", "a=MQ=="},
}

// tokenCase is a request for a row: by path, what its second path is, and what exists below and at the path.
type tokenCase struct {
	path, source string
	query        string
	exists       bool // what the operation would overwrite
	below        bool // something below a path that it removes or moves
	flatBelow    bool // the same, in a flat account alone
}

// tokenCases are the requests for each row with touches, within the directory "mine".
var tokenCases = map[string][]tokenCase{
	"PathCreate": {{path: "mine/new"}, {path: "mine/KIND", exists: true}},
	"PathRename": {{path: "mine/new", source: "mine/KIND", flatBelow: true},
		{path: "mine/emptyKIND", source: "mine/KIND", exists: true, flatBelow: true, query: "mode=legacy"},
		{path: "mine/new", source: "theirs/KIND", flatBelow: true}},
	"PathSetAccessControl":          {{path: "mine/file"}},
	"PathSetAccessControlRecursive": {{path: "mine/directory", query: "mode=modify", below: true}},
	"PathDelete": {{path: "mine/file"}, {path: "mine/emptydirectory"},
		{path: "mine/directory", query: "recursive=true", below: true}},
	"PathUndelete": {{path: "mine/back", source: "mine/gone"}, {path: "mine/back", source: "theirs/gone"}},
}

// tokenBy is a token of a case: for a path, a directory or the filesystem.
type tokenBy struct{ kind, path, letters string }

func (k tokenBy) covers(path string, below bool) bool {
	switch k.kind {
	case "c":
		return true
	case "d":
		return path == k.path || strings.HasPrefix(path, k.path+"/")
	}
	return path == k.path && !below
}

func (k tokenBy) holds(n auth.Need) bool {
	return (n.Any == "" || strings.ContainsAny(k.letters, n.Any)) && strings.Trim(n.All, k.letters) == ""
}

func (k tokenBy) sign(t testing.TB) string {
	t.Helper()
	v := auth.Token{Resource: k.kind, Permissions: k.letters, Expiry: "2100-01-01"}
	name := "files"
	if k.kind != "c" {
		name += "/" + k.path
	}
	if k.kind == "d" {
		v.Depth = fmt.Sprint(1 + strings.Count(k.path, "/"))
	}
	return must(v.Sign(auth.DevelopmentAccount, must(auth.ParseKey(auth.DevelopmentKey))(t), wire.Blob, name))(t)
}

// expected reports whether the declaration of the row permits the case to a token for its path, and a token for the
// source, if that has one of its own.
func (tc tokenCase) expected(row frontend.Row, option string, k tokenBy, own *tokenBy, tree bool) bool {
	if !k.covers(tc.path, false) || !k.holds(row.Needs) {
		return false
	}
	for _, touch := range row.Touches {
		applies := len(touch.Options) == 0
		for _, o := range touch.Options {
			applies = applies || o == option || option == "X-Ms-Umask" && o == "X-Ms-Permissions"
		}
		by, path := k, tc.path
		if touch.Source != "" {
			if path = tc.source; own != nil {
				by = *own
			}
		}
		below := false
		if touch.Does == frontend.Spans {
			applies = tc.below || tc.flatBelow && !tree
			below = true
		} else if touch.IfExists {
			applies = applies && tc.exists
		}
		if touch.Does == frontend.Alters && touch.IfExists && option != "X-Ms-Acl" && tc.exists &&
			strings.HasSuffix(tc.path, "file") {
			applies = false // a token that overwrites a file may give it other permissions
		}
		if applies && (!by.covers(path, below) || !by.holds(touch.Need)) {
			return false
		}
	}
	return true
}

func TestLakeTokensMatrix(t *testing.T) {
	t.Parallel()
	for _, tree := range []bool{true, false} {
		t.Run(fmt.Sprintf("tree %v", tree), func(t *testing.T) {
			t.Parallel()
			f := startWith(t, func(c *blobhost.Config) { manage(c, accountprops.Blob{Hierarchical: tree}) })
			if tree {
				f.do("PUT", "/?restype=service&comp=properties", retention).want(t, 202, "")
			}
			f.filesystem("files")
			m := &tokenMatrix{fixture: f, tree: tree}
			seen := map[string]bool{}
			for _, row := range lakesvc.Operations() {
				if len(row.Touches) == 0 {
					continue
				}
				if tokenCases[row.Name] == nil {
					t.Errorf("%s has touches: add requests to tokenCases", row.Name)
				}
				seen[row.Name] = true
				m.row(row)
			}
			for name := range tokenCases {
				if !seen[name] {
					t.Errorf("%s has no touches", name)
				}
			}
			if t.Logf("%d requests, %d permitted", m.n, m.permitted); m.permitted < m.n/20 || m.n < 500 {
				t.Error("too few")
			}
		})
	}
}

const retention = `<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days>` +
	`</DeleteRetentionPolicy></StorageServiceProperties>`

type tokenMatrix struct {
	*fixture
	tree         bool
	n, permitted int
	turn         int               // counts tokens, for the quick matrix
	gone         map[string]string // the IDs of deletions
	dirty        bool
}

// build makes what the cases use.
func (m *tokenMatrix) build() {
	m.t.Helper()
	for _, dir := range []string{"mine", "theirs"} {
		m.lakeDo("DELETE", "/files/"+dir+"?recursive=true", "")
		for _, path := range []string{"/directory/below?resource=file", "/emptydirectory?resource=directory",
			"/file?resource=file", "/emptyfile?resource=file", "/gone?resource=file"} {
			m.lakeDo("PUT", "/files/"+dir+path, "").want(m.t, 201, "")
		}
	}
	m.gone = map[string]string{}
	for _, path := range []string{"mine/gone", "theirs/gone"} {
		m.gone[path] = m.lakeDo("DELETE", "/files/"+path, "").want(m.t, 200, "").header.Get("x-ms-deletion-id")
	}
	m.dirty = false
}

func (m *tokenMatrix) row(row frontend.Row) {
	options := []string{""}
	for _, touch := range row.Touches {
		options = append(options, touch.Options...)
	}
	lettersOf := []string{tokenLetters, "rac", "cm", "wm", "d", "m", "w"}
	for _, l := range "cwdmop" {
		lettersOf = append(lettersOf, strings.ReplaceAll(tokenLetters, string(l), ""))
	}
	for _, tc := range tokenCases[row.Name] {
		for _, kind := range []string{"file", "directory"} {
			if row.Restype != "" && kind != row.Restype || kind == "directory" &&
				!strings.Contains(tc.path+tc.source, "KIND") && row.Restype == "" {
				continue
			}
			one := tc
			one.path, one.source = strings.ReplaceAll(tc.path, "KIND", kind), strings.ReplaceAll(tc.source, "KIND", kind)
			one.flatBelow = tc.flatBelow && kind == "directory"
			for _, option := range options {
				ofTrees := (option != "" || row.Name == "PathUndelete") && option != "X-Ms-Properties"
				if option == "" && strings.HasPrefix(row.Name, "PathSet") || !m.tree && ofTrees {
					continue
				}
				if !m.tree && row.Name == "PathCreate" && one.exists && row.Restype == "directory" {
					continue // its own blob alone is written
				}
				m.tokens(row, one, option, lettersOf)
			}
		}
	}
}

// tokens sends a request with tokens of all kinds.
func (m *tokenMatrix) tokens(row frontend.Row, tc tokenCase, option string, lettersOf []string) {
	for _, k := range []tokenBy{{kind: "c"}, {kind: "d", path: "mine"}, {kind: "d", path: "theirs"},
		{kind: "b", path: tc.path}} {
		for i, letters := range lettersOf {
			// The quick matrix has a third of the letters each time; the next token has the next third. All letters
			// are first.
			if m.turn++; i > 0 && m.turn%check.Size(3, 1) != 0 {
				continue
			}
			k.letters = letters
			m.ask(row, tc, option, k, nil)
		}
		k.letters = tokenLetters
		if tc.source == "" || row.Name != "PathRename" {
			continue
		}
		for _, own := range []tokenBy{{kind: "d", path: tc.source[:strings.IndexByte(tc.source, '/')]}, {kind: "b", path: tc.source}} {
			for _, own.letters = range []string{tokenLetters, "racwleop", "m", "mw", "mp"} {
				m.ask(row, tc, option, k, &own)
			}
		}
	}
}

func (m *tokenMatrix) ask(row frontend.Row, tc tokenCase, option string, k tokenBy, own *tokenBy) {
	if m.dirty || m.gone == nil {
		m.build()
	}
	var query, headers []string
	for name, value := range map[string]string{"resource": row.Restype, "action": row.Comp} {
		if value != "" && row.Comp != "undelete" {
			query = append(query, name+"="+value)
		}
	}
	if row.Comp == "undelete" {
		query = append(query, "comp=undelete")
		headers = append(headers, "x-ms-undelete-source", tc.source+"?deletionid="+m.gone[tc.source])
	} else if tc.source != "" {
		source := "/files/" + tc.source
		if own != nil {
			source += "?" + own.sign(m.t)
		}
		headers = append(headers, "x-ms-rename-source", source)
	}
	if tc.query != "" {
		query = append(query, tc.query)
	}
	headers = append(headers, optionValues[option]...)
	want := tc.expected(row, option, k, own, m.tree)
	r := m.withToken(k.sign(m.t), row.Method, "/files/"+tc.path+"?"+strings.Join(query, "&"), headers...)
	m.n++
	if (r.status < 300) != want || !want && r.status != 403 {
		m.t.Errorf("%s %+v with %q by %+v, source by %+v: %d %s, want it %v", row.Name, tc, option, k, own, r.status,
			r.code(), want)
	}
	if m.dirty = r.status < 300; m.dirty {
		m.permitted++
	}
}

// A token in whose name a user acts is bound by the roles of its signer, who needs the right to act for others, by its
// letters, and by what the user owns.
// https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas#specify-a-signed-object-id
func TestLakeAgents(t *testing.T) {
	t.Parallel()
	issuer := must(devissuer.New(devissuer.Config{Now: func() time.Time { return time.Now().Add(-10 * time.Minute) }}))(t)
	var assignments []auth.Assignment
	for _, name := range auth.RoleNames() {
		if strings.Contains(name, "Blob") {
			assignments = append(assignments, auth.Assignment{Principal: name, Role: name, Scope: auth.DevelopmentAccount})
		}
	}
	oauth := must(auth.NewOAuth(must(auth.NewRoles(assignments...))(t), issuer.Trust()))(t)
	f := startWith(t, func(c *blobhost.Config) {
		manage(c, accountprops.Blob{Hierarchical: true})
		c.OAuth = oauth
	})
	fs := f.filesystem("files")
	guest := auth.ObjectID("guest")
	build := func() {
		t.Helper()
		f.lakeDo("DELETE", "/files/open?recursive=true", "")
		writeFile(t, fs, "open/theirs", "content")
		writeFile(t, fs, "open/own", "content")
		f.lakeDo("PATCH", "/files/open/own?action=setAccessControl", "", "x-ms-owner", guest).want(t, 200, "")
		for path, list := range map[string]string{"": "user::rwx,group::rwx,other::rwx",
			"open": "user::rwx,group::rwx,other::rwx", "open/theirs": "user::rw-,group::rw-,other::rw-"} {
			f.lakeDo("PATCH", "/files/"+path+"?action=setAccessControl", "", "x-ms-acl", list).want(t, 200, "")
		}
		f.lakeDo("PATCH", "/files/open?action=setAccessControl", "", "x-ms-permissions", "1777").want(t, 200, "")
	}
	build()
	signers := map[string]*lakeservice.UserDelegationCredential{}
	start, end := time.Now().UTC().Add(-time.Minute).Format(time.RFC3339),
		time.Now().UTC().Add(time.Hour).Format(time.RFC3339)
	for _, a := range assignments {
		token, _ := issuer.Token(a.Principal, auth.StorageAudience)
		options := f.lakeOptions()
		options.InsecureAllowCredentialWithHTTP = true
		service := must(lakeservice.NewClient(lakeHost, tokenOf(token),
			&lakeservice.ClientOptions{ClientOptions: options}))(t)
		signers[a.Role] = must(service.GetUserDelegationCredential(ctx,
			lakeservice.KeyInfo{Start: &start, Expiry: &end}, nil))(t)
	}
	sign := func(role, letters, saoid, suoid string) string {
		t.Helper()
		q := must(sas.DatalakeSignatureValues{FileSystemName: "files", Permissions: letters, AuthorizedObjectID: saoid,
			UnauthorizedObjectID: suoid, ExpiryTime: time.Now().UTC().Add(time.Hour)}.SignWithUserDelegation(signers[role]))(t)
		return q.Encode()
	}
	// The signer's roles: only the Owner acts for others, whatever the lists give those.
	for role := range signers {
		for _, kind := range []string{"", "saoid", "suoid", "both"} {
			saoid, suoid := "", ""
			if kind == "saoid" || kind == "both" {
				saoid = guest
			}
			if kind == "suoid" || kind == "both" {
				suoid = guest
			}
			want := role == "Storage Blob Data Owner" && kind != "both" || kind == "" && role != "Storage Blob Delegator"
			r := f.withToken(sign(role, "racwdlmeop", saoid, suoid), "GET", "/files/open/own")
			if (r.status == 200) != want || !want && r.status != 403 {
				t.Errorf("%s signs for %q: %d %s, want it %v", role, kind, r.status, r.code(), want)
			}
		}
	}
	// The letters, and ownership.
	const owner, setAccess = "Storage Blob Data Owner", "?action=setAccessControl"
	chmod, chown := []string{"x-ms-permissions", "0700"}, []string{"x-ms-owner", guest}
	chgrp := []string{"x-ms-group", "theirs"}
	give := []string{"x-ms-owner", auth.ObjectID("another")}
	for _, tc := range []struct {
		letters, method, path string
		headers               []string
		saoid, suoid, none    bool
	}{
		{"c", "PUT", "open/theirs?resource=file", nil, false, false, false},
		{"c", "PUT", "open/new?resource=file", nil, true, true, true},
		{"w", "PUT", "open/theirs?resource=file", nil, true, true, true},
		{"o", "PATCH", "open/own" + setAccess, chmod, false, false, false},
		{"p", "PATCH", "open/own" + setAccess, chmod, true, true, true},
		{"p", "PATCH", "open/theirs" + setAccess, chmod, false, false, true},
		{"op", "PATCH", "open/theirs" + setAccess, chmod, true, false, true},
		{"p", "PATCH", "open/own" + setAccess, chown, false, false, false},
		{"o", "PATCH", "open/theirs" + setAccess, chown, true, false, true},
		{"o", "PATCH", "open/theirs" + setAccess, give, false, false, true},
		{"o", "PATCH", "open/own" + setAccess, chgrp, false, false, true},
		{"w", "PUT", "open/new?resource=file", chown, false, false, false},
		{"wo", "PUT", "open/new?resource=file", chown, true, true, true},
		{"wo", "PUT", "open/new?resource=file", give, false, false, true},
		{"wo", "PUT", "open/new?resource=file", chgrp, false, false, true},
		{"wo", "PUT", "open/theirs?resource=file", chown, true, false, true},
		{"w", "PUT", "open/theirs?resource=file", chmod, false, false, true}, // nor may it be removed and made again
		{"w", "PUT", "open/own?resource=file", chmod, true, true, true},
		{"w", "PUT", "open?resource=directory", chmod, false, false, false},
		{"d", "DELETE", "open/theirs", nil, false, false, true},
		{"d", "DELETE", "open/own", nil, true, true, true},
		{"do", "DELETE", "open/theirs", nil, true, false, true},
		{"m", "PUT", "moved", []string{"x-ms-rename-source", "/files/open/theirs"}, false, false, true},
		{"m", "PUT", "moved", []string{"x-ms-rename-source", "/files/open/own"}, true, true, true},
		{"m", "PUT", "moved", append([]string{"x-ms-rename-source", "/files/open/own"}, chmod...), false, false, false},
		{"mp", "PUT", "moved", append([]string{"x-ms-rename-source", "/files/open/own"}, chmod...), true, true, true},
	} {
		for kind, want := range map[string]bool{"saoid": tc.saoid, "suoid": tc.suoid, "": tc.none} {
			build()
			f.lakeDo("DELETE", "/files/moved", "")
			ids := map[string]string{kind: guest}
			r := f.withToken(sign(owner, tc.letters, ids["saoid"], ids["suoid"]), tc.method, "/files/"+tc.path, tc.headers...)
			if (r.status < 300) != want || !want && r.status != 403 {
				t.Errorf("%q: %s %s %v with %s: %d %s, want it %v", kind, tc.method, tc.path, tc.headers, tc.letters, r.status,
					r.code(), want)
			}
		}
	}
}

// What a caller who may not list a directory asks for does not name what is in it, and a recursive deletion keeps what
// the sticky bit keeps, at any depth.
func TestLakeBelowLimits(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	guest := auth.ObjectID("guest")
	as := func(method, path string, headers ...string) reply {
		t.Helper()
		hr := m.lakeNew(method, path, "", headers...)
		token, _ := m.issuer.Token("guest", auth.StorageAudience)
		hr.Header.Set("Authorization", "Bearer "+token)
		return m.send(hr)
	}
	m.build()
	m.grant(matrixClasses["others"], func(string) posix.Perm { return posix.All })
	// The guest owns the directory, may pass it and not list it.
	m.set("x/y", "x-ms-owner", guest, "x-ms-acl", "user::-wx,group::rwx,other::rwx")
	const change = "?action=setAccessControlRecursive&mode=modify&forceFlag=true"
	r := as("PATCH", "/files/x/y"+change, "x-ms-acl", "group::---").want(t, 200, "")
	if strings.Contains(r.body, "x/y/f") || !strings.Contains(r.body, `"directoriesSuccessful":1`) {
		t.Errorf("a directory that the caller may not list: %s", r.body)
	}
	m.set("x/y", "x-ms-acl", "user::rwx,group::rwx,other::rwx")
	if r := as("PATCH", "/files/x/y"+change, "x-ms-acl", "group::---"); !strings.Contains(r.body, `"name":"x/y/f"`) {
		t.Errorf("a directory that the caller may list: %s", r.body)
	}
	for _, sticky := range []string{"x/y", "x/y/deep"} {
		for _, owns := range []string{"nothing", "the file", "the directory"} {
			m.build()
			m.lakeDo("PUT", "/files/x/y/deep/g?resource=file", "").want(t, 201, "")
			m.lakeDo("PUT", "/files/x/y/deeper/h?resource=file", "").want(t, 201, "")
			for _, path := range []string{"", "x", "x/y", "x/y/deep", "x/y/deeper"} {
				m.set(path, "x-ms-acl", "user::rwx,group::rwx,other::rwx", "x-ms-owner", "someone")
			}
			m.set(sticky, "x-ms-permissions", "1777")
			switch owns {
			case "the file": // and all else in the directory
				for _, path := range map[string][]string{"x/y": {"x/y/f", "x/y/deep", "x/y/deeper"},
					"x/y/deep": {"x/y/deep/g"}}[sticky] {
					m.set(path, "x-ms-owner", guest)
				}
			case "the directory":
				m.set(sticky, "x-ms-owner", guest)
			}
			if owns == "nothing" {
				as("DELETE", "/files/x/y?recursive=true").want(t, 403, "AuthorizationPermissionMismatch")
			} else {
				as("DELETE", "/files/x/y?recursive=true").want(t, 200, "")
			}
		}
	}
}

// No caller, not even with the account's key, moves what the system wrote.
func TestRenameKeepsSystemContainers(t *testing.T) {
	t.Parallel()
	f := managed(t, accountprops.Blob{ChangeFeed: true})
	f.filesystem("files")
	for _, container := range []string{"$blobchangefeed", "$logs"} {
		f.lakeDo("PUT", "/files/taken", "", "x-ms-rename-source", "/"+container+"/meta/segments.json").
			want(t, 403, "InsufficientAccountPermissions")
	}
}

// In paths a backslash is a character, so a token for a directory or a file is not for a name with one in its place.
func TestLakeBackslashIsNoSlash(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	m.build()
	m.lakeDo("PUT", `/files/mine%5Cf?resource=file`, "").want(t, 201, "")
	m.lakeDo("PUT", `/files/mine/f?resource=file`, "").want(t, 201, "")
	for _, k := range []tokenBy{{"d", "mine", tokenLetters}, {"b", "mine/f", tokenLetters}} {
		m.withToken(k.sign(t), "GET", `/files/mine%5Cf`).want(t, 403, "AuthenticationFailed")
		m.withToken(k.sign(t), "GET", `/files/mine/f`).want(t, 200, "")
		m.withToken(tokenBy{"c", "", tokenLetters}.sign(t), "PUT", "/files/new", "x-ms-rename-source",
			`/files/mine%5Cf?`+k.sign(t)).want(t, 403, "AuthenticationFailed")
	}
}
