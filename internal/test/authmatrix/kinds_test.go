package authmatrix

import (
	"encoding/base64"
	"encoding/xml"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// momentOf is the snapshot or version of tokens of the kinds bs and bv.
const momentOf = "2026-08-13T10:00:00.0000000Z"

// kind is a kind of token for the Blob service: what it is for, and what a request by it names beside its path.
type kind struct {
	resource, path string // sr, and the resource without the account
	depth          string // sdd
	query          string
	// elsewhere is set for a token of something that the paths of the requests do not name.
	elsewhere bool
}

var kinds = []kind{
	{resource: "c", path: "box"},
	{resource: "c", path: "box2", elsewhere: true},
	{resource: "b", path: "box/thing"},
	{resource: "b", path: "box/thing2", elsewhere: true},
	{resource: "bs", path: "box/thing", query: "snapshot=" + momentOf},
	{resource: "bs", path: "box/thing2", query: "snapshot=" + momentOf, elsewhere: true},
	{resource: "bs", path: "box/thing", query: "snapshot=2026-08-13T11:00:00.0000000Z", elsewhere: true},
	{resource: "bv", path: "box/thing", query: "versionid=" + momentOf},
	{resource: "bv", path: "box/thing", query: "versionid=2026-08-13T11:00:00.0000000Z", elsewhere: true},
	// The token of a snapshot is not one of the version of the same time, nor of the blob.
	{resource: "bs", path: "box/thing", query: "versionid=" + momentOf, elsewhere: true},
	{resource: "bv", path: "box/thing", query: "snapshot=" + momentOf, elsewhere: true},
	{resource: "bs", path: "box/thing", elsewhere: true},
	{resource: "d", path: "box", depth: "0"},
	{resource: "d", path: "box/thing", depth: "1"},
	{resource: "d", path: "box/thing2", depth: "1", elsewhere: true},
	{resource: "d", path: "box/thing/below", depth: "2", elsewhere: true},
	{resource: "d", path: "box2", depth: "0", elsewhere: true},
}

// covers reports whether the reference lets a token of the kind call the operation, with the letters that it needs.
// https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas#specify-the-signed-resource-field
func (k kind) covers(r rule) bool {
	switch {
	case k.elsewhere || r.service == "":
		return false
	case k.resource == "c":
		return true
	case k.resource == "d":
		return r.object || r.directory
	case k.resource == "b":
		return r.object
	}
	return r.record
}

// signer signs tokens: the account's key, or the user delegation key of a principal.
type tokenSigner struct {
	name string
	role string // the letter in rules; "" for the key
	key  *delegationKey
}

// delegationKey is the answer to Get User Delegation Key.
type delegationKey struct {
	SignedOid, SignedTid, SignedStart, SignedExpiry, SignedService, SignedVersion, Value string
}

// delegation gets the user delegation key of a principal.
func (h *fixture) delegation(t testing.TB, svc wire.Service, principal string) *delegationKey {
	t.Helper()
	token, err := h.issuer.Token(principal, auth.StorageAudience)
	check.OK(t, err)
	now := time.Now().UTC()
	body := "<KeyInfo><Start>" + now.Add(-time.Minute).Format(time.RFC3339) + "</Start><Expiry>" +
		now.Add(time.Hour).Format(time.RFC3339) + "</Expiry></KeyInfo>"
	r := httptest.NewRequest("POST", "http://127.0.0.1:10000/"+account+"/?restype=service&comp=userdelegationkey",
		strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:5555"
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("x-ms-version", version)
	w := httptest.NewRecorder()
	h.handlers[svc].ServeHTTP(w, r)
	if w.Code != 200 {
		t.Fatalf("the user delegation key of %s: %d %s", principal, w.Code, w.Body)
	}
	k := new(delegationKey)
	check.OK(t, xml.Unmarshal(w.Body.Bytes(), k))
	return k
}

// agent has the optional fields of a user delegation SAS.
type agent struct{ saoid, suoid, scid string }

// sign signs a user delegation SAS. The strings to sign are those of the reference: of version 2020-12-06 for blobs,
// and of 2025-07-05 for queues.
// https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas#specify-the-signature
func (d *delegationKey) sign(t testing.TB, svc wire.Service, k kind, permissions string, a agent) string {
	t.Helper()
	expiry := time.Now().UTC().Add(time.Hour).Format(time.RFC3339)
	sv, moment := "2021-12-02", ""
	if k.resource == "bs" || k.resource == "bv" {
		moment = momentOf
	}
	text := []string{permissions, "", expiry, "/" + svc.String() + "/" + account + "/" + k.path, d.SignedOid, d.SignedTid,
		d.SignedStart, d.SignedExpiry, d.SignedService, d.SignedVersion}
	if svc == wire.Queue {
		sv = "2025-07-05"
		text = append(text, "", "", "", "", sv)
	} else {
		text = append(text, a.saoid, a.suoid, a.scid, "", "", sv, k.resource, moment, "", "", "", "", "", "")
	}
	secret, err := base64.StdEncoding.DecodeString(d.Value)
	check.OK(t, err)
	key, err := auth.ParseKey(base64.StdEncoding.EncodeToString(secret))
	check.OK(t, err)
	q := url.Values{}
	for name, value := range map[string]string{"sv": sv, "sp": permissions, "se": expiry, "sr": k.resource,
		"sdd": k.depth, "skoid": d.SignedOid, "sktid": d.SignedTid, "skt": d.SignedStart, "ske": d.SignedExpiry,
		"sks": d.SignedService, "skv": d.SignedVersion, "saoid": a.saoid, "suoid": a.suoid, "scid": a.scid,
		"sig": base64.StdEncoding.EncodeToString(key.Sign(nil, []byte(strings.Join(text, "\n"))))} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q.Encode()
}

// sign signs a token of a kind.
func (h *fixture) sign(t testing.TB, by tokenSigner, k kind, permissions string) string {
	t.Helper()
	if by.key != nil {
		return by.key.sign(t, wire.Blob, k, permissions, agent{})
	}
	moment := ""
	if k.resource == "bs" || k.resource == "bv" {
		moment = momentOf
	}
	q, err := auth.Token{Resource: k.resource, Snapshot: moment, Depth: k.depth, Permissions: permissions,
		Expiry: "2100-01-01"}.Sign(account, h.key, wire.Blob, k.path)
	check.OK(t, err)
	return q
}

// signers are the account's key and the holders of each role of a service.
func (h *fixture) signers(t testing.TB, svc wire.Service) []tokenSigner {
	t.Helper()
	list := []tokenSigner{{name: "the key"}}
	for _, name := range auth.RoleNames() {
		if fields := strings.Fields(name); strings.EqualFold(fields[1], svc.String()) {
			list = append(list, tokenSigner{name, short[fields[len(fields)-1]], h.delegation(t, svc, name)})
		}
	}
	return list
}

// letterSets are the sets of letters that show which ones a token needs: all, each one that suffices, and all others.
func letterSets(wanted string) []string {
	without := strings.Map(func(c rune) rune {
		if strings.ContainsRune(wanted, c) {
			return -1
		}
		return c
	}, letters)
	return append(strings.Split(wanted, ""), letters, without)
}

// Every operation of the Blob service, on both endpoints, by a token of every kind that the key or a user has signed:
// the token has to be for what the request names, and its letters have to suffice, and the roles of its signer too.
func TestKindsOfTokens(t *testing.T) {
	h := build(t)
	signers := h.signers(t, wire.Blob)
	each(t, func(t *testing.T, svc wire.Service, row frontend.Row, r rule) {
		if of(svc) != wire.Blob {
			return
		}
		wanted := r.service
		if wanted == "=" {
			wanted = r.account
		}
		for _, k := range kinds {
			query := k.query
			if row.On == "container" && k.resource == "d" { // such a token is for the listing of the directory
				if query = "prefix=thing/"; row.Name == "PathList" {
					query = "directory=thing"
				}
			}
			for _, by := range signers {
				sets, needs, roles := letterSets(wanted), wanted, r.roles
				if k.elsewhere { // no letters suffice
					sets = []string{letters}
				} else if k.resource == "bv" && r.version != "" {
					needs, roles = r.version, r.versionRoles
					sets = letterSets(needs)
				}
				for _, l := range sets {
					token := h.sign(t, by, k, l)
					if query != "" {
						token = query + "&" + token
					}
					in := k.covers(r) && allowed(l, needs, r.all) && (by.key == nil || strings.Contains(roles, by.role))
					expect(t, label(svc, row)+", "+l+" of a token of "+by.name+" for "+k.resource+" "+k.path+" "+query,
						h.ask(t, svc, request(t, svc, row, account, token)), in || r.public == "*")
				}
			}
		}
	})
}

// Every operation of the Queue service by a token that a user has signed.
func TestKindsOfQueueTokens(t *testing.T) {
	h := build(t)
	signers := h.signers(t, wire.Queue)[1:]
	each(t, func(t *testing.T, svc wire.Service, row frontend.Row, r rule) {
		if svc != wire.Queue {
			return
		}
		wanted := r.service
		if wanted == "=" {
			wanted = r.account
		}
		for _, k := range []kind{{path: "line"}, {resource: "q", path: "line"}, {path: "line2", elsewhere: true}} {
			for _, by := range signers {
				for _, l := range letterSets(wanted) {
					in := !k.elsewhere && wanted != "" && allowed(l, wanted, r.all) && strings.Contains(r.roles, by.role)
					expect(t, label(svc, row)+", "+l+" of a token of "+by.name+" for "+k.path,
						h.ask(t, svc, request(t, svc, row, account, by.key.sign(t, svc, k, l, agent{}))), in || r.public == "*")
				}
			}
		}
	})
}

// The object IDs that a user delegation SAS may name, in an account without a hierarchical namespace: saoid needs a
// signer who manages ownership or runs as the superuser, which of the built-in roles the Owner alone may; suoid needs a
// hierarchical namespace; both in one token are refused. A correlation ID gives nothing and takes nothing. For accounts
// with a hierarchical namespace see TestLakeAgents in package blobsvc.
// https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas#specify-a-signed-object-id-for-a-security-principal
func TestAgentsOfTokens(t *testing.T) {
	h := build(t)
	const id = "6b1f2a50-8a6b-4a1d-9a34-0d7f2f6f5f11"
	signers := h.signers(t, wire.Blob)[1:]
	each(t, func(t *testing.T, svc wire.Service, row frontend.Row, r rule) {
		if of(svc) != wire.Blob || r.public == "*" {
			return
		}
		for _, by := range signers {
			can := r.service != "" && strings.Contains(r.roles, by.role)
			for name, c := range map[string]struct {
				agent
				in bool
			}{
				"nobody":           {agent{}, can},
				"scid":             {agent{scid: id}, can},
				"saoid":            {agent{saoid: id}, can && by.role == "O"},
				"saoid, scid":      {agent{saoid: id, scid: id}, can && by.role == "O"},
				"suoid":            {agent{suoid: id}, false},
				"saoid with suoid": {agent{saoid: id, suoid: id}, false},
			} {
				what := label(svc, row) + ", a token of " + by.name + " for " + name
				token := by.key.sign(t, wire.Blob, kinds[0], letters, c.agent)
				expect(t, what, h.ask(t, svc, request(t, svc, row, account, token)), c.in)
				if c.agent == (agent{}) {
					for _, field := range []string{"saoid", "suoid", "scid"} {
						expect(t, what+" with an unsigned "+field,
							h.ask(t, svc, request(t, svc, row, account, token+"&"+field+"="+id)), false, "AuthenticationFailed")
					}
				}
			}
		}
	})
}
