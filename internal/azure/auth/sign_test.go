package auth

import (
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// The official SDKs make the same tokens, to the letter of the signature.
func TestSignLikeTheSDKs(t *testing.T) {
	t.Parallel()
	key, err := ParseKey(DevelopmentKey)
	must(t, err)
	want := signed(t)
	const start, expiry = "2026-03-04T04:06:07Z", "2026-03-04T06:06:07Z"
	signature := func(q string) string {
		_, sig, _ := strings.Cut(q, "sig=")
		sig, _, _ = strings.Cut(sig, "&")
		return sig
	}
	for _, tc := range []struct {
		name, sdk string
		t         Token
		svc       wire.Service
		resource  string
	}{
		{"account", "account", Token{Services: "b", ResourceTypes: "co", Permissions: "rwl", Start: start, Expiry: expiry,
			IP: "10.0.0.1-10.0.0.9", Protocol: "https,http"}, 0, ""},
		{"container", "container", Token{Permissions: "rl", Start: start, Expiry: expiry}, wire.Blob, "c"},
		{"blob", "blob", Token{Permissions: "r", Expiry: expiry, ContentDisposition: "attachment", ContentType: "text/html"},
			wire.Blob, "c/a/b c"},
		{"policy", "policy", Token{Policy: "readers"}, wire.Blob, "c"},
		{"queue", "queue", Token{Permissions: "rp", Expiry: expiry}, wire.Queue, "q"},
		{"table", "table", Token{Permissions: "ra", Start: start, Expiry: expiry, StartPK: "p1", EndPK: "p9", StartRK: "r1",
			EndRK: "r9"}, wire.Table, "Tab"},
	} {
		_, tc.t.VersionText, _ = strings.Cut(want[tc.sdk], "sv=")
		tc.t.VersionText = tc.t.VersionText[:10]
		got, err := tc.t.Sign(DevelopmentAccount, key, tc.svc, tc.resource)
		if err != nil || signature(got) != signature(want[tc.sdk]) {
			t.Errorf("%s: %s, %v; the SDK's is %s", tc.name, got, err, want[tc.sdk])
		}
	}
}

func TestSignRefusals(t *testing.T) {
	t.Parallel()
	key, err := ParseKey(DevelopmentKey)
	must(t, err)
	good := Token{Permissions: "r", Expiry: "2030-01-01"}
	if _, err := good.Sign("a", key, wire.Blob, "c"); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Token){
		"no permissions":  func(t *Token) { t.Permissions = "" },
		"no expiry":       func(t *Token) { t.Expiry = "" },
		"letters":         func(t *Token) { t.Permissions = "rz" },
		"time":            func(t *Token) { t.Expiry = "tomorrow" },
		"protocol":        func(t *Token) { t.Protocol = "http" },
		"address":         func(t *Token) { t.IP = "10.0.0.1-x" },
		"services":        func(t *Token) { t.Services, t.ResourceTypes = "x", "s" },
		"resource types":  func(t *Token) { t.Services, t.ResourceTypes = "b", "" },
		"account, policy": func(t *Token) { t.Services, t.ResourceTypes, t.Policy = "b", "s", "p" },
		"version":         func(t *Token) { t.VersionText = "2012-02-12" },
		"line feed":       func(t *Token) { t.Policy = "a\nb" },
	} {
		bad := good
		change(&bad)
		if q, err := bad.Sign("a", key, wire.Blob, "c"); err == nil {
			t.Errorf("%s: %s", name, q)
		}
	}
	if _, err := good.Sign("a", key, wire.Blob, ""); err == nil {
		t.Error("a service SAS without a resource")
	}
}
