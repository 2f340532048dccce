package analytics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

func request(t *testing.T, method, target, version string) *wire.Request {
	t.Helper()
	hr := httptest.NewRequest(method, target, nil)
	hr.RemoteAddr = "192.0.2.1:1234"
	hr.Header.Set("x-ms-version", version)
	r, err := wire.Parse(wire.Blob, hr, httptest.NewRecorder(), time.Date(2014, 6, 19, 22, 59, 23, 196757700, time.UTC),
		wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.ID, r.Operation = "id", "GetBlob"
	return r
}

// The line of the reference's example, with our request.
func TestLine(t *testing.T) {
	t.Parallel()
	r := request(t, "GET", "http://127.0.0.1:10000/devstoreaccount1/c/b?a=1&b=2&sig=secret%3D", "2021-12-02")
	h := r.HTTP.Header
	h.Set("If-Match", `"0x1"`)
	h.Set("User-Agent", "a; \"client\"\n1.0;forged")
	r.ClientID = "client-id"
	r.Set("ETag", `"0x8D15A2C9B3E2A40"`)
	r.Set("Last-Modified", "Thu, 19 Jun 2014 22:58:10 GMT")
	o := frontend.Outcome{Identity: auth.Identity{Mechanism: auth.SharedKey}, Status: 200, Written: 12,
		Duration: 7 * time.Millisecond}
	got := string(appendLine(nil, "1.0", r, o))
	want :=
		`1.0;2014-06-19T22:59:23.1967577Z;GetBlob;Success;200;7;7;authenticated;devstoreaccount1;devstoreaccount1;blob;` +
			`"http://127.0.0.1:10000/devstoreaccount1/c/b?a=1&amp;b=2&amp;sig=XXXXX";"/devstoreaccount1/c/b";id;0;192.0.2.1:1234;2021-12-02;` +
			`137;0;73;12;0;;;"&quot;0x8D15A2C9B3E2A40&quot;";Thursday, 19-Jun-14 22:58:10 GMT;"If-Match=&quot;0x1&quot;";` +
			`"a; &quot;client&quot;&#10;1.0;forged";;"client-id"` + "\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if n := strings.Count(got, "\n"); n != 1 {
		t.Errorf("one request makes %d lines", n)
	}
}

// No signature that the server would accept stands in the log, however its parameter's name is written.
func TestSignaturesAreMasked(t *testing.T) {
	for _, name := range []string{"sig", "SIG", "Sig", "s%69g", "%73%69%67", "%53%49g"} {
		r := request(t, "GET", "http://h/devstoreaccount1/c/b?sv=1&"+name+"=c2VjcmV0", "2021-12-02")
		if !r.Query.Has("sig") {
			t.Errorf("%s is not read as a signature", name)
		}
		if line := string(appendLine(nil, "1.0", r, frontend.Outcome{Status: 200})); strings.Contains(line, "c2VjcmV0") ||
			!strings.Contains(line, "XXXXX") {
			t.Errorf("%s: %s", name, line)
		}
	}
}

// A page that was read with a token refers to others with its address.
func TestSignaturesInReferrersAreMasked(t *testing.T) {
	t.Parallel()
	r := request(t, "GET", "http://h/devstoreaccount1/c/b", "2021-12-02")
	r.HTTP.Header.Set("Referer", "http://h/devstoreaccount1/c/page?sv=1&s%69g=c2VjcmV0&sp=r")
	line := string(appendLine(nil, "1.0", r, frontend.Outcome{Status: 200}))
	if strings.Contains(line, "c2VjcmV0") || !strings.Contains(line, "/c/page?sv=1&") || !strings.Contains(line, "XXXXX") {
		t.Error(line)
	}
}

func TestFieldCount(t *testing.T) {
	t.Parallel()
	r := request(t, "GET", "http://h/devstoreaccount1/c/b", "2021-12-02")
	for version, want := range map[string]int{"1.0": 30, "2.0": 38} {
		if got := strings.Count(string(appendLine(nil, version, r, frontend.Outcome{Status: 200})), ";") + 1; got != want {
			t.Errorf("version %s has %d fields, want %d", version, got, want)
		}
	}
}

func TestRequestStatus(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		by      auth.Mechanism
		status  int
		failure *wire.Error
		version string
		want    string
		logged  bool
	}{
		{auth.SharedKey, 201, nil, "2021-12-02", "Success", true},
		{auth.SAS, 200, nil, "2021-12-02", "SASSuccess", true},
		{auth.Anonymous, 200, nil, "2021-12-02", "AnonymousSuccess", true},
		{auth.SharedKey, 404, wire.ErrResourceNotFound, "2021-12-02", "ResourceNotFound", true},
		{auth.SharedKey, 404, wire.ErrResourceNotFound, "2015-02-21", "ClientOtherError", true},
		{auth.SAS, 404, wire.ErrResourceNotFound, "2015-02-21", "SASClientOtherError", true},
		{auth.SAS, 403, wire.ErrAuthorizationPermissionMismatch, "2021-12-02", "SASAuthorizationError", true},
		{auth.Anonymous, 404, wire.ErrResourceNotFound, "2015-02-21", "AnonymousClientOtherError", false},
		{auth.Anonymous, 304, wire.ErrNotModified, "2015-02-21", "AnonymousSuccess", true},
		{auth.Anonymous, 500, wire.ErrInternal, "2015-02-21", "AnonymousServerOtherError", true},
		{auth.SharedKey, 503, wire.ErrServerBusy, "2021-12-02", "ThrottlingError", true},
		{auth.SharedKey, 500, wire.ErrOperationTimedOut, "2021-12-02", "ServerTimeoutError", true},
		{auth.SharedKey, 0, nil, "2021-12-02", "NetworkError", true},
	} {
		r := request(t, "GET", "http://h/devstoreaccount1/c/b", tc.version)
		r.Failure = tc.failure
		o := frontend.Outcome{Identity: auth.Identity{Mechanism: tc.by}, Status: tc.status}
		if got := requestStatus(r, o); got != tc.want || logged(o) != tc.logged {
			t.Errorf("%v %d: got %s, logged %v; want %s, %v", tc.by, tc.status, got, logged(o), tc.want, tc.logged)
		}
	}
}
