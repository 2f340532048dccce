package blobsvc_test

import (
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
)

// Set Blob Metadata and Snapshot Blob name the scope of a blob, as recorded; a wrong scope is refused by all writes.
func TestScopeIsNamed(t *testing.T) {
	t.Parallel()
	f := managed(t, accountprops.Blob{Scopes: []string{"one", "two"}})
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob", "x-ms-encryption-scope", "one").want(t, 201, "")
	f.do("PUT", "/box/plain", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "1024").want(t, 201, "")
	for _, comp := range []string{"snapshot", "metadata"} {
		f.do("PUT", "/box/b?comp="+comp, "").want(t, 409, "BlobUsesCustomerSpecifiedEncryption")
		f.do("PUT", "/box/b?comp="+comp, "", "x-ms-encryption-scope", "two").want(t, 409,
			"BlobCustomerSpecifiedEncryptionMismatch")
		status := map[string]int{"snapshot": 201, "metadata": 200}[comp]
		f.do("PUT", "/box/b?comp="+comp, "", "x-ms-encryption-scope", "one").want(t, status, "")
		f.do("PUT", "/box/plain?comp="+comp, "", "x-ms-encryption-scope", "two").want(t, 409,
			"BlobCustomerSpecifiedEncryptionMismatch")
	}
	f.do("PUT", "/box/plain?comp=properties", "", "x-ms-blob-content-length", "512", "x-ms-encryption-scope",
		"two").want(t, 409, "BlobCustomerSpecifiedEncryptionMismatch")
	f.do("PUT", "/box/plain?comp=page", "", "x-ms-page-write", "clear", "x-ms-range", "bytes=0-511",
		"x-ms-encryption-scope", "two").
		want(t, 409, "BlobCustomerSpecifiedEncryptionMismatch")

	// The default scope of the container need not be named.
	f.do("PUT", "/def?restype=container", "", "x-ms-default-encryption-scope", "one").want(t, 201, "")
	f.do("PUT", "/def/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	f.do("PUT", "/def/b?comp=snapshot", "").want(t, 201, "")
	f.do("PUT", "/def/b?comp=metadata", "").want(t, 200, "")
}

// A copy of a blob in the archive to an online tier is on its way there, while the source stays.
func TestCopyOutOfTheArchive(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/s", "cold", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	f.do("PUT", "/box/s?comp=tier", "", "x-ms-access-tier", "Archive").want(t, 200, "")
	source := []string{"x-ms-copy-source", f.base + "/box/s"}
	with := func(more ...string) []string { return append(append([]string{}, source...), more...) }

	f.do("PUT", "/box/c", "", source...).want(t, 409, "BlobArchived")
	f.do("PUT", "/box/c", "", with("x-ms-access-tier", "Archive")...).want(t, 409, "BlobArchived")
	f.do("PUT", "/box/s", "", with("x-ms-access-tier", "Hot")...).want(t, 409, "BlobArchived")
	f.do("PUT", "/box/c", "", with("x-ms-access-tier", "Cool", "x-ms-rehydrate-priority", "Soon")...).want(t, 400,
		"InvalidHeaderValue")
	f.do("PUT", "/box/c", "", with("x-ms-access-tier", "Cool", "x-ms-rehydrate-priority", "High")...).want(t, 202, "")

	h := f.do("HEAD", "/box/c", "").want(t, 200, "").header
	if tier, status, priority := h.Get("x-ms-access-tier"), h.Get("x-ms-archive-status"),
		h.Get("x-ms-rehydrate-priority"); tier != "Archive" ||
		status != "rehydrate-pending-to-cool" || priority != "High" {
		t.Errorf("the copy has tier %s, %s, priority %s", tier, status, priority)
	}
	f.do("GET", "/box/c", "").want(t, 409, "BlobArchived")
	f.advance(2 * 60e9)
	if r := f.do("GET", "/box/c", "").want(t, 200, ""); r.body != "cold" {
		t.Errorf("content %q", r.body)
	}
	if h := f.do("HEAD", "/box/c", "").header; h.Get("x-ms-access-tier") != "Cool" || h.Get("x-ms-archive-status") != "" {
		t.Errorf("the copy has not arrived: %v", h)
	}
	if tier := f.do("HEAD", "/box/s", "").header.Get("x-ms-access-tier"); tier != "Archive" {
		t.Errorf("the source is in %s", tier)
	}
}

// Page blobs can be created and copied with the tier that they are listed with, which tools for copying whole
// containers send.
func TestTierOfPageBlobs(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	page := []string{"x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512"}
	f.do("PUT", "/box/p", "", append(page, "x-ms-access-tier", "Hot")...).want(t, 201, "")
	f.do("PUT", "/box/p", "", append(page, "x-ms-access-tier", "Cool")...).want(t, 400, "InvalidBlobTier")
	copied := []string{"x-ms-copy-source", f.base + "/box/p"}
	f.do("PUT", "/box/q", "", append(copied, "x-ms-access-tier", "Hot")...).want(t, 202, "")
	f.do("PUT", "/box/q", "", append(copied, "x-ms-access-tier", "Cool")...).want(t, 400, "InvalidBlobTier")
	for _, name := range []string{"p", "q"} {
		h := f.do("HEAD", "/box/"+name, "").want(t, 200, "").header
		if h.Get("x-ms-access-tier") != "Hot" || h.Get("x-ms-access-tier-inferred") != "true" {
			t.Errorf("%s: tier %q, inferred %q", name, h.Get("x-ms-access-tier"), h.Get("x-ms-access-tier-inferred"))
		}
	}
}

// Headers that the service cannot honour are refused.
func TestUnusableParametersAreRefused(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "", "x-ms-blob-public-access", "blob").want(t, 201, "")
	f.do("PUT", "/box/s", "source", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	const empty = "1B2M2Y8AsgTpgAmY7PhCfg==" // the MD5 of nothing
	from := func(more ...string) []string {
		return append([]string{"x-ms-blob-type", "BlockBlob", "x-ms-copy-source", f.base + "/box/s"}, more...)
	}
	for _, tc := range []struct {
		name, method, target, body string
		header                     []string
		status                     int
		code                       string
	}{
		{"structured length without a structured body", "PUT", "/box/b", "x",
			[]string{"x-ms-blob-type", "BlockBlob", "x-ms-structured-content-length", "1"}, 400, "MissingRequiredHeader"},
		{"unknown intent", "PUT", "/box/b", "", from("x-ms-file-request-intent", "curiosity"), 400, "InvalidHeaderValue"},
		{"intent", "PUT", "/box/b", "", from("x-ms-file-request-intent", "backup"), 201, ""},
		{"MD5 of another body", "PUT", "/box/b", "", from("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="), 400, "Md5Mismatch"},
		{"MD5 of the empty body", "PUT", "/box/b", "", from("Content-MD5", empty), 201, ""},
		{"tags of versions", "GET", "/?comp=blobs&where=a%3D%271%27&include=versions", "", nil, 501, "NotImplemented"},
		{"tags of nothing more", "GET", "/?comp=blobs&where=a%3D%271%27&include=none", "", nil, 200, ""},
		{"tags of the unknown", "GET", "/?comp=blobs&where=a%3D%271%27&include=all", "", nil, 400,
			"InvalidQueryParameterValue"},
	} {
		t.Run(tc.name, func(t *testing.T) { f.do(tc.method, tc.target, tc.body, tc.header...).want(t, tc.status, tc.code) })
	}
}

// Containers of the system are listed on request only.
func TestListSystemContainers(t *testing.T) {
	t.Parallel()
	f := startFeed(t)
	c := f.container()
	must(c.NewBlockBlobClient("b").Upload(ctx, body("x"), nil))(t)
	f.feed()
	for include, want := range map[string]bool{"": false, "&include=metadata": false, "&include=system": true} {
		r := f.do("GET", "/?comp=list"+include, "").want(t, 200, "")
		if got := strings.Contains(r.body, "<Name>$blobchangefeed</Name>"); got != want {
			t.Errorf("list%s: $blobchangefeed is there: %t", include, got)
		}
	}
}

// An address without comp, where none exists for its restype: recorded as the fault of comp, without a version.
func TestAddressWithoutComp(t *testing.T) {
	t.Parallel()
	f := start(t)
	r := f.do("PUT", "/?restype=container", "").want(t, 400, "InvalidQueryParameterValue")
	r.wantHeader(t, "x-ms-version", "")
	if !strings.Contains(r.body, "<QueryParameterName>comp</QueryParameterName><QueryParameterValue /><Reason />") {
		t.Error(r.body)
	}
}
