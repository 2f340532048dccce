package blobsvc_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/devissuer"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

// A source in the process is read with the rights of its own credential, or with the caller's where both are in one
// account.
func TestCopySourceAuthorization(t *testing.T) {
	t.Parallel()
	// Tokens are made with the real time, which may be ahead of the service's.
	issuer := must(devissuer.New(devissuer.Config{Now: func() time.Time { return time.Now().Add(-10 * time.Minute) }}))(t)
	role := func(who, what, where string) auth.Assignment {
		return auth.Assignment{Principal: who, Role: what, Scope: auth.DevelopmentAccount + "/" + where}
	}
	roles := must(auth.NewRoles(role("reader", "Storage Blob Data Reader", "src"),
		role("writer", "Storage Blob Data Contributor", "dst"),
		role("both", "Storage Blob Data Contributor", "dst"), role("both", "Storage Blob Data Reader", "src")))(t)
	oauth := must(auth.NewOAuth(roles, issuer.Trust()))(t)
	f := startWith(t, func(c *blobhost.Config) { c.OAuth = oauth })
	bearer := func(who string) string {
		token, _ := issuer.Token(who, auth.StorageAudience)
		return "Bearer " + token
	}
	for _, path := range []string{"/src?restype=container", "/dst?restype=container"} {
		f.do("PUT", path, "").want(t, 201, "")
	}
	f.do("PUT", "/src/b", "secret", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	source := f.base + "/src/b"
	client := f.service().NewContainerClient("src").NewBlobClient("b")
	now := time.Now()
	from := func(values sas.BlobSignatureValues) string {
		t.Helper()
		values.ContainerName, values.BlobName, values.Permissions = "src", "b", "r"
		values.ExpiryTime = now.Add(time.Hour)
		q := must(values.SignWithSharedKey(credential(t)))(t)
		return client.URL() + "?" + q.Encode()
	}
	for _, tc := range []struct {
		name, caller, source, token string
		status                      int
	}{
		{"a role for the source", "both", source, "", 201},
		{"no role for the source", "writer", source, "", 401},
		{"a reader's token", "writer", source, bearer("reader"), 201},
		{"a token without a role for it", "both", source, bearer("writer"), 403},
		{"no token at all", "both", source, "Bearer x", 401},
		{"a signature", "writer", from(sas.BlobSignatureValues{}), "", 201},
		{"a signature for this address", "writer",
			from(sas.BlobSignatureValues{IPRange: sas.IPRange{Start: net.ParseIP("127.0.0.1")}}), "", 201},
		{"a signature for another address", "both",
			from(sas.BlobSignatureValues{IPRange: sas.IPRange{Start: net.ParseIP("10.1.2.3")}}), "", 403},
		{"a signature for https", "both", from(sas.BlobSignatureValues{Protocol: sas.ProtocolHTTPS}), "", 403},
		{"a broken signature", "both", source + "?sv=2021-12-02&sr=b&sp=r&se=2100-01-01&sig=AAAA", "", 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, operation := range [][]string{{"x-ms-blob-type", "BlockBlob"}, {"x-ms-requires-sync", "True"}, nil} {
				headers := append([]string{"x-ms-copy-source", tc.source}, operation...)
				if tc.token != "" {
					headers = append(headers, "x-ms-copy-source-authorization", tc.token)
				}
				hr := f.request("PUT", "/dst/copy", "", headers...)
				hr.Header.Set("Authorization", bearer(tc.caller))
				want, code := tc.status, "CannotVerifyCopySource"
				if want == 201 {
					if code = ""; len(operation) == 0 || operation[0] != "x-ms-blob-type" {
						want = 202
					}
				}
				f.send(hr).want(t, want, code)
			}
		})
	}
}

// Tags of a source are read, and those of a copy set, with the permission for tags (t) alone.
func TestCopySourceTagsNeedPermission(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/src?restype=container", "").want(t, 201, "")
	f.do("PUT", "/dst?restype=container", "").want(t, 201, "")
	f.do("PUT", "/src/b", "content", "x-ms-blob-type", "BlockBlob", "x-ms-tags", "stage=secret").want(t, 201, "")
	key := must(auth.ParseKey(auth.DevelopmentKey))(t)
	signed := func(container, permissions string) string {
		return must(auth.Token{Permissions: permissions, Expiry: "2100-01-01"}.Sign(auth.DevelopmentAccount, key, wire.Blob,
			container))(t)
	}
	const mismatch, unreadable = "AuthorizationPermissionMismatch", "CannotVerifyCopySource"
	for _, tc := range []struct {
		name, caller, source string
		header, value        string
		code                 string // "" for success
	}{
		{"copy tags with both permissions", "cwt", "rt", "x-ms-copy-source-tag-option", "COPY", ""},
		{"copy tags without permission to read them", "cwt", "r", "x-ms-copy-source-tag-option", "COPY", unreadable},
		{"copy tags without permission to set them", "cw", "rt", "x-ms-copy-source-tag-option", "COPY", mismatch},
		{"replace tags without any", "cw", "r", "x-ms-copy-source-tag-option", "REPLACE", ""},
		{"condition on tags with permission to read them", "cw", "rt", "x-ms-source-if-tags", "stage = 'secret'", ""},
		{"condition on tags without", "cwt", "r", "x-ms-source-if-tags", "stage = 'secret'", unreadable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, operation := range [][]string{{"x-ms-blob-type", "BlockBlob"}, {"x-ms-requires-sync", "true"}} {
				headers := append([]string{"x-ms-copy-source", f.base + "/src/b?" + signed("src", tc.source), tc.header, tc.value},
					operation...)
				r := f.anonymous("PUT", "/dst/copy?"+signed("dst", tc.caller), headers...)
				if tc.code != "" {
					r.want(t, 403, tc.code)
				} else if r.status >= 300 {
					t.Errorf("%v: answer %d %s", operation, r.status, r.body)
				}
			}
		})
	}
}

// A condition on tags tells what they are, so it needs the permission for tags.
func TestConditionsOnTagsNeedPermission(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "content", "x-ms-blob-type", "BlockBlob", "x-ms-tags", "stage=secret").want(t, 201, "")
	key := must(auth.ParseKey(auth.DevelopmentKey))(t)
	for permissions, code := range map[string]string{"rwt": "", "rw": "AuthorizationPermissionMismatch"} {
		query := must(auth.Token{Permissions: permissions, Expiry: "2100-01-01"}.Sign(auth.DevelopmentAccount, key, wire.Blob,
			"box"))(t)
		for _, request := range [][]string{{"GET", ""}, {"HEAD", ""}, {"PUT", "&comp=metadata"}} {
			r := f.anonymous(request[0], "/box/b?"+query+request[1], "x-ms-if-tags", "stage = 'secret'")
			switch {
			case code == "" && r.status != 200:
				t.Errorf("%s%s with %s: answer %d %s", request[0], request[1], permissions, r.status, r.body)
			case code != "" && (r.status != 403 || r.header.Get("x-ms-error-code") != code):
				t.Errorf("%s%s with %s: answer %d %s, want 403 %s", request[0], request[1], permissions, r.status,
					r.header.Get("x-ms-error-code"), code)
			}
		}
	}
}

// The role of a caller that opens a source must include tags, if they are read.
func TestSourceTagsNeedARole(t *testing.T) {
	t.Parallel()
	issuer := must(devissuer.New(devissuer.Config{Now: func() time.Time { return time.Now().Add(-10 * time.Minute) }}))(t)
	const contributor, owner = "Storage Blob Data Contributor", "Storage Blob Data Owner"
	roles := must(auth.NewRoles(auth.Assignment{Principal: "owner", Role: owner, Scope: auth.DevelopmentAccount},
		auth.Assignment{Principal: "reader", Role: contributor, Scope: auth.DevelopmentAccount + "/src"},
		auth.Assignment{Principal: "reader", Role: owner, Scope: auth.DevelopmentAccount + "/dst"}))(t)
	oauth := must(auth.NewOAuth(roles, issuer.Trust()))(t)
	f := startWith(t, func(c *blobhost.Config) { c.OAuth = oauth })
	for _, path := range []string{"/src?restype=container", "/dst?restype=container"} {
		f.do("PUT", path, "").want(t, 201, "")
	}
	f.do("PUT", "/src/b", "content", "x-ms-blob-type", "BlockBlob", "x-ms-tags", "stage=secret").want(t, 201, "")
	for who, status := range map[string]int{"owner": 201, "reader": 403} {
		for _, tags := range [][]string{{"x-ms-source-if-tags", "stage = 'secret'"},
			{"x-ms-copy-source-tag-option", "COPY"}} {
			hr := f.request("PUT", "/dst/copy", "", "x-ms-copy-source", f.base+"/src/b", "x-ms-blob-type", "BlockBlob", tags[0],
				tags[1])
			token, _ := issuer.Token(who, auth.StorageAudience)
			hr.Header.Set("Authorization", "Bearer "+token)
			if r := f.send(hr); r.status != status {
				t.Errorf("%s, %s: answer %d %s, want %d", who, tags[0], r.status, r.body, status)
			}
		}
	}
}

// A source's signature for https is not good for an address of https that came over http.
func TestCopySourceProtocol(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "content", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	key := must(auth.ParseKey(auth.DevelopmentKey))(t)
	token := must(auth.Token{Permissions: "r", Expiry: "2100-01-01", Protocol: "https"}.Sign(auth.DevelopmentAccount, key,
		wire.Blob, "box"))(t)
	for _, scheme := range []string{"http", "https"} {
		source := strings.Replace(f.base, "http", scheme, 1) + "/box/b?" + token
		f.do("PUT", "/box/copy", "", "x-ms-copy-source", source).want(t, 403, "CannotVerifyCopySource")
	}
}
