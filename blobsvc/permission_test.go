package blobsvc_test

import (
	"net/url"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// token returns the parameters of a SAS for a container, "c", or a blob, "b".
func (f *fixture) token(t *testing.T, kind, path, permissions string) string {
	t.Helper()
	key := must(auth.ParseKey(auth.DevelopmentKey))(t)
	token := auth.Token{VersionText: auth.SASVersion, Permissions: permissions, Expiry: "2099-01-01T00:00:00Z",
		Resource: kind}
	return must(token.Sign(auth.DevelopmentAccount, key, wire.Blob, path))(t)
}

// Delete permission breaks a lease. It does not acquire one: who holds a lease keeps all others from writing.
func TestDeletePermissionOnlyBreaksLeases(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	const id = "11111111-1111-1111-1111-111111111111"
	lease := func(permissions, action string, more ...string) reply {
		t.Helper()
		return f.anonymous("PUT", "/box/b?comp=lease&"+f.token(t, "b", "box/b", permissions),
			append([]string{"x-ms-lease-action", action}, more...)...)
	}
	const denied = "AuthorizationPermissionMismatch"
	lease("d", "acquire", "x-ms-lease-duration", "-1").want(t, 403, denied)
	lease("w", "acquire", "x-ms-lease-duration", "-1", "x-ms-proposed-lease-id", id).want(t, 201, "")
	lease("d", "renew", "x-ms-lease-id", id).want(t, 403, denied)
	lease("d", "change", "x-ms-lease-id", id, "x-ms-proposed-lease-id", id).want(t, 403, denied)
	lease("d", "release", "x-ms-lease-id", id).want(t, 403, denied)
	lease("r", "break").want(t, 403, denied)
	lease("d", "break").want(t, 202, "")
	// Containers are leased by an account SAS.
	ofAccount := func(permissions string) string {
		key := must(auth.ParseKey(auth.DevelopmentKey))(t)
		token := auth.Token{VersionText: auth.SASVersion, Permissions: permissions, Expiry: "2099-01-01T00:00:00Z",
			Services: "b", ResourceTypes: "c"}
		return must(token.Sign(auth.DevelopmentAccount, key, wire.Blob, ""))(t)
	}
	f.anonymous("PUT", "/box?restype=container&comp=lease&"+ofAccount("d"), "x-ms-lease-action", "acquire",
		"x-ms-lease-duration", "-1").want(t, 403, denied)
	f.anonymous("PUT", "/box?restype=container&comp=lease&"+ofAccount("w"), "x-ms-lease-action", "acquire",
		"x-ms-lease-duration", "-1").want(t, 201, "")
	f.anonymous("PUT", "/box?restype=container&comp=lease&"+ofAccount("d"), "x-ms-lease-action", "break").want(t, 202, "")
}

// Create permission does not overwrite, by an incremental copy either.
func TestCreatePermissionDoesNotCopyAgain(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/src", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512").want(t, 201, "")
	source := func() string {
		snapshot := f.do("PUT", "/box/src?comp=snapshot", "").want(t, 201, "").header.Get("x-ms-snapshot")
		return f.base + "/box/src?snapshot=" + url.QueryEscape(snapshot) + "&" + f.token(t, "b", "box/src", "r")
	}
	one, two := source(), source()
	copied := func(permissions, from string) reply {
		t.Helper()
		return f.anonymous("PUT", "/box/dst?comp=incrementalcopy&"+f.token(t, "b", "box/dst", permissions),
			"x-ms-copy-source", from)
	}
	copied("c", one).want(t, 202, "")
	copied("c", two).want(t, 403, "UnauthorizedBlobOverwrite")
	copied("w", two).want(t, 202, "")
}

// A public container shows what its blobs are, and not what they once were.
func TestVersionsAreNotPublic(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	f.do("PUT", "/box?restype=container", "", "x-ms-blob-public-access", "container").want(t, 201, "")
	old := f.do("PUT", "/box/b", "secret", "x-ms-blob-type", "BlockBlob").want(t, 201, "").header.Get("x-ms-version-id")
	f.do("PUT", "/box/b", "public", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	f.anonymous("GET", "/box/b").want(t, 200, "")
	for _, method := range []string{"GET", "HEAD"} {
		if r := f.anonymous(method, "/box/b?versionid="+url.QueryEscape(old)); r.status == 200 || r.body == "secret" {
			t.Errorf("%s of an old version: %d", method, r.status)
		}
	}
	f.do("GET", "/box/b?versionid="+url.QueryEscape(old), "").want(t, 200, "")
}
