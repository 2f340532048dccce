package auth

import (
	"bufio"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// authenticate finds out who sends r, where there are account keys and nothing else.
func authenticate(r *wire.Request, accounts *Accounts) (Identity, error) {
	a := Authenticator{Accounts: accounts}
	return a.Authenticate(r)
}

// parse reads a request head as a server does.
func parse(t testing.TB, svc wire.Service, now time.Time, head string) *wire.Request {
	t.Helper()
	hr, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	r, err := wire.Parse(svc, hr, httptest.NewRecorder(), now, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The strings to sign of the reference's own examples, and of the cases that it describes in words.
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
func TestStringToSign(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		svc  wire.Service
		lite bool
		head string
		want string
	}{
		{"get container metadata", wire.Blob, false,
			"GET /mycontainer?comp=metadata&restype=container&timeout=20 HTTP/1.1\nHost: myaccount.blob.core.windows.net\n" +
				"x-ms-date: Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version: 2015-02-21",
			"GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n" +
				"/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20"},
		{"list blobs with equal and upper-case parameters", wire.Blob, false,
			"GET /mycontainer?restype=container&comp=list&include=snapshots&include=metadata&Include=uncommittedblobs HTTP/1.1\n" +
				"Host: myaccount.blob.core.windows.net\nx-ms-version: 2015-02-21\nDate: Fri, 26 Jun 2015 23:39:12 GMT",
			"GET\n\n\n\n\n\nFri, 26 Jun 2015 23:39:12 GMT\n\n\n\n\n\nx-ms-version:2015-02-21\n" +
				"/myaccount/mycontainer\ncomp:list\ninclude:metadata,snapshots,uncommittedblobs\nrestype:container"},
		{"put blob signs its length", wire.Blob, false,
			"PUT /mycontainer/hello.txt HTTP/1.1\nHost: myaccount.blob.core.windows.net\nx-ms-version: 2015-02-21\n" +
				"x-ms-date: Fri, 26 Jun 2015 23:39:12 GMT\nContent-Type: text/plain; charset=UTF-8\nContent-Length: 11\n" +
				"x-ms-blob-type: BlockBlob\nx-ms-meta-m1:  v1 \nx-ms-meta-m2: v2",
			"PUT\n\n\n11\n\ntext/plain; charset=UTF-8\n\n\n\n\n\n\nx-ms-blob-type:BlockBlob\n" +
				"x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-meta-m1:v1\nx-ms-meta-m2:v2\nx-ms-version:2015-02-21\n" +
				"/myaccount/mycontainer/hello.txt"},
		{"an empty body is signed as nothing from 2015-02-21", wire.Blob, false,
			"PUT /c?restype=container HTTP/1.1\nHost: myaccount.blob.core.windows.net\nx-ms-version: " +
				"2015-02-21\nContent-Length: 0",
			"PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-version:2015-02-21\n/myaccount/c\nrestype:container"},
		{"an empty body is signed as 0 before", wire.Blob, false,
			"PUT /c?restype=container HTTP/1.1\nHost: myaccount.blob.core.windows.net\nx-ms-version: " +
				"2014-02-14\nContent-Length: 0",
			"PUT\n\n\n0\n\n\n\n\n\n\n\n\nx-ms-version:2014-02-14\n/myaccount/c\nrestype:container"},
		{"a path-style address repeats the account", wire.Queue, false,
			"GET /devstoreaccount1/q/messages?numofmessages=32 HTTP/1.1\nHost: 127.0.0.1:10001\nx-ms-version: 2015-02-21",
			"GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-version:2015-02-21\n/devstoreaccount1/devstoreaccount1/q/messages\nnumofmessages:32"},
		{"the path is signed as sent, values are decoded", wire.Blob, false,
			"GET /c/a%20b%2Fc?prefix=x%2Fy&Marker=a+b HTTP/1.1\nHost: myaccount.blob.core.windows.net\nx-ms-version: 2015-02-21",
			"GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-version:2015-02-21\n/myaccount/c/a%20b%2Fc\nmarker:a b\nprefix:x/y"},
		{"blob, lite", wire.Blob, true,
			"PUT /mycontainer/hello.txt?timeout=5 HTTP/1.1\nHost: testaccount1.blob.core.windows.net\nContent-Length: 11\n" +
				"Content-Type: text/plain; charset=UTF-8\nx-ms-date: Sun, 20 Sep 2009 20:36:40 GMT\nx-ms-meta-m1: " +
				"v1\nx-ms-meta-m2: v2",
			"PUT\n\ntext/plain; charset=UTF-8\n\nx-ms-date:Sun, 20 Sep 2009 20:36:40 GMT\nx-ms-meta-m1:v1\nx-ms-meta-m2:v2\n" +
				"/testaccount1/mycontainer/hello.txt"},
		{"table", wire.Table, false,
			"GET /Tables?comp=acl&timeout=3 HTTP/1.1\nHost: testaccount1.table.core.windows.net\nx-ms-version: 2015-02-21\n" +
				"x-ms-date: Sun, 11 Oct 2009 19:52:39 GMT\nContent-Type: application/json",
			"GET\n\napplication/json\nSun, 11 Oct 2009 19:52:39 GMT\n/testaccount1/Tables?comp=acl"},
		{"table, lite", wire.Table, true,
			"GET /Tables HTTP/1.1\nHost: testaccount1.table.core.windows.net\nDate: Sun, 11 Oct 2009 19:52:39 GMT",
			"Sun, 11 Oct 2009 19:52:39 GMT\n/testaccount1/Tables"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := parse(t, tc.svc, time.Now(), tc.head)
			if got := string(appendStringToSign(nil, r, r.Account, usualForm(r, tc.lite))); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	accounts := Development()
	key := accounts.Get(DevelopmentAccount).Keys[0]
	sign := func(r *wire.Request, lite bool) string {
		return base64Signature(key, appendStringToSign(nil, r, DevelopmentAccount, usualForm(r, lite)))
	}
	for _, tc := range []struct {
		name   string
		change func(r *wire.Request)
		date   time.Time
		path   string
		want   error
	}{
		{name: "good"},
		{name: "fifteen minutes late", date: now.Add(-MaxSkew)},
		{name: "later", date: now.Add(-MaxSkew - time.Second), want: wire.ErrAuthenticationFailed},
		{name: "early", date: now.Add(MaxSkew + time.Second), want: wire.ErrAuthenticationFailed},
		{name: "another header", change: func(r *wire.Request) { r.HTTP.Header.Set("x-ms-meta-a", "b") },
			want: wire.ErrAuthenticationFailed},
		{name: "another method", change: func(r *wire.Request) { r.HTTP.Method = "DELETE" },
			want: wire.ErrAuthenticationFailed},
		{name: "another path", change: func(r *wire.Request) { r.URIPath += "x" }, want: wire.ErrAuthenticationFailed},
		{name: "another parameter", change: func(r *wire.Request) { r.Query = wire.Query{{Name: "a", Value: "b"}} },
			want: wire.ErrAuthenticationFailed},
		{name: "no date", change: func(r *wire.Request) { r.HTTP.Header.Del("x-ms-date") },
			want: wire.ErrAuthenticationFailed},
		{name: "scheme in another case", change: func(r *wire.Request) {
			scheme, credential, _ := strings.Cut(r.Header("Authorization"), " ")
			r.HTTP.Header.Set("Authorization", strings.ToLower(scheme)+" "+credential)
		}},
		{name: "no signature", change: authorization("SharedKey devstoreaccount1:"), want: wire.ErrInvalidAuthenticationInfo},
		{name: "no account", change: authorization("SharedKey :AAAA"), want: wire.ErrInvalidAuthenticationInfo},
		{name: "unknown scheme", change: authorization("Digest devstoreaccount1:AAAA"),
			want: wire.ErrInvalidAuthenticationInfo},
		{name: "another account's name", change: authorization("SharedKey other:AAAA"), want: wire.ErrAuthenticationFailed},
		{name: "binary signature", change: authorization("SharedKey devstoreaccount1:\x00\xff<script>"),
			want: wire.ErrAuthenticationFailed},
		{name: "unknown account", path: "/unknown/c", want: wire.ErrAuthenticationFailed},
		{name: "unknown account, no credential", path: "/unknown/c",
			change: func(r *wire.Request) { r.HTTP.Header.Del("Authorization") },
			want:   wire.ErrAuthenticationFailed},
		{name: "secondary", path: "/devstoreaccount1-secondary/c"},
	} {
		for _, lite := range []bool{false, true} {
			t.Run(tc.name, func(t *testing.T) {
				date, path := tc.date, tc.path
				if date.IsZero() {
					date = now
				}
				if path == "" {
					path = "/devstoreaccount1/c"
				}
				r := parse(t, wire.Blob, now, "GET "+path+
					"?comp=list HTTP/1.1\nHost: 127.0.0.1\nx-ms-version: 2021-12-02\nx-ms-date: "+wire.FormatRFC1123(date))
				scheme := map[bool]string{false: "SharedKey ", true: "SharedKeyLite "}[lite]
				r.HTTP.Header.Set("Authorization", scheme+DevelopmentAccount+":"+sign(r, lite))
				if tc.change != nil {
					tc.change(r)
				}
				id, err := authenticate(r, accounts)
				if lite && tc.name == "another parameter" { // which this form does not sign
					return
				}
				if !errors.Is(err, tc.want) {
					t.Fatalf("got %v, want %v", err, tc.want)
				}
				if tc.want == nil && id.Mechanism != SharedKey {
					t.Errorf("identity %v", id)
				}
				if err != nil && strings.Contains(err.Error(),
					base64Signature(key, appendStringToSign(nil, r, DevelopmentAccount, usualForm(r, lite)))) {
					t.Error("the error tells the right signature")
				}
			})
		}
	}
}

func authorization(value string) func(*wire.Request) {
	return func(r *wire.Request) { r.HTTP.Header.Set("Authorization", value) }
}

func BenchmarkAuthenticate(b *testing.B) {
	now := time.Now()
	accounts := Development()
	r := parse(b, wire.Blob, now, "PUT /devstoreaccount1/container/blob?comp=block&blockid=AAAA HTTP/1.1\nHost: "+
		"127.0.0.1\n"+
		"x-ms-version: 2021-12-02\nx-ms-blob-type: BlockBlob\nx-ms-client-request-id: 1\nContent-Length: 4096\nx-ms-date: "+
		wire.FormatRFC1123(now))
	r.HTTP.Header.Set("Authorization", "SharedKey "+DevelopmentAccount+":"+
		base64Signature(accounts.Get(DevelopmentAccount).Keys[0],
			appendStringToSign(nil, r, DevelopmentAccount, usualForm(r, false))))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := authenticate(r, accounts); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzAuthorizationHeader(f *testing.F) {
	for _, s := range []string{"", "SharedKey", "SharedKey a:b", "SharedKeyLite devstoreaccount1:AAAA", "Bearer x", ":",
		" : "} {
		f.Add(s)
	}
	now := time.Now()
	accounts := Development()
	f.Fuzz(func(t *testing.T, s string) {
		defer workbudget.Default.Start(t, len(s))()
		r := parse(t, wire.Table, now,
			"GET /devstoreaccount1/Tables HTTP/1.1\nHost: 127.0.0.1\nx-ms-date: "+wire.FormatRFC1123(now))
		r.HTTP.Header["Authorization"] = []string{s}
		id, err := authenticate(r, accounts)
		if err == nil && id.Mechanism != Anonymous {
			t.Fatalf("%q is accepted as %v", s, id)
		}
		var e *wire.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%q: %v is not a protocol error", s, err)
		}
	})
}

func base64Signature(k Key, message []byte) string {
	return base64.StdEncoding.EncodeToString(k.Sign(nil, message))
}
