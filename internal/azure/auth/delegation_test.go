package auth_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver"
	"github.com/lazuli-storage/lazuli/internal/server/devissuer"
)

// credential is a token credential of the SDK over the development issuer.
type credential struct {
	is     *devissuer.Issuer
	client string
}

func (c credential) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := c.is.Token(c.client, auth.StorageAudience)
	return azcore.AccessToken{Token: token, ExpiresOn: time.Now().Add(time.Hour)}, err
}

type keyCall struct {
	*wire.Request
	id *auth.Identity
}

// serveKeys serves Get User Delegation Key alone and returns the service's address.
func serveKeys(t *testing.T, svc wire.Service, a *auth.Authenticator) string {
	t.Helper()
	type none struct{}
	f := frontend.New(frontend.Config[none, *keyCall]{
		Service: svc,
		Operations: []frontend.Operation[none,
			*keyCall]{{Name: "GetUserDelegationKey", Method: "POST", On: "service", Comp: "userdelegationkey",
			Restype: "service", Needs: auth.Need{On: auth.OnService, Bearer: auth.DelegationKey},
			Do: func(_ none, c *keyCall) error { return auth.GetUserDelegationKey(c.Request, *c.id, a.Accounts) }}},
		Resolve: func(_ none, r *wire.Request) (*keyCall, frontend.Level, error) {
			return &keyCall{r, new(auth.Identity)}, "service", nil
		},
		Render: wire.RenderXML,
		Admit: func(_ none, c *keyCall, id auth.Identity, _ auth.Need) error {
			*c.id = id
			return nil
		},
		Common: frontend.Common{Accounts: a.Accounts, OAuth: a.OAuth, Log: slog.New(slog.DiscardHandler),
			Now: func() time.Time { return now }},
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	server := httpserver.New(f, slog.New(slog.DiscardHandler), 0)
	go func() { _ = httpserver.Serve(server, l, httpserver.Options{}) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + l.Addr().String() + "/" + account
}

func ptr[T any](v T) *T { return &v }

// delegator gets a key through the Go SDK, which takes the account's name from the host.
func delegator(t *testing.T, a *auth.Authenticator, is *devissuer.Issuer,
	client string) *service.UserDelegationCredential {
	t.Helper()
	u, err := url.Parse(serveKeys(t, wire.Blob, a))
	check(t, err)
	transport := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network,
		_ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, u.Host)
	}}}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := service.NewClient("http://"+account+".blob.localhost:"+u.Port(), credential{is, client},
		&service.ClientOptions{ClientOptions: policy.ClientOptions{
			InsecureAllowCredentialWithHTTP: true, Retry: policy.RetryOptions{MaxRetries: -1}, Transport: transport}})
	check(t, err)
	udc, err := c.GetUserDelegationCredential(t.Context(),
		service.KeyInfo{Start: ptr(now.Format(sas.TimeFormat)), Expiry: ptr(now.Add(24 * time.Hour).Format(sas.TimeFormat))},
		nil)
	check(t, err)
	return udc
}

func TestUserDelegationSAS(t *testing.T) {
	t.Parallel()
	is := issuer(t)
	a := authenticator(t, is, auth.Assignment{Principal: "reader", Role: "Storage Blob Data Reader", Scope: account},
		auth.Assignment{Principal: "writer", Role: "Storage Blob Data Contributor", Scope: account},
		auth.Assignment{Principal: "owner", Role: "Storage Blob Data Owner", Scope: account})
	reader, writer := delegator(t, a, is, "reader"), delegator(t, a, is, "writer")
	owner := delegator(t, a, is, "owner")
	read, write := auth.Need{On: auth.OnObject, Any: "r", Record: true}, auth.Need{On: auth.OnObject, Any: "w"}
	expiry := now.Add(time.Hour)
	bound := auth.ObjectID("guest")

	for _, tc := range []struct {
		name   string
		by     *service.UserDelegationCredential
		v      sas.BlobSignatureValues
		target string
		change func(url.Values)
		header []string
		at     time.Duration
		need   auth.Need
		want   error
	}{
		{name: "blob", by: reader, v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r"}, target: "/c/b", need: read},
		{name: "container", by: reader, v: sas.BlobSignatureValues{Permissions: "rl"}, target: "/c/b", need: read},
		{name: "directory", by: reader, v: sas.BlobSignatureValues{Directory: "x/y", Permissions: "r"}, target: "/c/x/y/z",
			need: read},
		{name: "outside the directory", by: reader, v: sas.BlobSignatureValues{Directory: "x/y", Permissions: "r"},
			target: "/c/x/z/y", need: read, want: wire.ErrAuthenticationFailed},
		{name: "for another user, without the right to", by: writer,
			v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r", AuthorizedObjectID: "y"}, target: "/c/b", need: read,
			want: wire.ErrAuthorizationPermissionMismatch},
		{name: "snapshot, override and correlation", by: owner,
			v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r", SnapshotTime: now, ContentType: "text/html",
				CorrelationID: "x", AuthorizedObjectID: "y"}, target: "/c/b?snapshot=" + wire.FormatISO7(now), need: read},
		{name: "more than the token", by: writer, v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r"}, target: "/c/b",
			need: write, want: wire.ErrAuthorizationPermissionMismatch},
		{name: "more than the role", by: reader, v: sas.BlobSignatureValues{BlobName: "b", Permissions: "rw"}, target: "/c/b",
			need: write, want: wire.ErrAuthorizationPermissionMismatch},
		{name: "both", by: writer, v: sas.BlobSignatureValues{BlobName: "b", Permissions: "rw"}, target: "/c/b", need: write},
		{name: "another blob", by: writer, v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r"}, target: "/c/d",
			need: read, want: wire.ErrAuthenticationFailed},
		{name: "another signer", by: reader, v: sas.BlobSignatureValues{BlobName: "b", Permissions: "rw"}, target: "/c/b",
			change: set("skoid", auth.ObjectID("writer")), need: write, want: wire.ErrAuthenticationFailed},
		{name: "a longer key", by: reader, v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r"}, target: "/c/b",
			change: set("ske", now.Add(48*time.Hour).Format(sas.TimeFormat)), need: read, want: wire.ErrAuthenticationFailed},
		{name: "another service", by: reader, v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r"}, target: "/c/b",
			change: set("sks", "q"), need: read, want: wire.ErrAuthenticationFailed},
		{name: "another tenant", by: reader, v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r"}, target: "/c/b",
			change: set("sktid", "x"), need: read, want: wire.ErrAuthenticationFailed},
		{name: "expired key", by: reader,
			v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r", ExpiryTime: now.Add(72 * time.Hour)}, at: 25 * time.Hour,
			target: "/c/b", need: read, want: wire.ErrAuthenticationFailed},
		{name: "expired token", by: reader, v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r"}, at: 2 * time.Hour,
			target: "/c/b", need: read, want: wire.ErrAuthenticationFailed},
		{name: "a policy", by: reader, v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r"}, change: set("si", "p"),
			target: "/c/b", need: read, want: wire.ErrAuthenticationFailed},
		{name: "unauthorized object", by: reader,
			v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r", UnauthorizedObjectID: "x"}, target: "/c/b", need: read,
			want: wire.ErrAuthenticationFailed},
		{name: "signed request", by: reader,
			v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r", Version: "2026-04-06",
				SignedRequestHeaders:         map[string]string{"x-ms-range": "bytes=0-1"},
				SignedRequestQueryParameters: map[string]string{"timeout": "5"}}, target: "/c/b?timeout=5",
			header: []string{"x-ms-range", "bytes=0-1"}, need: read},
		{name: "signed request, another header", by: reader,
			v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r", Version: "2026-04-06",
				SignedRequestHeaders: map[string]string{"x-ms-range": "bytes=0-1"}},
			target: "/c/b", header: []string{"x-ms-range", "bytes=0-2"}, need: read, want: wire.ErrAuthenticationFailed},
		{name: "bound to a user", by: reader,
			v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r", Version: "2026-04-06",
				SignedDelegatedUserObjectID: bound}, target: "/c/b", header: []string{"Authorization", "guest"}, need: read},
		{name: "bound to another user", by: reader,
			v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r", Version: "2026-04-06",
				SignedDelegatedUserObjectID: bound}, target: "/c/b", header: []string{"Authorization", "reader"}, need: read,
			want: wire.ErrAuthenticationFailed},
		{name: "bound to a user of another tenant", by: reader,
			v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r", Version: "2026-04-06",
				SignedDelegatedUserObjectID: bound}, change: set("skdutid", "x"), target: "/c/b",
			header: []string{"Authorization", "guest"}, need: read, want: wire.ErrAuthenticationFailed},
		{name: "bound, and nobody comes", by: reader,
			v: sas.BlobSignatureValues{BlobName: "b", Permissions: "r", Version: "2026-04-06",
				SignedDelegatedUserObjectID: bound}, target: "/c/b", need: read, want: wire.ErrAuthenticationFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.v.ContainerName, tc.v.Version = "c", orElse(tc.v.Version, "2026-04-06")
			if tc.v.ExpiryTime.IsZero() {
				tc.v.ExpiryTime = expiry
			}
			p, err := tc.v.SignWithUserDelegation(tc.by)
			check(t, err)
			q, err := url.ParseQuery(p.Encode())
			check(t, err)
			if tc.change != nil {
				tc.change(q)
			}
			path, query, _ := strings.Cut(tc.target, "?")
			header := tc.header
			if len(header) == 2 && header[0] == "Authorization" {
				token, err := is.Token(header[1], auth.StorageAudience)
				check(t, err)
				header = []string{"Authorization", "Bearer " + token, "x-ms-version", "2026-04-06"}
			}
			r := request(t, wire.Blob, "GET", "/"+account+path+"?"+strings.Trim(query+"&"+q.Encode(), "&"), header...)
			r.Now = now.Add(tc.at)
			id, err := a.Authenticate(r)
			if err == nil {
				err = id.Check(wire.Blob, tc.need)
			}
			if (err == nil) != (tc.want == nil) || !errors.Is(err, tc.want) {
				t.Fatalf("got %v (%s), want %v", err, detail(err), tc.want)
			}
		})
	}

	t.Run("dies with the account's key", func(t *testing.T) {
		p, err := sas.BlobSignatureValues{ContainerName: "c", Permissions: "r", ExpiryTime: expiry,
			Version: "2021-12-02"}.SignWithUserDelegation(reader)
		_ = p
		check(t, err)
		_, k, err := auth.GenerateKey()
		check(t, err)
		other, err := auth.NewAccounts(auth.Account{Name: account, Keys: []auth.Key{k}})
		check(t, err)
		b := &auth.Authenticator{Accounts: other, OAuth: a.OAuth}
		if _, err := b.Authenticate(request(t, wire.Blob, "GET", "/"+account+"/c/b?"+p.Encode())); !errors.Is(err,
			wire.ErrAuthenticationFailed) {
			t.Errorf("got %v", err)
		}
	})
}

func orElse(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func set(name, value string) func(url.Values) { return func(q url.Values) { q.Set(name, value) } }

// Of the official SDKs, Go's signs the lines of saoid, suoid and scid for queues, and JavaScript's leaves them out.
func TestUserDelegationSASForQueues(t *testing.T) {
	t.Parallel()
	is := issuer(t)
	a := authenticator(t, is, auth.Assignment{Principal: "p", Role: "Storage Queue Data Message Processor",
		Scope: account})
	token, err := is.Token("p", auth.StorageAudience)
	check(t, err)
	id, err := a.Authenticate(request(t, wire.Queue, "GET", "/"+account, "x-ms-version", "2025-07-05", "Authorization",
		"Bearer "+token))
	check(t, err)
	k, err := auth.NewUserDelegationKey(a.Accounts.Get(account), id, wire.Queue, "2025-07-05", now, now.Add(time.Hour),
		now, "")
	check(t, err)
	const expiry = "2026-03-04T06:00:00Z"
	for name, middle := range map[string]string{"Go": "\n\n\n\n\n", "JavaScript": "\n\n"} {
		t.Run(name, func(t *testing.T) {
			message := "pa\n\n" + expiry + "\n/queue/" + account + "/q\n" + k.ObjectID + "\n" + k.TenantID + "\n" + k.Start +
				"\n" + k.Expiry +
				"\nq\n2025-07-05\n" + middle + "\nhttps,http\n2025-07-05"
			value, err := base64.StdEncoding.DecodeString(k.Value)
			check(t, err)
			mac := hmac.New(sha256.New, value)
			mac.Write([]byte(message))
			q := url.Values{"sp": {"pa"}, "se": {expiry}, "skoid": {k.ObjectID}, "sktid": {k.TenantID}, "skt": {k.Start},
				"ske": {k.Expiry}, "sks": {"q"},
				"skv": {"2025-07-05"}, "spr": {"https,http"}, "sv": {"2025-07-05"},
				"sig": {base64.StdEncoding.EncodeToString(mac.Sum(nil))}}
			id, err := a.Authenticate(request(t, wire.Queue, "GET", "/"+account+"/q/messages?"+q.Encode()))
			check(t, err)
			if err := id.Check(wire.Queue, auth.Need{On: auth.OnObject, Any: "p"}); err != nil {
				t.Error(err)
			}
			if err := id.Check(wire.Queue, auth.Need{On: auth.OnObject, Any: "a"}); !errors.Is(err,
				wire.ErrAuthorizationPermissionMismatch) {
				t.Errorf("more than the role: %v", err)
			}
			if _, err := a.Authenticate(request(t, wire.Queue, "GET", "/"+account+"/q2/messages?"+q.Encode())); !errors.Is(err,
				wire.ErrAuthenticationFailed) {
				t.Errorf("another queue: %v", err)
			}
		})
	}
}

func TestGetUserDelegationKeyRefusals(t *testing.T) {
	t.Parallel()
	is := issuer(t)
	a := authenticator(t, is, auth.Assignment{Principal: "me", Role: "Storage Blob Delegator", Scope: account})
	base := serveKeys(t, wire.Blob, a)
	info := func(start, expiry time.Time) string {
		return "<KeyInfo><Start>" + start.Format(time.RFC3339) + "</Start><Expiry>" + expiry.Format(time.RFC3339) +
			"</Expiry></KeyInfo>"
	}
	for _, tc := range []struct {
		name, who, body string
		status          int
		code            string
	}{
		{"good", "me", info(now, now.Add(auth.MaxDelegation)), 200, ""},
		{"without a start", "me", "<KeyInfo><Expiry>2026-03-05</Expiry></KeyInfo>", 200, ""},
		{"too long", "me", info(now, now.Add(auth.MaxDelegation+time.Second)), 400, "InvalidXmlNodeValue"},
		{"past", "me", info(now.Add(-time.Hour), now), 400, "InvalidXmlNodeValue"},
		{"backwards", "me", info(now.Add(2*time.Hour), now.Add(time.Hour)), 400, "InvalidXmlNodeValue"},
		{"no times", "me", "<KeyInfo/>", 400, "InvalidXmlNodeValue"},
		{"not XML", "me", "{}", 400, "InvalidXmlDocument"},
		{"entities", "me", `<!DOCTYPE k [<!ENTITY a "2026-03-05">]><KeyInfo><Expiry>&a;</Expiry></KeyInfo>`, 400,
			"InvalidXmlDocument"},
		{"too large", "me", "<KeyInfo><Expiry>" + strings.Repeat("x", 20<<10) + "</Expiry></KeyInfo>", 413,
			"RequestBodyTooLarge"},
		{"without a role", "you", info(now, now.Add(time.Hour)), 403, "AuthorizationPermissionMismatch"},
		{"anonymous", "", info(now, now.Add(time.Hour)), 401, "NoAuthenticationInformation"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hr, err := http.NewRequest("POST", base+"?restype=service&comp=userdelegationkey", strings.NewReader(tc.body))
			check(t, err)
			hr.Header.Set("x-ms-version", "2021-12-02")
			if tc.who != "" {
				token, err := is.Token(tc.who, auth.StorageAudience)
				check(t, err)
				hr.Header.Set("Authorization", "Bearer "+token)
			}
			resp, err := http.DefaultClient.Do(hr)
			check(t, err)
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tc.status || resp.Header.Get("x-ms-error-code") != tc.code {
				t.Fatalf("got %d %s, want %d %s: %s", resp.StatusCode, resp.Header.Get("x-ms-error-code"), tc.status, tc.code, body)
			}
			if tc.status == 200 {
				var key struct{ SignedOid, SignedTid, SignedStart, SignedExpiry, SignedService, SignedVersion, Value string }
				check(t, xml.Unmarshal(body[3:], &key))
				if key.SignedOid != auth.ObjectID("me") || key.SignedService != "b" || key.SignedVersion != "2021-12-02" ||
					len(key.Value) != 44 {
					t.Errorf("key %+v", key)
				}
			}
		})
	}
	t.Run("account key", func(t *testing.T) {
		id := auth.Identity{Mechanism: auth.SharedKey}
		if err := id.Check(wire.Blob, auth.Need{On: auth.OnService, Bearer: auth.DelegationKey}); !errors.Is(err,
			wire.ErrAuthenticationFailed) {
			t.Errorf("got %v", err)
		}
	})
}

// Without the issuer, a key that was given out before is worth nothing.
func TestDelegationNeedsOAuth(t *testing.T) {
	t.Parallel()
	r := request(t, wire.Blob, "GET",
		"/"+account+"/c/b?sv=2021-12-02&sr=c&sp=r&se=2030-01-01&skoid=x&sktid=x&skt=x&ske=x&sks=b&skv=x&sig=AAAA")
	if _, err := (&auth.Authenticator{Accounts: auth.Development()}).Authenticate(r); !errors.Is(err,
		wire.ErrAuthenticationFailed) {
		t.Errorf("got %v", err)
	}
}
