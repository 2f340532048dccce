package auth_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/devissuer"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const account = auth.DevelopmentAccount

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// request reads a request head as a server does; it comes from the loopback address.
func request(t testing.TB, svc wire.Service, method, target string, header ...string) *wire.Request {
	t.Helper()
	head := method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1:10000\r\n"
	for i := 0; i < len(header); i += 2 {
		head += header[i] + ": " + header[i+1] + "\r\n"
	}
	hr, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head + "\r\n")))
	check(t, err)
	hr.RemoteAddr = "127.0.0.1:4444"
	r, err := wire.Parse(svc, hr, httptest.NewRecorder(), now, wire.Options{})
	check(t, err)
	return r
}

func issuer(t testing.TB) *devissuer.Issuer {
	t.Helper()
	i, err := devissuer.New(devissuer.Config{Now: func() time.Time { return now }})
	check(t, err)
	return i
}

func authenticator(t testing.TB, i *devissuer.Issuer, list ...auth.Assignment) *auth.Authenticator {
	t.Helper()
	roles, err := auth.NewRoles(list...)
	check(t, err)
	o, err := auth.NewOAuth(roles, i.Trust())
	check(t, err)
	return &auth.Authenticator{Accounts: auth.Development(), OAuth: o}
}

// detail is the AuthenticationErrorDetail of a refusal.
func detail(err error) string {
	var e *wire.Error
	if errors.As(err, &e) {
		for _, d := range e.Details {
			if d.Name == "AuthenticationErrorDetail" {
				return d.Value
			}
		}
	}
	return ""
}

func TestBearer(t *testing.T) {
	t.Parallel()
	is := issuer(t)
	a := authenticator(t, is)
	other := issuer(t)
	good := jwt.MapClaims{"iss": is.Trust().ID, "aud": auth.StorageAudience, "sub": "s",
		"oid": "AAAAAAAA-0000-0000-0000-000000000001",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(), "tid": "t", "appid": "app"}
	// sign makes a token of the same issuer with changed claims, by a key that the authenticator trusts.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	o, err := auth.NewOAuth(nil, auth.Issuer{ID: is.Trust().ID,
		Keys: auth.KeySet{"k": {Key: &key.PublicKey, Algorithm: "ES256"}}, Audiences: []string{"https://mine"}})
	check(t, err)
	mine := &auth.Authenticator{Accounts: auth.Development(), OAuth: o}
	sign := func(changes ...any) string {
		c := jwt.MapClaims{}
		for k, v := range good {
			c[k] = v
		}
		for i := 0; i < len(changes); i += 2 {
			if changes[i+1] == nil {
				delete(c, changes[i].(string))
				continue
			}
			c[changes[i].(string)] = changes[i+1]
		}
		tok := jwt.NewWithClaims(jwt.SigningMethodES256, c)
		tok.Header["kid"] = "k"
		s, err := tok.SignedString(key)
		check(t, err)
		return s
	}
	issued, err := is.Token("app", auth.StorageAudience)
	check(t, err)
	foreign, err := other.Token("app", auth.StorageAudience)
	check(t, err)
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, good).SignedString(jwt.UnsafeAllowNoneSignatureType)
	check(t, err)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	check(t, err)
	confused := jwt.NewWithClaims(jwt.SigningMethodHS256, good)
	confused.Header["kid"] = "k"
	hmacked, err := confused.SignedString(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	check(t, err)
	// own is a token by a key that its header brings along, or says where to find.
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	own := func(header string, value any) string {
		tok := jwt.NewWithClaims(jwt.SigningMethodES256, good)
		tok.Header["kid"], tok.Header[header] = "k", value
		s, err := tok.SignedString(stranger)
		check(t, err)
		return s
	}
	point, err := stranger.PublicKey.Bytes()
	check(t, err)
	jwk := map[string]string{"kty": "EC", "crv": "P-256", "kid": "k",
		"x": base64.RawURLEncoding.EncodeToString(point[1:33]), "y": base64.RawURLEncoding.EncodeToString(point[33:])}
	tampered := []byte(sign())
	tampered[len(tampered)/2] ^= 1

	for _, tc := range []struct {
		name    string
		a       *auth.Authenticator
		token   string
		svc     wire.Service
		version string
		remote  string
		tls     bool
		want    error
		detail  string
	}{
		{name: "of the development issuer", a: a, token: issued},
		{name: "of a configured issuer", a: mine, token: sign()},
		{name: "audience with a slash", a: mine, token: sign("aud", auth.StorageAudience+"/")},
		{name: "audience of the account", a: mine, token: sign("aud", "https://"+account+".blob.core.windows.net")},
		{name: "audience that is configured", a: mine, token: sign("aud", "https://mine")},
		{name: "several audiences", a: mine, token: sign("aud", []string{"x", auth.StorageAudience})},
		{name: "over TLS from elsewhere", a: mine, token: sign(), remote: "10.0.0.1:1", tls: true},
		{name: "a subject instead of an object id", a: mine, token: sign("oid", nil)},

		{name: "expired", a: mine, token: sign("exp", now.Unix()), want: auth.ErrInvalidBearerToken,
			detail: "Lifetime validation failed. The token is expired."},
		{name: "without expiry", a: mine, token: sign("exp", nil), want: auth.ErrInvalidBearerToken},
		{name: "of an issuer whose clock is ahead", a: mine, token: sign("nbf", now.Unix()+300, "iat", now.Unix()+300)},
		{name: "early", a: mine, token: sign("nbf", now.Unix()+301), want: auth.ErrInvalidBearerToken,
			detail: "Lifetime validation failed. The token is not yet valid."},
		{name: "of another account", a: mine, token: sign("aud", "https://other.blob.core.windows.net"),
			want: auth.ErrInvalidBearerToken, detail: "Audience validation failed. Audience did not match."},
		{name: "of another service", a: mine, token: sign("aud", "https://"+account+".queue.core.windows.net"),
			want: auth.ErrInvalidBearerToken, detail: "Audience validation failed. Audience did not match."},
		{name: "for Microsoft Graph", a: mine, token: sign("aud", "https://graph.microsoft.com"),
			want: auth.ErrInvalidBearerToken},
		{name: "without audience", a: mine, token: sign("aud", nil), want: auth.ErrInvalidBearerToken},
		{name: "of another issuer", a: mine, token: sign("iss", "https://login.microsoftonline.com/x/v2.0"),
			want: auth.ErrInvalidBearerToken, detail: "Issuer validation failed. Issuer did not match."},
		{name: "without issuer", a: mine, token: sign("iss", nil), want: auth.ErrInvalidBearerToken},
		{name: "without anybody", a: mine, token: sign("oid", nil, "sub", nil), want: auth.ErrInvalidBearerToken},
		{name: "of another key", a: a, token: foreign, want: auth.ErrInvalidBearerToken,
			detail: "Signature validation failed. Signature verification failed."},
		{name: "key in the header", a: mine, token: own("jwk", jwk), want: auth.ErrInvalidBearerToken,
			detail: "Signature validation failed. Signature verification failed."},
		{name: "address of a key in the header", a: mine, token: own("jku", "https://evil.example/keys"),
			want: auth.ErrInvalidBearerToken},
		{name: "key ID that is a path", a: mine, token: own("kid", "../../dev/null"), want: auth.ErrInvalidBearerToken},
		{name: "key ID that is no text", a: mine, token: own("kid", []string{"k"}), want: auth.ErrInvalidBearerToken},
		{name: "another algorithm of the same curve", a: mine, token: own("alg", "ES384"), want: auth.ErrInvalidBearerToken},
		{name: "expiry as text", a: mine, token: sign("exp", "never"), want: auth.ErrInvalidBearerToken},
		{name: "expiry beyond all times", a: mine, token: sign("exp", 1e300), want: auth.ErrInvalidBearerToken},
		{name: "audience as a number", a: mine, token: sign("aud", 7), want: auth.ErrInvalidBearerToken},
		{name: "unsigned", a: mine, token: none, want: auth.ErrInvalidBearerToken},
		{name: "public key taken as a secret", a: mine, token: hmacked, want: auth.ErrInvalidBearerToken},
		{name: "tampered", a: mine, token: string(tampered), want: auth.ErrInvalidBearerToken},
		{name: "not a token", a: mine, token: "abc", want: auth.ErrInvalidBearerToken},
		{name: "too long", a: mine, token: strings.Repeat("a", 17<<10), want: auth.ErrInvalidBearerToken},
		{name: "expired, for an old version", a: mine, version: "2018-11-09", token: sign("exp", now.Unix()),
			want: wire.ErrAuthenticationFailed, detail: "Lifetime validation failed. The token is expired."},
		{name: "version without bearer tokens", a: mine, version: "2017-07-29", token: sign(),
			want: wire.ErrAuthenticationFailed, detail: "Authentication scheme Bearer is not supported in this version."},
		{name: "table, in the version of its SDKs", a: mine, svc: wire.Table, version: "2019-02-02", token: sign()},
		{name: "plain HTTP from elsewhere", a: mine, token: sign(), remote: "10.0.0.1:1", want: wire.ErrAuthenticationFailed},
		{name: "no issuer configured", a: &auth.Authenticator{Accounts: auth.Development()}, token: sign(),
			want: wire.ErrAuthenticationFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.version == "" {
				tc.version = "2021-12-02"
			}
			if tc.svc == 0 {
				tc.svc = wire.Blob
			}
			r := request(t, tc.svc, "GET", "/"+account+"/c/b", "x-ms-version", tc.version, "Authorization", "Bearer "+tc.token)
			if tc.remote != "" {
				r.HTTP.RemoteAddr = tc.remote
			}
			if tc.tls {
				r.HTTP.TLS = &tls.ConnectionState{}
			}
			for range 2 { // the second time from the cache
				id, err := tc.a.Authenticate(r)
				if (err == nil) != (tc.want == nil) || !errors.Is(err, tc.want) {
					t.Fatalf("got %v, want %v", err, tc.want)
				}
				if err == nil && (id.Mechanism != auth.Bearer || id.Principal() == nil || len(id.Principal().ObjectID) != 36) {
					t.Errorf("identity %+v", id)
				}
				if tc.detail != "" && detail(err) != tc.detail {
					t.Errorf("detail %q, want %q", detail(err), tc.detail)
				}
				if err != nil && (strings.Contains(err.Error(), tc.token) || strings.Contains(detail(err), tc.token)) {
					t.Error("the refusal repeats the token")
				}
				var e *wire.Error
				if errors.As(err, &e) && e.Status == http.StatusUnauthorized &&
					(len(e.Headers) != 1 || !strings.HasPrefix(e.Headers[0].Value, "Bearer authorization_uri=https://")) {
					t.Errorf("challenge %v", e.Headers)
				}
			}
		})
	}
}

// A verified token is remembered for a while, and not beyond its own time.
func TestBearerCacheEnds(t *testing.T) {
	t.Parallel()
	is := issuer(t)
	a := authenticator(t, is)
	token, err := is.Token("app", auth.StorageAudience)
	check(t, err)
	for after, ok := range map[time.Duration]bool{0: true, time.Minute: true, 59 * time.Minute: true, time.Hour: false,
		-5 * time.Minute: true, -5*time.Minute - time.Second: false} {
		r := request(t, wire.Blob, "GET", "/"+account+"/c/b", "x-ms-version", "2021-12-02", "Authorization", "Bearer "+token)
		r.Now = now
		if _, err := a.Authenticate(r); err != nil {
			t.Fatal(err)
		}
		r.Now = now.Add(after)
		if _, err := a.Authenticate(r); (err == nil) != ok {
			t.Errorf("after %v: %v", after, err)
		}
	}
}

// What each role permits, by operation kind. The columns are the reference's: which action an operation needs.
func TestRoles(t *testing.T) {
	t.Parallel()
	type row struct {
		name string
		svc  wire.Service
		path string
		need auth.Need
		// who may
		roles string
	}
	for _, tc := range []row{
		{"list containers", wire.Blob, "", auth.Need{On: auth.OnService, Any: "l"}, "Reader Contributor Owner Manager"},
		{"blob service properties", wire.Blob, "", auth.Need{On: auth.OnService, Any: "r", Bearer: auth.Management},
			"Manager"},
		{"queue service properties", wire.Queue, "", auth.Need{On: auth.OnService, Any: "w", Bearer: auth.Management},
			"Manager"},
		{"table service properties", wire.Table, "", auth.Need{On: auth.OnService, Any: "w", Bearer: auth.Management},
			"Manager"},
		{"find blobs by tags", wire.Blob, "", auth.Need{On: auth.OnService, Any: "f"}, "Owner"},
		{"user delegation key", wire.Blob, "", auth.Need{On: auth.OnService, Bearer: auth.DelegationKey},
			"Reader Contributor Owner Delegator Manager"},
		{"create container", wire.Blob, "/c?restype=container",
			auth.Need{On: auth.OnContainer, Any: "cw", AccountSASOnly: true}, "Contributor Owner Manager"},
		{"container properties", wire.Blob, "/c?restype=container", auth.Need{On: auth.OnContainer, Any: "r"},
			"Reader Contributor Owner Manager"},
		{"container access policy", wire.Blob, "/c?restype=container",
			auth.Need{On: auth.OnContainer, Bearer: auth.AccessPolicy}, "Owner Manager"},
		{"an operation without a rule", wire.Blob, "/c?restype=container", auth.Need{On: auth.OnContainer}, ""},
		{"list blobs", wire.Blob, "/c?restype=container", auth.Need{On: auth.OnContainer, Any: "l"},
			"Reader Contributor Owner"},
		{"get blob", wire.Blob, "/c/b", auth.Need{On: auth.OnObject, Any: "r"}, "Reader Contributor Owner"},
		{"put blob", wire.Blob, "/c/b", auth.Need{On: auth.OnObject, Any: "cw"}, "Contributor Owner"},
		{"delete blob", wire.Blob, "/c/b", auth.Need{On: auth.OnObject, Any: "d"}, "Contributor Owner"},
		{"delete version", wire.Blob, "/c/b", auth.Need{On: auth.OnObject, Any: "x"}, "Owner"},
		{"set tags", wire.Blob, "/c/b", auth.Need{On: auth.OnObject, Any: "t"}, "Owner"},
		{"list queues", wire.Queue, "", auth.Need{On: auth.OnService, Any: "l"}, "Reader Contributor Manager"},
		{"create queue", wire.Queue, "/c", auth.Need{On: auth.OnContainer, Any: "cw"}, "Contributor Manager"},
		{"put message", wire.Queue, "/c/messages", auth.Need{On: auth.OnObject, Any: "a"}, "Contributor Sender"},
		{"get messages", wire.Queue, "/c/messages", auth.Need{On: auth.OnObject, Any: "p"}, "Contributor Processor"},
		{"peek messages", wire.Queue, "/c/messages", auth.Need{On: auth.OnObject, Any: "r"}, "Reader Contributor Processor"},
		{"update message", wire.Queue, "/c/messages/1", auth.Need{On: auth.OnObject, Any: "u"}, "Contributor"},
		{"query tables", wire.Table, "/Tables", auth.Need{On: auth.OnContainer, Any: "l"}, "Reader Contributor Manager"},
		{"create table", wire.Table, "/Tables", auth.Need{On: auth.OnContainer, Any: "c"}, "Contributor Manager"},
		{"query entities", wire.Table, "/c()", auth.Need{On: auth.OnObject, Any: "r"}, "Reader Contributor"},
		{"insert entity", wire.Table, "/c", auth.Need{On: auth.OnObject, Any: "a"}, "Contributor"},
		{"upsert entity", wire.Table, "/c", auth.Need{On: auth.OnObject, All: "au"}, "Contributor"},
		{"table access policy", wire.Table, "/c", auth.Need{On: auth.OnContainer}, ""},
	} {
		for _, role := range auth.RoleNames() {
			last := role[strings.LastIndexByte(role, ' ')+1:]
			mine := strings.Contains(strings.ToLower(role), " "+tc.svc.String()+" ")
			if role == "Storage Account Contributor" { // of every service
				last, mine = "Manager", true
			}
			may := mine && strings.Contains(tc.roles, last)
			above := tc.need.On == auth.OnService || strings.HasPrefix(tc.path, "/Tables")
			for scope, covers := range map[string]bool{account: true, "*": true, account + "/c": !above, account + "/d": false,
				"otheraccount": false} {
				if tc.svc == wire.Blob && last == "Delegator" && scope != account && scope != "*" {
					covers = false
				}
				is := issuer(t)
				a := authenticator(t, is, auth.Assignment{Principal: "me", Role: role, Scope: scope})
				for _, who := range []string{"me", "you"} {
					token, err := is.Token(who, auth.StorageAudience)
					check(t, err)
					id, err := a.Authenticate(request(t, tc.svc, "GET", "/"+account+tc.path, "x-ms-version", "2021-12-02",
						"Authorization", "Bearer "+token))
					check(t, err)
					err = id.Check(tc.svc, tc.need)
					want := may && covers && who == "me"
					if (err == nil) != want || err != nil && !errors.Is(err, wire.ErrAuthorizationPermissionMismatch) {
						t.Errorf("%s, %s on %s, as %s: got %v, want allowed %v", tc.name, role, scope, who, err, want)
					}
				}
			}
		}
	}
}

func TestAssignmentsAreChecked(t *testing.T) {
	t.Parallel()
	for _, a := range []auth.Assignment{
		{Principal: "me", Role: "Owner", Scope: account},
		{Principal: "", Role: "Storage Blob Data Reader", Scope: account},
		{Principal: "me", Role: "Storage Blob Data Reader", Scope: ""},
		{Principal: "me", Role: "Storage Blob Data Reader", Scope: "Account!"},
		{Principal: "me", Role: "Storage Blob Data Reader", Scope: account + "/c/b"},
	} {
		if _, err := auth.NewRoles(a); err == nil {
			t.Errorf("%+v is taken", a)
		}
	}
}

// At looks at another resource than the path's: parts of a batch.
func TestAt(t *testing.T) {
	t.Parallel()
	is := issuer(t)
	a := authenticator(t, is, auth.Assignment{Principal: "me", Role: "storage table data contributor",
		Scope: account + "/Mine"})
	token, err := is.Token("me", auth.StorageAudience)
	check(t, err)
	id, err := a.Authenticate(request(t, wire.Table, "POST", "/"+account+"/$batch", "x-ms-version", "2021-12-02",
		"Authorization", "Bearer "+token))
	check(t, err)
	need := auth.Need{On: auth.OnObject, Any: "a"}
	if id.Holds(need) == nil {
		t.Error("a role for one table permits a batch as such")
	}
	if err := id.At("mine").Holds(need); err != nil {
		t.Error(err)
	}
	if id.At("other").Holds(need) == nil {
		t.Error("a role for one table permits another")
	}
}

func TestRequireHTTPS(t *testing.T) {
	t.Parallel()
	a := &auth.Authenticator{Accounts: auth.Development(), RequireHTTPS: true}
	r := request(t, wire.Blob, "GET", "/"+account+"/c/b")
	if _, err := a.Authenticate(r); !errors.Is(err, auth.ErrAccountRequiresHTTPS) {
		t.Errorf("got %v", err)
	}
	r.HTTP.TLS = &tls.ConnectionState{}
	if _, err := a.Authenticate(r); err != nil {
		t.Errorf("got %v", err)
	}
	r.HTTP.TLS = nil
	for _, from := range []string{"pipe", "127.0.0.1:0"} {
		r.HTTP.RemoteAddr = from
		if _, err := a.Authenticate(r); err != nil {
			t.Errorf("from within the process, %s: %v", from, err)
		}
	}
}

func BenchmarkBearer(b *testing.B) {
	is := issuer(b)
	a := authenticator(b, is, auth.Assignment{Principal: "app", Role: "Storage Blob Data Contributor", Scope: account})
	token, err := is.Token("app", auth.StorageAudience)
	check(b, err)
	r := request(b, wire.Blob, "GET", "/"+account+"/container/blob", "x-ms-version", "2021-12-02", "Authorization",
		"Bearer "+token)
	need := auth.Need{On: auth.OnObject, Any: "r"}
	b.ReportAllocs()
	for b.Loop() {
		id, err := a.Authenticate(r)
		if err == nil {
			err = id.Check(wire.Blob, need)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// Whatever a token is, it lets no caller in, and nothing but a protocol error comes out.
func FuzzBearer(f *testing.F) {
	is := issuer(f)
	good, err := is.Token("app", auth.StorageAudience)
	check(f, err)
	f.Add(good[:len(good)-2])
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add("..")
	a := authenticator(f, is)
	f.Fuzz(func(t *testing.T, token string) {
		defer workbudget.Default.Start(t, len(token))()
		if token == good {
			return
		}
		r := request(t, wire.Blob, "GET", "/"+account+"/c/b", "x-ms-version", "2021-12-02")
		r.HTTP.Header["Authorization"] = []string{"Bearer " + token}
		_, err := a.Authenticate(r)
		var e *wire.Error
		if err == nil || !errors.As(err, &e) || e.Status >= 500 {
			t.Fatalf("%q: %v", token, err)
		}
	})
}

func FuzzParseJWKS(f *testing.F) {
	f.Add(
		`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"","y":""},{"kty":"OKP","crv":"Ed25519","x":"AA"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if set, err := auth.ParseJWKS([]byte(text)); (err == nil) != (len(set) > 0) {
			t.Fatalf("%d keys, %v", len(set), err)
		}
	})
}
