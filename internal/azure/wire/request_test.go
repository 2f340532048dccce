package wire

import (
	"bufio"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

func parse(t testing.TB, svc Service, o Options, head string) (*Request, error) {
	t.Helper()
	hr, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	return Parse(svc, hr, httptest.NewRecorder(), time.Unix(1700000000, 0), o)
}

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, host, uri     string
		account, path, base string
		secondary           bool
		pathStyle           bool
		err                 error
	}{
		{name: "path-style", host: "127.0.0.1:10000", uri: "/devstoreaccount1/c/b%2Fx", account: "devstoreaccount1",
			path: "/c/b%2Fx", base: "http://127.0.0.1:10000/devstoreaccount1"},
		{name: "path-style service", host: "localhost:10000", uri: "/devstoreaccount1?comp=list", account: "devstoreaccount1",
			base: "http://localhost:10000/devstoreaccount1"},
		{name: "path-style service with slash", host: "localhost:10000", uri: "/devstoreaccount1/",
			account: "devstoreaccount1", base: "http://localhost:10000/devstoreaccount1"},
		{name: "path-style secondary", host: "h", uri: "/acc-secondary/c", account: "acc", path: "/c", secondary: true,
			base: "http://h/acc-secondary"},
		{name: "slashes stay, dots are resolved", host: "h", uri: "/acc/c//a/../b/./", account: "acc", path: "/c//b/",
			base: "http://h/acc"},
		{name: "host-style", host: "acc.blob.localhost:10000", uri: "/c/b", account: "acc", path: "/c/b",
			base: "http://acc.blob.localhost:10000"},
		{name: "host-style service", host: "acc.blob.core.windows.net", uri: "/", account: "acc",
			base: "http://acc.blob.core.windows.net"},
		{name: "host-style secondary", host: "acc-secondary.blob.localhost", uri: "/c", account: "acc", path: "/c",
			secondary: true, base: "http://acc-secondary.blob.localhost"},
		{name: "host-style over IPv6", host: "acc-ipv6.blob.localhost", uri: "/c", account: "acc", path: "/c",
			base: "http://acc-ipv6.blob.localhost"},
		{name: "host-style over both networks", host: "acc-dualstack.blob.localhost", uri: "/c", account: "acc", path: "/c",
			base: "http://acc-dualstack.blob.localhost"},
		{name: "host-style secondary over IPv6", host: "acc-secondary-ipv6.blob.localhost", uri: "/c", account: "acc",
			path: "/c", secondary: true, base: "http://acc-secondary-ipv6.blob.localhost"},
		{name: "host-style secondary over both networks, in the other order", host: "acc-dualstack-secondary.blob.localhost",
			uri: "/c", account: "acc", path: "/c", secondary: true, base: "http://acc-dualstack-secondary.blob.localhost"},
		{name: "host of another service is a plain host", host: "acc.queue.localhost", uri: "/dev/c", account: "dev",
			path: "/c", base: "http://acc.queue.localhost/dev"},
		{name: "path-style only", host: "acc.blob.localhost", uri: "/dev/c", pathStyle: true, account: "dev", path: "/c",
			base: "http://acc.blob.localhost/dev"},
		{name: "absolute form", host: "h", uri: "http://h/acc/c", account: "acc", path: "/c", base: "http://h/acc"},
		{name: "no account", host: "h", uri: "/", err: ErrInvalidURI},
		{name: "account too short", host: "h", uri: "/ab/c", err: ErrInvalidURI},
		{name: "account with upper case", host: "h", uri: "/Acc/c", err: ErrInvalidURI},
		{name: "percent sign in the query that encodes nothing", host: "h", uri: "/acc/c?a=%f", account: "acc", path: "/c",
			base: "http://h/acc"},
		{name: "too many parameters", host: "h", uri: "/acc/c?" + strings.Repeat("a&", 200),
			err: ErrInvalidQueryParameterValue},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := parse(t, Blob, Options{PathStyle: tc.pathStyle}, "GET "+tc.uri+" HTTP/1.1\nHost: "+tc.host)
			if !errors.Is(err, tc.err) {
				t.Fatalf("got %v, want %v", err, tc.err)
			}
			if err != nil {
				return
			}
			if r.Account != tc.account || r.RawPath != tc.path || r.Base != tc.base || r.Secondary != tc.secondary {
				t.Errorf("got account %q path %q base %q secondary %v", r.Account, r.RawPath, r.Base, r.Secondary)
			}
		})
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sent         string
		want, strict Version // 0: refused
	}{
		{"2021-12-02", 20211202, 20211202},
		{"2021-12-03", 20211203, 0},
		{"2999-01-01", LatestVersion(), 0},
		{"2021-13-02", 0, 0},
		{"2021-1-2", 0, 0},
		{"20211202", 0, 0},
		{"1999-01-01", 0, 0},
		{"latest", 0, 0},
	} {
		for _, strict := range []bool{false, true} {
			want := tc.want
			if strict {
				want = tc.strict
			}
			r, err := parse(t, Blob, Options{StrictVersion: strict}, "GET /acc HTTP/1.1\nHost: h\nx-ms-version: "+tc.sent)
			if (err != nil) != (want == 0) || r.Version != want {
				t.Errorf("%s, strict %v: got %v, %v; want %v", tc.sent, strict, r.Version, err, want)
			}
			if err != nil && !errors.Is(err, ErrInvalidHeaderValue) {
				t.Errorf("%s: %v", tc.sent, err)
			}
		}
	}
	if got := Version(20211202).String(); got != "2021-12-02" {
		t.Errorf("String: %s", got)
	}
}

// same is errors.Is for which nil only equals nil.
func same(got, want error) bool { return (got == nil) == (want == nil) && errors.Is(got, want) }

func TestMetadata(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, head string
		want       string
		err        error
	}{
		{name: "none", want: ""},
		{name: "sorted and joined", head: "\nx-ms-meta-b: 2\nx-ms-meta-a: 1\nx-ms-meta-b: 3", want: "a=1;b=2,3;"},
		{name: "empty name", head: "\nx-ms-meta-: 1", err: ErrEmptyMetadataKey},
		{name: "dash", head: "\nx-ms-meta-a-b: 1", err: ErrInvalidMetadata},
		{name: "digit first", head: "\nx-ms-meta-1a: 1", err: ErrInvalidMetadata},
		{name: "underscore", head: "\nx-ms-meta-_1a: 1", want: "_1a=1;"},
		{name: "not UTF-8", head: "\nx-ms-meta-a: \xff", err: ErrInvalidMetadata},
		{name: "at the limit", head: "\nx-ms-meta-a: " + strings.Repeat("x", MetadataLimit-1),
			want: "a=" + strings.Repeat("x", MetadataLimit-1) + ";"},
		{name: "over the limit", head: "\nx-ms-meta-a: " + strings.Repeat("x", MetadataLimit), err: ErrMetadataTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := parse(t, Blob, Options{}, "PUT /acc/c HTTP/1.1\nHost: h"+tc.head)
			if err != nil {
				t.Fatal(err)
			}
			list, err := r.Metadata()
			if !same(err, tc.err) {
				t.Fatalf("got %v, want %v", err, tc.err)
			}
			var got strings.Builder
			for _, m := range list {
				got.WriteString(m.Name + "=" + m.Value + ";")
			}
			if got.String() != tc.want {
				t.Errorf("got %.80q, want %.80q", got.String(), tc.want)
			}
		})
	}
}

func TestReadBody(t *testing.T) {
	t.Parallel()
	const body = "0123456789"
	sum := contentMD5([]byte(body))
	for _, tc := range []struct {
		name, head string
		sent       string
		limit      int64
		want       error
	}{
		{"over the limit, asks first", "Content-Length: 10\r\nExpect: 100-continue", body, 9, ErrRequestBodyTooLarge},
		{"exact limit", "Content-Length: 10", body, 10, nil},
		{"over the limit", "Content-Length: 10", body, 9, ErrRequestBodyTooLarge},
		{"promises much", "Content-Length: 9000000000", body, 100, ErrRequestBodyTooLarge},
		{"shorter than promised", "Content-Length: 11", body, 100, ErrIncompleteBody},
		{"chunked", "Transfer-Encoding: chunked", "a\r\n" + body + "\r\n0\r\n\r\n", 10, nil},
		{"chunked over the limit", "Transfer-Encoding: chunked", "a\r\n" + body + "\r\n0\r\n\r\n", 9, ErrRequestBodyTooLarge},
		{"chunked and broken off", "Transfer-Encoding: chunked", "a\r\n0123", 100, ErrIncompleteBody},
		{"md5", "Content-Length: 10\r\nContent-MD5: " + sum, body, 10, nil},
		{"wrong md5", "Content-Length: 10\r\nContent-MD5: " + contentMD5(nil), body, 10, ErrMD5Mismatch},
		{"no md5", "Content-Length: 10\r\nContent-MD5: AAAA", body, 10, ErrInvalidMD5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hr, err := http.ReadRequest(bufio.NewReader(
				strings.NewReader("PUT /acc HTTP/1.1\r\nHost: h\r\n" + tc.head + "\r\n\r\n" + tc.sent)))
			if err != nil {
				t.Fatal(err)
			}
			r, err := Parse(Blob, hr, httptest.NewRecorder(), time.Now(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			b, err := r.ReadBody(tc.limit)
			if !same(err, tc.want) || err == nil && string(b) != body {
				t.Errorf("got %q, %v; want %v", b, err, tc.want)
			}
		})
	}
}

func TestParseXML(t *testing.T) {
	t.Parallel()
	type doc struct {
		A string `xml:"A"`
	}
	for in, want := range map[string]error{
		"<doc><A>1</A></doc>":             nil,
		"\xef\xbb\xbf<doc><A>1</A></doc>": nil,
		`<?xml version="1.0" encoding="utf-8"?><doc><A>1</A></doc><!-- end -->` + "\n": nil,
		"":                              ErrInvalidXMLDocument,
		"<doc><A>1</A>":                 ErrInvalidXMLDocument,
		"<doc><A>1</A></doc><doc/>":     ErrInvalidXMLDocument,
		"<doc><A>1</A></doc>x":          ErrInvalidXMLDocument,
		"{}":                            ErrInvalidXMLDocument,
		"<doc><A>&undefined;</A></doc>": ErrInvalidXMLDocument,
		`<?xml version="1.0" encoding="latin1"?><doc><A>1</A></doc>`:                  ErrInvalidXMLDocument,
		`<!DOCTYPE d [<!ENTITY e SYSTEM "file:///etc/passwd">]><doc><A>&e;</A></doc>`: ErrInvalidXMLDocument,
	} {
		var d doc
		if err := ParseXML([]byte(in), &d); !same(err, want) || err == nil && d.A != "1" {
			t.Errorf("%q: got %v %q, want %v", in, err, d.A, want)
		}
	}
}

func TestXMLEscapes(t *testing.T) {
	t.Parallel()
	got := string(NewXML(0).Open("A", "b", `<"&>`).Text("C", "a<b>&\"\r\n\x01\xffé").Empty("D").Close("A").Bytes())
	want := byteOrderMark +
		`<?xml version="1.0" encoding="utf-8"?><A b="&lt;&quot;&amp;&gt;"><C>a&lt;b&gt;&amp;&quot;&#xD;` +
		"\n\ufffd\ufffdé</C><D /></A>"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("/devstoreaccount1/c/b?comp=list&x=%20", "127.0.0.1:10000", "2021-12-02")
	f.Add("/", "acc.blob.localhost", "")
	f.Add("http://x", "h", "2021-99-99")
	f.Fuzz(func(t *testing.T, uri, host, version string) {
		defer workbudget.Default.Start(t, len(uri)+len(host)+len(version))()
		hr := httptest.NewRequest("GET", "http://h/", nil)
		hr.RequestURI, hr.Host = uri, host
		hr.Header.Set("x-ms-version", version)
		r, err := Parse(Blob, hr, httptest.NewRecorder(), time.Unix(0, 0), Options{})
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%v is not a protocol error", err)
		}
		if err == nil && (!AccountName(r.Account) || r.RawPath != "" && r.RawPath[0] != '/') {
			t.Fatalf("account %q, path %q", r.Account, r.RawPath)
		}
		// The shard of a request is chosen by AccountOf before it is parsed.
		if account, ok := AccountOf(Blob, hr, Options{}); err == nil && (!ok || account != r.Account) {
			t.Fatalf("account %q before the request is parsed, and %q then", account, r.Account)
		}
	})
}

// contentMD5 is the value of Content-MD5 for a body.
func contentMD5(b []byte) string {
	sum := md5.Sum(b)
	return base64.StdEncoding.EncodeToString(sum[:])
}
