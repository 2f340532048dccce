package authmatrix

import (
	"fmt"
	"io"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/operations"
)

// A row declares what it does to a path that a header names if, and only if, its rule has letters for it.
func TestEverySourceHasARule(t *testing.T) {
	each(t, func(t *testing.T, svc wire.Service, row frontend.Row, r rule) {
		named, declared := false, false
		for _, header := range frontend.SourceHeaders {
			named = named || slices.Contains(row.Has, header)
		}
		for _, touch := range row.Touches {
			declared = declared || touch.Source != ""
		}
		if declared != (r.source != "") || named && !declared {
			t.Errorf("%s: it declares a source: %v, and its rule is %q", label(svc, row), declared, r.source)
		}
	})
}

// copies are the operations for which the account's key opens a source in the account; the other ones read a source
// like an anonymous caller, or by the credential that the source has.
// https://learn.microsoft.com/rest/api/storageservices/copy-blob#authorization
// https://learn.microsoft.com/rest/api/storageservices/put-block-from-url#request-headers
var copies = []string{"CopyBlob", "CopyBlobFromURL", "IncrementalCopyBlob"}

// source is a blob as a request for a copy names it, and what reads it.
type source struct {
	name, container, query, token string // token is of x-ms-copy-source-authorization
	letters                       string // of the credential, as those of a SAS: "r", "rt"
}

// snapshotHeader is the header as the service writes it.
var snapshotHeader = "x-ms-snapshot"

// Every operation that reads another blob, by every kind of credential for that blob, with and without the options that
// read its tags as well.
func TestSourcesOfCopies(t *testing.T) {
	h := build(t)
	// The contents are small and the destinations are replaced: an operation may fail for other reasons than rights.
	put := func(path string, header ...string) *httptest.ResponseRecorder {
		w := h.send(wire.Blob, "PUT", "/"+account+path, "", header...)
		if w.Code != 201 {
			t.Fatalf("PUT %s: %d %s", path, w.Code, w.Body)
		}
		return w
	}
	for container, level := range map[string]string{"dst": "", "private": "", "openblob": "blob",
		"opencontainer": "container"} {
		var access []string
		if level != "" {
			access = []string{"x-ms-blob-public-access", level}
		}
		put("/"+container+"?restype=container", access...)
		put("/"+container+"/thing", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512",
			"x-ms-tags", "stage=x", "x-ms-version", version)
		put("/"+container+"/thing2", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512",
			"x-ms-tags", "stage=x", "x-ms-version", version)
	}
	taken := strings.Join(put("/private/thing?comp=snapshot").Header()[snapshotHeader], "")
	signers := h.signers(t, wire.Blob)
	bearer := func(principal string) string {
		token, err := h.issuer.Token(principal, auth.StorageAudience)
		check.OK(t, err)
		return "Bearer " + token
	}
	sign := func(by tokenSigner, k kind, letters string) string {
		if by.key == nil {
			moment := ""
			if k.resource == "bs" {
				moment = taken
			}
			q, err := auth.Token{Resource: k.resource, Snapshot: moment, Depth: k.depth, Permissions: letters,
				Expiry: "2100-01-01"}.Sign(account, h.key, wire.Blob, k.path)
			check.OK(t, err)
			return q
		}
		return by.key.sign(t, wire.Blob, k, letters, agent{})
	}
	sources := []source{
		{name: "no credential", container: "private"},
		{name: "no credential, open blobs", container: "openblob", letters: "r"},
		{name: "no credential, open container", container: "opencontainer", letters: "r"},
		{name: "no credential, a snapshot of a private one", container: "private",
			query: "snapshot=" + url.QueryEscape(taken)},
	}
	for _, l := range []string{"r", "rt", "t", "wacdxylmeopi"} {
		held := strings.Map(func(c rune) rune {
			if strings.ContainsRune("rt", c) {
				return c
			}
			return -1
		}, l)
		for _, by := range signers {
			if by.role == "C" && l != "r" {
				continue // whose letters for sources are those of the Reader
			}
			roles := map[string]string{"": "rt", "R": "r", "C": "r", "O": "rt", "D": ""}[by.role]
			for _, k := range []kind{{resource: "c", path: "private"}, {resource: "b", path: "private/thing"},
				{resource: "d", path: "private/thing", depth: "1"}, {resource: "b", path: "private/thing2", elsewhere: true},
				{resource: "c", path: "dst", elsewhere: true}} {
				letters := ""
				for _, c := range held {
					if strings.ContainsRune(roles, c) && !k.elsewhere {
						letters += string(c)
					}
				}
				sources = append(sources, source{container: "private", query: sign(by, k, l), letters: letters,
					name: fmt.Sprintf("%s of %s for %s %s", l, by.name, k.resource, k.path)})
			}
		}
		of := sign(signers[0], kind{resource: "bs", path: "private/thing"}, l)
		sources = append(sources,
			source{name: l + " for a snapshot", container: "private", query: "snapshot=" + url.QueryEscape(taken) + "&" + of,
				letters: held},
			source{name: l + " for a snapshot, of the blob", container: "private", query: of})
		account, err := auth.Token{Services: "b", ResourceTypes: "o", Permissions: l, Expiry: "2100-01-01"}.Sign(account,
			h.key, wire.Blob, "")
		check.OK(t, err)
		sources = append(sources, source{name: l + " of an account SAS", container: "private", query: account, letters: held})
	}
	for role, letters := range map[string]string{"Storage Blob Data Reader": "r", "Storage Blob Data Contributor": "r",
		"Storage Blob Data Owner": "rt", "Storage Blob Delegator": "", "Storage Queue Data Reader": ""} {
		sources = append(sources, source{name: "a bearer token of " + role, container: "private", token: bearer(role),
			letters: letters})
	}
	for _, row := range operations.Tables(t)[wire.Blob] {
		r, _ := find(t, wire.Blob, row)
		if !slices.ContainsFunc(row.Touches, func(touch frontend.Touch) bool { return touch.Source == "X-Ms-Copy-Source" }) {
			continue
		}
		options := []string{""}
		for _, touch := range row.Touches {
			options = append(options, touch.Options...)
		}
		for _, option := range options {
			needs := r.source
			header, value, _ := strings.Cut(option, "=")
			if needs += "t"; option == "" {
				needs = r.source
			} else if value == "" {
				value = "stage = 'x'"
			}
			for _, s := range sources {
				bare := s.token == "" && !strings.Contains(s.query, "sig=")
				for _, caller := range []string{"the key", "a token", "an owner of the destination", "an owner of both"} {
					if !bare && caller != "the key" && row.Name != "CopyBlob" {
						continue // the credential of the source decides, and not the caller
					}
					in := s.letters != "" && strings.Trim(needs, s.letters) == ""
					if bare {
						// Without a credential of its own a source is opened by a role of the caller, and for copies by the key.
						in = in || caller == "an owner of both" || caller == "the key" && slices.Contains(copies, row.Name)
					}
					got := h.copy(t, row, s, caller, header, value)
					if refused := got == "CannotVerifyCopySource"; refused == in || slices.Contains(refusals, got) {
						t.Errorf("%s %s, from %s by %s: %q, want it permitted: %v", label(wire.Blob, row), option, s.name,
							caller, got, in)
					}
				}
			}
		}
	}
}

// copy sends the request of a row to copy from s, and returns the error code of a refusal.
func (h *fixture) copy(t testing.TB, row frontend.Row, s source, caller, header, value string) string {
	t.Helper()
	query := ""
	if row.Comp != "" {
		query = "?comp=" + row.Comp
	}
	if caller == "a token" {
		q, err := auth.Token{Permissions: letters, Expiry: "2100-01-01"}.Sign(account, h.key, wire.Blob, "dst")
		check.OK(t, err)
		query = strings.Replace("?"+q+"&"+strings.TrimPrefix(query, "?"), "&?", "&", 1)
	}
	target := "/" + account + "/dst/copy" + query
	r := httptest.NewRequest("PUT", "http://127.0.0.1:10000"+target, nil)
	r.RequestURI, r.RemoteAddr = target, "127.0.0.1:5555"
	from := "http://127.0.0.1:10000/" + account + "/" + s.container + "/thing"
	if s.query != "" {
		from += "?" + s.query
	}
	for _, name := range row.Has {
		r.Header.Set(name, map[string]string{"X-Ms-Requires-Sync": "true", "X-Ms-Blob-Type": "BlockBlob"}[name])
	}
	r.Header.Set("x-ms-version", version)
	r.Header.Set("x-ms-copy-source", from)
	if header != "" {
		r.Header.Set(header, value)
	}
	if s.token != "" {
		r.Header.Set("x-ms-copy-source-authorization", s.token)
	}
	switch caller {
	case "the key":
		byKey(r, wire.Blob, account, h.key)
	case "an owner of the destination", "an owner of both":
		principal := map[string]string{"an owner of the destination": ownerOfDst}[caller]
		if principal == "" {
			principal = "Storage Blob Data Owner"
		}
		token, err := h.issuer.Token(principal, auth.StorageAudience)
		check.OK(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.handlers[wire.Blob].ServeHTTP(w, r)
	if w.Code >= 500 && w.Code != 501 {
		t.Errorf("%s from %s: %d %s", label(wire.Blob, row), s.name, w.Code, w.Body)
	}
	// A source that may be read can be of another type, which has the same code.
	if w.Code != 401 && w.Code != 403 && w.Code != 404 {
		return ""
	}
	return strings.Join(w.Header()[errorHeader], "")
}

// options are what a write does by a header that an operation of its own guards, with the letter of that operation.
//
//   - https://learn.microsoft.com/rest/api/storageservices/set-blob-tags#authorization
//   - https://learn.microsoft.com/rest/api/storageservices/set-blob-immutability-policy
//   - https://learn.microsoft.com/rest/api/storageservices/set-blob-legal-hold
//   - https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations
var options = []struct {
	letter string
	header []string
	of     []string // the operations that document the header; nil are all on a blob that read or write it
}{
	{"t", []string{"x-ms-tags", "stage=x"}, writes},
	{"t", []string{"x-ms-tags", ""}, writes},
	{"i", []string{"x-ms-immutability-policy-until-date", "Fri, 01 Jan 2100 00:00:00 GMT",
		"x-ms-immutability-policy-mode", "unlocked"}, writes},
	{"i", []string{"x-ms-legal-hold", "true"}, writes},
	{"t", []string{"x-ms-if-tags", "stage = 'x'"}, []string{"GetBlob", "GetBlobProperties", "GetBlobMetadata", "PutBlob",
		"SetBlobMetadata", "SetBlobProperties", "DeleteBlob", "SnapshotBlob", "PutBlockList", "CopyBlob", "CopyBlobFromURL",
		"GetBlockList", "PutPage", "AppendBlock", "SetBlobTier", "QueryBlobContents", "LeaseBlob"}},
}

// writes are the operations that set the tags and the protection of the blob that they write.
var writes = []string{"PutBlob", "PutBlobFromURL", "PutBlockList", "CopyBlob", "CopyBlobFromURL"}

// An option of a write needs the letter of the operation that it stands for, whatever else the token permits.
func TestOptionsNeedTheirLetters(t *testing.T) {
	h := build(t)
	for _, path := range []string{"/box?restype=container", "/box/source", "/box/thing"} {
		if w := h.send(wire.Blob, "PUT", "/"+account+path, "", "x-ms-blob-type", "BlockBlob", "x-ms-tags", "stage=x",
			"x-ms-version", version); w.Code != 201 {
			t.Fatalf("PUT %s: %d %s", path, w.Code, w.Body)
		}
	}
	source, err := auth.Token{Permissions: "rt", Expiry: "2100-01-01"}.Sign(account, h.key, wire.Blob, "box")
	check.OK(t, err)
	for _, o := range options {
		done := map[string]bool{}
		for _, row := range operations.Tables(t)[wire.Blob] {
			if !slices.Contains(o.of, row.Name) {
				continue
			}
			done[row.Name] = true
			for _, l := range []string{letters, strings.ReplaceAll(letters, o.letter, "")} {
				q, err := auth.Token{Permissions: l, Expiry: "2100-01-01"}.Sign(account, h.key, wire.Blob, "box")
				check.OK(t, err)
				r := request(t, wire.Blob, row, account, q)
				if !slices.Contains(row.HasNot, "X-Ms-Blob-Type") {
					r.Header.Set("x-ms-blob-type", "BlockBlob")
				}
				for _, name := range row.Has {
					r.Header.Set(name, map[string]string{"X-Ms-Requires-Sync": "true", "X-Ms-Blob-Type": "BlockBlob",
						"X-Ms-Copy-Source": "http://127.0.0.1:10000/" + account + "/box/source?" + source}[name])
				}
				for i := 0; i < len(o.header); i += 2 {
					r.Header.Set(o.header[i], o.header[i+1])
				}
				body := ""
				switch row.Name {
				case "LeaseBlob":
					r.Header.Set("x-ms-lease-action", "break")
				case "SetBlobTier":
					r.Header.Set("x-ms-access-tier", "Cool")
				case "PutPage":
					r.Header.Set("x-ms-page-write", "clear")
					r.Header.Set("x-ms-range", "bytes=0-511")
				case "AppendBlock":
					body = "x"
				case "PutBlockList":
					body = "<BlockList></BlockList>"
				case "QueryBlobContents":
					body = "<QueryRequest><QueryType>SQL</QueryType><Expression>SELECT * from BlobStorage</Expression></QueryRequest>"
				}
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
				expect(t, fmt.Sprintf("%s with %s by %s", label(wire.Blob, row), o.header[0], l), h.ask(t, wire.Blob, r),
					l == letters, "AuthorizationPermissionMismatch")
			}
		}
		for _, name := range o.of {
			if !done[name] {
				t.Errorf("%s is no operation", name)
			}
		}
	}
}
