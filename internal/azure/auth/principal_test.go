package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Whom an assignment means: an object, an application that comes for itself, or a group. Only what stands for an object
// id, as a user delegation SAS does, gets a user delegation key.
func TestPrincipals(t *testing.T) {
	t.Parallel()
	const oid, app, group = "aaaaaaaa-0000-0000-0000-000000000001", "bbbbbbbb-0000-0000-0000-000000000002",
		"cccccccc-0000-0000-0000-000000000003"
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	for _, tc := range []struct {
		name, principal string
		claims          jwt.MapClaims
		reads, keys     bool
	}{
		{"object id", oid, nil, true, true},
		{"object id in other case", "AAAAAAAA-0000-0000-0000-000000000001", nil, true, true},
		{"everybody", "*", nil, true, true},
		{"application", app, jwt.MapClaims{"appid": app, "sub": oid}, true, false},
		{"application, version 2", app, jwt.MapClaims{"azp": app, "sub": oid}, true, false},
		{"application by the kind of its token", app, jwt.MapClaims{"azp": app, "idtyp": "app"}, true, false},
		{"application that is the subject", app, jwt.MapClaims{"azp": app, "sub": app, "scope": "storage"}, true, false},
		{"user by the kind of the token", app, jwt.MapClaims{"azp": app, "idtyp": "user", "sub": oid}, false, false},
		{"user of another issuer, with scopes", app, jwt.MapClaims{"azp": app, "scope": "openid profile"}, false, false},
		{"user of another issuer, whose subject is the object id", app,
			jwt.MapClaims{"azp": app, "scope": "openid", "sub": oid}, false, false},
		{"user of another issuer, without scopes", app, jwt.MapClaims{"azp": app}, false, false},
		{"user of another issuer, without object id", app, jwt.MapClaims{"azp": app, "oid": nil, "sub": oid}, false, false},
		{"user whose subject is the client id", app, jwt.MapClaims{"azp": app, "scp": "user_impersonation", "sub": app},
			false, false},
		{"user by the kind of the token, whose subject is the client id", app,
			jwt.MapClaims{"azp": app, "idtyp": "user", "sub": app}, false, false},
		{"an application that a user uses", app, jwt.MapClaims{"appid": app, "scp": "user_impersonation"}, false, false},
		{"the user of an application", oid, jwt.MapClaims{"appid": app, "scp": "user_impersonation"}, true, true},
		{"group", group, jwt.MapClaims{"groups": []string{"x", "CCCCCCCC-0000-0000-0000-000000000003"}}, true, false},
		{"group and object id", oid, jwt.MapClaims{"groups": []string{group}}, true, true},
		{"another group", group, jwt.MapClaims{"groups": []string{app}}, false, false},
		{"a group's name", "developers", jwt.MapClaims{"groups": []string{"developers"}}, false, false},
		{"a group that a user's name would make", auth.ObjectID("alice"), jwt.MapClaims{"groups": []string{"alice"}}, false,
			false},
		{"groups that are no list", group, jwt.MapClaims{"groups": group}, false, false},
		{"groups that are no names", group, jwt.MapClaims{"groups": []any{1, nil, map[string]any{}}}, false, false},
		{"too many groups", group, jwt.MapClaims{"_claim_names": map[string]any{"groups": "src1"}}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			claims := jwt.MapClaims{"iss": "https://i", "aud": auth.StorageAudience, "oid": oid, "sub": "s",
				"exp": now.Add(time.Hour).Unix()}
			for k, v := range tc.claims {
				claims[k] = v
			}
			token, err := jwt.NewWithClaims(jwt.SigningMethodES256, claims).SignedString(key)
			check(t, err)
			roles, err := auth.NewRoles(auth.Assignment{Principal: tc.principal, Role: "Storage Blob Data Reader",
				Scope: account})
			check(t, err)
			o, err := auth.NewOAuth(roles,
				auth.Issuer{ID: "https://i", Keys: auth.KeySet{"": {Key: &key.PublicKey, Algorithm: "ES256"}}})
			check(t, err)
			a := &auth.Authenticator{Accounts: auth.Development(), OAuth: o}
			id, err := a.Authenticate(request(t, wire.Blob, "GET", "/"+account+"/c/b", "x-ms-version", "2021-12-02",
				"Authorization", "Bearer "+token))
			check(t, err)
			if err := id.Check(wire.Blob, auth.Need{On: auth.OnObject, Any: "r"}); (err == nil) != tc.reads {
				t.Errorf("reading: %v, want allowed %v", err, tc.reads)
			}
			if err := id.At("").Check(wire.Blob,
				auth.Need{On: auth.OnService, Bearer: auth.DelegationKey}); (err == nil) != tc.keys {
				t.Errorf("a user delegation key: %v, want allowed %v", err, tc.keys)
			}
		})
	}
}

// A SAS that is bound to a user is bound to one of the tenant that its key names.
func TestBoundToATenant(t *testing.T) {
	t.Parallel()
	is := issuer(t)
	a := authenticator(t, is, auth.Assignment{Principal: "signer", Role: "Storage Blob Data Reader", Scope: account})
	signer, err := is.Token("signer", auth.StorageAudience)
	check(t, err)
	guest, err := is.Token("guest", auth.StorageAudience)
	check(t, err)
	id, err := a.Authenticate(request(t, wire.Blob, "GET", "/"+account, "x-ms-version", "2026-04-06", "Authorization",
		"Bearer "+signer))
	check(t, err)
	const version, expiry = "2026-04-06", "2026-03-04T06:00:00Z"
	for tenant, ok := range map[string]bool{"": true, id.Principal().TenantID: true, "another": false} {
		k, err := auth.NewUserDelegationKey(a.Accounts.Get(account), id, wire.Blob, version, now, now.Add(time.Hour), now,
			tenant)
		check(t, err)
		user := auth.ObjectID("guest")
		message := "r\n\n" + expiry + "\n/blob/" + account + "/c/b\n" + k.ObjectID + "\n" + k.TenantID + "\n" + k.Start +
			"\n" + k.Expiry + "\nb\n" + version +
			"\n\n\n\n" + tenant + "\n" + user + "\n\n\n" + version + "\nb\n\n\n\n\n\n\n\n\n"
		value, err := base64.StdEncoding.DecodeString(k.Value)
		check(t, err)
		mac := hmac.New(sha256.New, value)
		mac.Write([]byte(message))
		q := url.Values{"sp": {"r"}, "se": {expiry}, "sr": {"b"}, "skoid": {k.ObjectID}, "sktid": {k.TenantID},
			"skt": {k.Start}, "ske": {k.Expiry}, "sks": {"b"},
			"skv": {version}, "sv": {version}, "sduoid": {user}, "sig": {base64.StdEncoding.EncodeToString(mac.Sum(nil))}}
		if tenant != "" {
			q.Set("skdutid", tenant)
		}
		r := request(t, wire.Blob, "GET", "/"+account+"/c/b?"+q.Encode(), "x-ms-version", version, "Authorization",
			"Bearer "+guest)
		if _, err := a.Authenticate(r); (err == nil) != ok || err != nil && !errors.Is(err, wire.ErrAuthenticationFailed) {
			t.Errorf("tenant %q: %v (%s), want allowed %v", tenant, err, detail(err), ok)
		}
	}
}
