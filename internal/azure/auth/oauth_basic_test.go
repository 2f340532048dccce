package auth_test

import (
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Basic tokens need no valid signature, and everything else: an issuer of Entra's, the audience, the times.
func TestBasicBearer(t *testing.T) {
	t.Parallel()
	a := &auth.Authenticator{Accounts: auth.Development(), OAuth: auth.NewBasicOAuth(auth.DevelopmentRoles())}
	token := func(change func(jwt.MapClaims)) string {
		claims := jwt.MapClaims{"iss": "https://sts.windows.net/1a211100-0000-4000-8000-000000000000/",
			"aud": auth.StorageAudience, "sub": "someone",
			"oid": "7b1c1f0e-3c2a-4c55-8f5e-0d7c9f6a2b11", "exp": now.Add(time.Hour).Unix(), "nbf": now.Add(-time.Hour).Unix(),
			"iat": now.Add(-time.Hour).Unix()}
		if change != nil {
			change(claims)
		}
		text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("any key"))
		check(t, err)
		return text
	}
	for name, c := range map[string]struct {
		token    string
		accepted bool
	}{
		"a forged token": {token(nil), true},
		"an account's": {token(
			func(c jwt.MapClaims) { c["aud"] = "https://devstoreaccount1.blob.core.windows.net" }), true},
		"a v2.0 issuer": {token(func(c jwt.MapClaims) { c["iss"] = "https://login.microsoftonline.com/common/v2.0" }),
			true},
		"a test issuer": {token(
			func(c jwt.MapClaims) { c["iss"] = "https://sts.windows-ppe.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/" }), true},
		"an account's in China": {token(
			func(c jwt.MapClaims) { c["aud"] = "https://devstoreaccount1.blob.core.chinacloudapi.cn/" }), true},
		"an account's in the US government's cloud": {token(
			func(c jwt.MapClaims) { c["aud"] = "https://devstoreaccount1.blob.core.usgovcloudapi.net" }), true},
		"an account's in Germany": {token(
			func(c jwt.MapClaims) { c["aud"] = "https://devstoreaccount1.blob.core.cloudapi.de" }), true},
		"another account's in China": {token(
			func(c jwt.MapClaims) { c["aud"] = "https://other.blob.core.chinacloudapi.cn" }), false},
		"a queue's": {token(
			func(c jwt.MapClaims) { c["aud"] = "https://devstoreaccount1.queue.core.windows.net" }), false},
		"another issuer": {token(
			func(c jwt.MapClaims) { c["iss"] = "https://evil.example/https://sts.windows.net/" }), false},
		"another audience": {token(
			func(c jwt.MapClaims) { c["aud"] = "https://graph.microsoft.com" }), false},
		"expired": {token(
			func(c jwt.MapClaims) { c["exp"] = now.Add(-time.Minute).Unix() }), false},
		"without an end": {token(func(c jwt.MapClaims) { delete(c, "exp") }), false},
		"not yet valid": {token(func(c jwt.MapClaims) { c["nbf"] = now.Add(6 * time.Minute).Unix() }),
			false},
		"nobody's": {token(func(c jwt.MapClaims) { delete(c, "oid"); delete(c, "sub") }),
			false},
		"not a token": {"x.y.z", false},
		"empty":       {"", false},
	} {
		r := request(t, wire.Blob, "GET", "/"+account+"?comp=list", "Authorization", "Bearer "+c.token, "x-ms-version",
			"2023-11-03")
		if _, err := a.Authenticate(r); (err == nil) != c.accepted {
			t.Errorf("%s: %v", name, err)
		}
	}
}
