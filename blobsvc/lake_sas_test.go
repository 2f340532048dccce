package blobsvc_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/sas"
	lakeservice "github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/service"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server/devissuer"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

// withToken sends a request with a shared access signature in place of the account's key.
func (f *fixture) withToken(token, method, path string, headers ...string) reply {
	f.t.Helper()
	hr := f.lakeNew(method, path, "", headers...)
	hr.Header.Del("Authorization")
	if hr.URL.RawQuery != "" {
		token = "&" + token
	}
	hr.URL.RawQuery += token
	return f.send(hr)
}

// Each permission of a token for a directory opens its operations, below that directory and nowhere else.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-directory-container-or-blob
func TestLakeDirectorySAS(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("files")
	key := must(azdatalake.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey))(t)
	operations := []struct {
		letters, method, path string // letters: one of them is enough
		headers               []string
	}{
		{"r", "GET", "/files/DIR/f", nil},
		{"re", "HEAD", "/files/DIR/f", nil},
		{"re", "HEAD", "/files/DIR/f?action=getAccessControl", nil},
		{"re", "HEAD", "/files/DIR/f?action=getStatus", nil},
		{"l", "GET", "/files?resource=filesystem&recursive=true&directory=DIR", nil},
		{"cw", "PUT", "/files/DIR/new?resource=file", nil},
		{"cw", "PUT", "/files/DIR/sub?resource=directory", nil},
		{"w", "PATCH", "/files/DIR/f?action=setProperties", []string{"x-ms-properties", "a=MQ=="}},
		{"aw", "PATCH", "/files/DIR/f?action=flush&position=4", nil},
		{"p", "PATCH", "/files/DIR/f?action=setAccessControl", []string{"x-ms-permissions", "0700"}},
		{"o", "PATCH", "/files/DIR/f?action=setAccessControl", []string{"x-ms-owner", "someone"}},
		{"p", "PATCH", "/files/DIR?action=setAccessControlRecursive&mode=modify", []string{"x-ms-acl", "other::r--"}},
		{"m", "PUT", "/files/DIR/g", []string{"x-ms-rename-source", "/files/DIR/f"}},
		{"d", "DELETE", "/files/DIR/g", nil},
	}
	for _, letter := range "racwdlmeop" {
		t.Run(string(letter), func(t *testing.T) {
			dir := "a/" + string(letter)
			writeFile(t, fs, dir+"/f", "file")
			writeFile(t, fs, "a/other"+string(letter)+"/f", "file")
			q := must(sas.DatalakeSignatureValues{FileSystemName: "files", DirectoryPath: dir, Permissions: string(letter),
				ExpiryTime: time.Now().UTC().Add(time.Hour)}.SignWithSharedKey(key))(t)
			for _, op := range operations {
				path := strings.ReplaceAll(op.path, "DIR", dir)
				var headers, elsewhere []string
				for _, h := range op.headers {
					headers = append(headers, strings.ReplaceAll(h, "DIR", dir))
					elsewhere = append(elsewhere, strings.ReplaceAll(h, "DIR", "a/other"+string(letter)))
				}
				want := strings.ContainsRune(op.letters, letter)
				if want && strings.HasPrefix(op.method, "DEL") {
					writeFile(t, fs, dir+"/g", "")
				}
				if r := f.withToken(q.Encode(), op.method, path, headers...); (r.status < 300) != want || !want && r.status != 403 {
					t.Errorf("%s with %c: %d %s", path, letter, r.status, r.code())
				}
				path = strings.ReplaceAll(op.path, "DIR", "a/other"+string(letter))
				if r := f.withToken(q.Encode(), op.method, path, elsewhere...); r.status != 403 {
					t.Errorf("%s, outside the directory, with %c: %d %s", path, letter, r.status, r.code())
				}
			}
		})
	}
}

// tokenOf is a credential with a fixed token.
type tokenOf string

func (t tokenOf) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: string(t), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// A user delegation token that names an authorized object ID acts as that user without a check of lists; one with an
// unauthorized object ID is checked against them; a correlation ID is part of the signature.
// https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas
func TestLakeUserDelegation(t *testing.T) {
	t.Parallel()
	issuer := must(devissuer.New(devissuer.Config{Now: func() time.Time { return time.Now().Add(-10 * time.Minute) }}))(t)
	roles := must(auth.NewRoles(auth.Assignment{Principal: "owner", Role: "Storage Blob Data Owner",
		Scope: auth.DevelopmentAccount}))(t)
	oauth := must(auth.NewOAuth(roles, issuer.Trust()))(t)
	f := startWith(t, func(c *blobhost.Config) {
		manage(c, accountprops.Blob{Hierarchical: true})
		c.OAuth = oauth
	})
	fs := f.filesystem("files")
	writeFile(t, fs, "open/f", "content")
	writeFile(t, fs, "closed/f", "content")
	guest := auth.ObjectID("guest")
	for path, list := range map[string]string{"": "user::rwx,user:" + guest + ":--x,group::r-x,other::---",
		"open":   "user::rwx,user:" + guest + ":rwx,group::r-x,other::---",
		"open/f": "user::rw-,user:" + guest + ":r--,group::r--,other::---"} {
		f.lakeDo("PATCH", "/files/"+path+"?action=setAccessControl", "", "x-ms-acl", list).want(t, 200, "")
	}
	token, _ := issuer.Token("owner", auth.StorageAudience)
	options := f.lakeOptions()
	options.InsecureAllowCredentialWithHTTP = true
	service := must(lakeservice.NewClient(lakeHost, tokenOf(token), &lakeservice.ClientOptions{ClientOptions: options}))(t)
	start, end := time.Now().UTC().Add(-time.Minute).Format(time.RFC3339),
		time.Now().UTC().Add(time.Hour).Format(time.RFC3339)
	credential := must(service.GetUserDelegationCredential(ctx, lakeservice.KeyInfo{Start: &start, Expiry: &end}, nil))(t)
	sign := func(v sas.DatalakeSignatureValues) string {
		v.FileSystemName, v.Permissions, v.ExpiryTime = "files", "racwdlmeop", time.Now().UTC().Add(time.Hour)
		q := must(v.SignWithUserDelegation(credential))(t)
		return q.Encode()
	}
	const denied, correlation = "AuthorizationPermissionMismatch", "22222222-0000-0000-0000-222222222222"
	tokens := map[string]string{
		"plain": sign(sas.DatalakeSignatureValues{}),
		"saoid": sign(sas.DatalakeSignatureValues{AuthorizedObjectID: guest}),
		"suoid": sign(sas.DatalakeSignatureValues{UnauthorizedObjectID: guest}),
		"scid":  sign(sas.DatalakeSignatureValues{CorrelationID: correlation}),
		"open":  sign(sas.DatalakeSignatureValues{UnauthorizedObjectID: guest, DirectoryPath: "open"}),
	}
	for _, tc := range []struct {
		token, method, path string
		status              int
		code                string
		headers             []string
	}{
		{"plain", "GET", "/files/closed/f", 200, "", nil},
		{"plain", "PUT", "/files/closed/plain?resource=file", 201, "", nil},
		{"saoid", "GET", "/files/closed/f", 200, "", nil},
		{"saoid", "PUT", "/files/closed/saoid?resource=file", 201, "", nil},
		{"scid", "GET", "/files/closed/f", 200, "", nil},
		{"suoid", "GET", "/files/open/f", 200, "", nil},
		{"suoid", "GET", "/files/closed/f", 403, denied, nil},
		{"suoid", "HEAD", "/files/closed/f", 403, denied, nil},
		{"suoid", "PUT", "/files/open/suoid?resource=file", 201, "", nil},
		{"suoid", "PUT", "/files/closed/suoid?resource=file", 403, denied, nil},
		{"suoid", "PATCH", "/files/open/f?action=setAccessControl", 403, denied, []string{"x-ms-permissions", "0777"}},
		{"suoid", "PATCH", "/files/open/suoid?action=setAccessControl", 200, "", []string{"x-ms-permissions", "0600"}},
		{"suoid", "GET", "/files?resource=filesystem&recursive=false&directory=closed", 403, denied, nil},
		{"suoid", "PUT", "/files/closed/moved", 403, denied, []string{"x-ms-rename-source", "/files/open/suoid"}},
		{"suoid", "DELETE", "/files/closed?recursive=true", 403, denied, nil},
		{"open", "GET", "/files/open/f", 200, "", nil},
		{"open", "GET", "/files/closed/f", 403, "", nil},
		{"open", "PUT", "/files/open/byopen?resource=file", 201, "", nil},
	} {
		r := f.withToken(tokens[tc.token], tc.method, tc.path, tc.headers...)
		if r.status != tc.status || tc.code != "" && r.code() != tc.code {
			t.Errorf("%s: %s %s: %d %s, want %d %s", tc.token, tc.method, tc.path, r.status, r.code(), tc.status, tc.code)
		}
	}
	// The source of a copy is read with the rights of its own token, and so is a role's token for it.
	for _, tc := range []struct {
		token, source, bearer string
		status                int
	}{
		{"plain", "closed", "", 201}, {"saoid", "closed", "", 201},
		{"suoid", "open", "", 201}, {"suoid", "closed", "", 403},
		{"", "closed", "owner", 201}, {"", "open", "guest", 201}, {"", "closed", "guest", 403},
	} {
		for _, operation := range [][]string{{"x-ms-blob-type", "BlockBlob"}, {"x-ms-requires-sync", "true"}, nil} {
			source := f.base + "/files/" + tc.source + "/f?" + tokens[tc.token]
			headers := append([]string{"x-ms-copy-source", source}, operation...)
			if tc.bearer != "" {
				token, _ := issuer.Token(tc.bearer, auth.StorageAudience)
				headers = append(headers, "x-ms-copy-source-authorization", "Bearer "+token)
			}
			r := f.do("PUT", "/files/open/copy", "", headers...)
			want := tc.status
			if want == 201 && (operation == nil || operation[0] == "x-ms-requires-sync") {
				want = 202
			}
			if r.status != want {
				t.Errorf("copy of %s with %s%s, %v: %d %s, want %d", tc.source, tc.token, tc.bearer, operation, r.status,
					r.code(), want)
			}
		}
	}
	// New items belong to the user that the token names, or to the one who made it.
	for path, owner := range map[string]string{"closed/plain": auth.ObjectID("owner"), "closed/saoid": guest,
		"open/suoid": guest} {
		if got := f.lakeDo("HEAD", "/files/"+path+"?action=getAccessControl", "").header.Get("x-ms-owner"); got != owner {
			t.Errorf("%s belongs to %s, want %s", path, got, owner)
		}
	}
	// None of the three can be changed or left out.
	for name, parameter := range map[string]string{"saoid": "saoid", "suoid": "suoid", "scid": "scid"} {
		values := must(url.ParseQuery(tokens[name]))(t)
		if !values.Has(parameter) {
			t.Fatalf("the token has no %s", parameter)
		}
		values.Set(parameter, "33333333-0000-0000-0000-333333333333")
		f.withToken(values.Encode(), "GET", "/files/open/f").want(t, 403, "AuthenticationFailed")
		values.Del(parameter)
		f.withToken(values.Encode(), "GET", "/files/open/f").want(t, 403, "AuthenticationFailed")
	}
}
