package auth

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	blobsas "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	queuesas "github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

var sasNow = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// signed makes tokens with the official SDKs, whose strings to sign are not ours.
func signed(t *testing.T) map[string]string {
	t.Helper()
	blobKey, err := azblob.NewSharedKeyCredential(DevelopmentAccount, DevelopmentKey)
	must(t, err)
	queueKey, err := azqueue.NewSharedKeyCredential(DevelopmentAccount, DevelopmentKey)
	must(t, err)
	tableKey, err := aztables.NewSharedKeyCredential(DevelopmentAccount, DevelopmentKey)
	must(t, err)
	start, expiry := sasNow.Add(-time.Hour), sasNow.Add(time.Hour)
	ip := blobsas.IPRange{Start: []byte{10, 0, 0, 1}, End: []byte{10, 0, 0, 9}}

	account := blobsas.AccountSignatureValues{Protocol: blobsas.ProtocolHTTPSandHTTP, StartTime: start, ExpiryTime: expiry,
		Permissions: "rwl", ResourceTypes: "co", IPRange: ip}
	a, err := account.SignWithSharedKey(blobKey)
	must(t, err)
	container, err := blobsas.BlobSignatureValues{StartTime: start, ExpiryTime: expiry, ContainerName: "c",
		Permissions: "rl"}.SignWithSharedKey(blobKey)
	must(t, err)
	blob, err := blobsas.BlobSignatureValues{ExpiryTime: expiry, ContainerName: "c", BlobName: "a/b c", Permissions: "r",
		ContentDisposition: "attachment", ContentType: "text/html"}.SignWithSharedKey(blobKey)
	must(t, err)
	https, err := blobsas.BlobSignatureValues{Protocol: blobsas.ProtocolHTTPS, ExpiryTime: expiry, ContainerName: "c",
		Permissions: "r"}.SignWithSharedKey(blobKey)
	must(t, err)
	snapshot, err := blobsas.BlobSignatureValues{ExpiryTime: expiry, ContainerName: "c", BlobName: "b", Permissions: "r",
		SnapshotTime: sasNow}.SignWithSharedKey(blobKey)
	must(t, err)
	policy, err := blobsas.BlobSignatureValues{ContainerName: "c", Identifier: "readers"}.SignWithSharedKey(blobKey)
	must(t, err)
	queue, err := queuesas.QueueSignatureValues{ExpiryTime: expiry, QueueName: "q",
		Permissions: "rp"}.SignWithSharedKey(queueKey)
	must(t, err)
	table, err := aztables.SASSignatureValues{StartTime: start, ExpiryTime: expiry, TableName: "Tab", Permissions: "ra",
		StartPartitionKey: "p1", EndPartitionKey: "p9", StartRowKey: "r1", EndRowKey: "r9"}.Sign(tableKey)
	must(t, err)
	rows, err := aztables.SASSignatureValues{StartTime: start, ExpiryTime: expiry, TableName: "Tab", Permissions: "r",
		StartRowKey: "r1"}.Sign(tableKey)
	must(t, err)
	until, err := aztables.SASSignatureValues{StartTime: start, ExpiryTime: expiry, TableName: "Tab", Permissions: "r",
		EndPartitionKey: "p9"}.Sign(tableKey)
	must(t, err)
	all, err := aztables.SASSignatureValues{StartTime: start, ExpiryTime: expiry, TableName: "Tab",
		Permissions: "r"}.Sign(tableKey)
	must(t, err)
	return map[string]string{"whole table": all, "account": a.Encode(), "rows": rows + "&srk=r1",
		"until": until + "&epk=p9", "container": container.Encode(), "blob": blob.Encode(),
		"https": https.Encode(), "snapshot": snapshot.Encode(), "policy": policy.Encode(), "queue": queue.Encode(),
		// The SDK signs the range but leaves it out of the URL.
		"table": table + "&spk=p1&srk=r1&epk=p9&erk=r9"}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSAS(t *testing.T) {
	t.Parallel()
	tokens := signed(t)
	read := Need{On: OnObject, Any: "r", Record: true}
	for _, tc := range []struct {
		name, token string
		svc         wire.Service
		path        string
		change      func(q url.Values)
		remote      string
		now         time.Time
		need        Need
		want        error
	}{
		{name: "account", token: "account", svc: wire.Blob, path: "/c/b", need: read},
		{name: "account, one of several letters", token: "account", svc: wire.Blob, path: "/c/b",
			need: Need{On: OnObject, Any: "cw"}},
		{name: "account, all letters", token: "account", svc: wire.Blob, path: "/c/b", need: Need{On: OnObject, All: "rw"}},
		{name: "account, a letter missing", token: "account", svc: wire.Blob, path: "/c/b",
			need: Need{On: OnObject, All: "rd"}, want: wire.ErrAuthorizationPermissionMismatch},
		{name: "account, container", token: "account", svc: wire.Blob, path: "/c", need: Need{On: OnContainer, Any: "l"}},
		{name: "account, wrong permission", token: "account", svc: wire.Blob, path: "/c/b",
			need: Need{On: OnObject, Any: "d"}, want: wire.ErrAuthorizationPermissionMismatch},
		{name: "account, wrong resource type", token: "account", svc: wire.Blob, path: "",
			need: Need{On: OnService, Any: "l"}, want: ErrAuthorizationResourceTypeMismatch},
		{name: "account, wrong service", token: "account", svc: wire.Queue, path: "/q", need: read,
			want: ErrAuthorizationServiceMismatch},
		{name: "account, wrong address", token: "account", svc: wire.Blob, path: "/c/b", remote: "10.0.0.10:1", need: read,
			want: ErrAuthorizationSourceIPMismatch},
		{name: "account, no operation for SAS", token: "account", svc: wire.Blob, path: "/c", need: Need{On: OnContainer},
			want: ErrAuthorizationFailure},
		{name: "account, more permissions", token: "account", svc: wire.Blob, path: "/c/b", need: read,
			change: set("sp", "rwld"), want: wire.ErrAuthenticationFailed},
		{name: "account, more services", token: "account", svc: wire.Queue, path: "/q", need: read, change: set("ss", "bq"),
			want: wire.ErrAuthenticationFailed},
		{name: "account, more resource types", token: "account", svc: wire.Blob, path: "", need: read,
			change: set("srt", "sco"), want: wire.ErrAuthenticationFailed},
		{name: "account, longer", token: "account", svc: wire.Blob, path: "/c/b", need: read, change: set("se", "2030-01-01"),
			want: wire.ErrAuthenticationFailed},
		{name: "account, any address", token: "account", svc: wire.Blob, path: "/c/b", need: read, change: del("sip"),
			want: wire.ErrAuthenticationFailed},
		{name: "account, any version", token: "account", svc: wire.Blob, path: "/c/b", need: read,
			change: set("sv", "2015-04-05"), want: wire.ErrAuthenticationFailed},
		{name: "account, malformed version", token: "account", svc: wire.Blob, path: "/c/b", need: read,
			change: set("sv", "x"), want: wire.ErrAuthenticationFailed},
		{name: "account, twice", token: "account", svc: wire.Blob, path: "/c/b", need: read,
			change: func(q url.Values) { q.Add("sp", "rwl") }, want: wire.ErrAuthenticationFailed},
		{name: "account, early", token: "account", svc: wire.Blob, path: "/c/b", need: read,
			now: sasNow.Add(-time.Hour - time.Second), want: wire.ErrAuthenticationFailed},
		{name: "account, at its start", token: "account", svc: wire.Blob, path: "/c/b", need: read,
			now: sasNow.Add(-time.Hour)},
		{name: "account, at its expiry", token: "account", svc: wire.Blob, path: "/c/b", need: read,
			now: sasNow.Add(time.Hour), want: wire.ErrAuthenticationFailed},

		{name: "container, its blob", token: "container", svc: wire.Blob, path: "/c/b", need: read},
		{name: "container, list", token: "container", svc: wire.Blob, path: "/c", change: set("restype", "container"),
			need: Need{On: OnContainer, Any: "l"}},
		{name: "container, another", token: "container", svc: wire.Blob, path: "/d/b", need: read,
			want: wire.ErrAuthenticationFailed},
		{name: "container, the service", token: "container", svc: wire.Blob, path: "", need: Need{On: OnService, Any: "l"},
			want: wire.ErrAuthenticationFailed},
		{name: "container, account SAS only", token: "container", svc: wire.Blob, path: "/c",
			change: set("restype", "container"), need: Need{On: OnContainer, Any: "rl", AccountSASOnly: true},
			want: ErrAuthorizationFailure},
		{name: "blob", token: "blob", svc: wire.Blob, path: "/c/a/b%20c", need: read},
		{name: "blob, another", token: "blob", svc: wire.Blob, path: "/c/a/b", need: read,
			want: wire.ErrAuthenticationFailed},
		{name: "blob, its container", token: "blob", svc: wire.Blob, path: "/c", need: Need{On: OnContainer, Any: "r"},
			want: wire.ErrAuthenticationFailed},
		{name: "blob, another override", token: "blob", svc: wire.Blob, path: "/c/a/b%20c", need: read,
			change: set("rsct", "text/plain"), want: wire.ErrAuthenticationFailed},
		{name: "blob, as container", token: "blob", svc: wire.Blob, path: "/c/a/b%20c", need: read, change: set("sr", "c"),
			want: wire.ErrAuthenticationFailed},
		{name: "https only, over http", token: "https", svc: wire.Blob, path: "/c/b", need: read,
			want: ErrAuthorizationProtocolMismatch},
		{name: "snapshot", token: "snapshot", svc: wire.Blob, path: "/c/b", need: read,
			change: set("snapshot", wire.FormatISO7(sasNow))},
		{name: "snapshot, another", token: "snapshot", svc: wire.Blob, path: "/c/b", need: read,
			change: set("snapshot", wire.FormatISO7(sasNow.Add(1e6))), want: wire.ErrAuthenticationFailed},
		{name: "snapshot, the blob itself", token: "snapshot", svc: wire.Blob, path: "/c/b", need: read,
			change: del("snapshot"), want: wire.ErrAuthenticationFailed},

		{name: "queue", token: "queue", svc: wire.Queue, path: "/q/messages", need: Need{On: OnObject, Any: "p"}},
		{name: "queue, another", token: "queue", svc: wire.Queue, path: "/q2/messages", need: Need{On: OnObject, Any: "p"},
			want: wire.ErrAuthenticationFailed},
		{name: "table", token: "table", svc: wire.Table, path: "/Tab()", need: read},
		{name: "table, in other case", token: "table", svc: wire.Table, path: "/tAB(PartitionKey='a',RowKey='b')",
			need: read},
		{name: "table, another", token: "table", svc: wire.Table, path: "/Tab2", need: read,
			want: wire.ErrAuthenticationFailed},
		{name: "table, wider range", token: "table", svc: wire.Table, path: "/Tab", need: read, change: set("epk", "zz"),
			want: wire.ErrAuthenticationFailed},
		{name: "table, row keys without partition keys", token: "rows", svc: wire.Table, path: "/Tab", need: read,
			want: wire.ErrAuthenticationFailed},
		{name: "table, row keys with an empty partition key", token: "rows", svc: wire.Table, path: "/Tab",
			change: set("spk", ""), need: read},
		{name: "whole table", token: "whole table", svc: wire.Table, path: "/Tab", need: read},
		{name: "table, an empty start, which is the first key", token: "whole table", svc: wire.Table, path: "/Tab",
			change: set("spk", ""), need: read},
		{name: "table, an empty end, which its holder could remove", token: "whole table", svc: wire.Table, path: "/Tab",
			change: set("epk", ""), need: read, want: wire.ErrAuthenticationFailed},
		{name: "table, up to a partition", token: "until", svc: wire.Table, path: "/Tab", need: read},
		{name: "table, up to an empty row of a partition", token: "until", svc: wire.Table, path: "/Tab",
			change: set("erk", ""), need: read, want: wire.ErrAuthenticationFailed},
		{name: "table, an empty row at the end", token: "table", svc: wire.Table, path: "/Tab", change: set("erk", ""),
			need: read, want: wire.ErrAuthenticationFailed},
		{name: "table, no range", token: "table", svc: wire.Table, path: "/Tab", need: read, change: func(q url.Values) {
			for _, k := range []string{"spk", "srk", "epk", "erk"} {
				q.Del(k)
			}
		}, want: wire.ErrAuthenticationFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q, err := url.ParseQuery(tokens[tc.token])
			must(t, err)
			if tc.change != nil {
				tc.change(q)
			}
			now := tc.now
			if now.IsZero() {
				now = sasNow
			}
			r := parse(t, tc.svc, now, "GET /"+DevelopmentAccount+tc.path+"?"+q.Encode()+" HTTP/1.1\nHost: 127.0.0.1")
			r.HTTP.RemoteAddr = "10.0.0.5:4444"
			if tc.remote != "" {
				r.HTTP.RemoteAddr = tc.remote
			}
			id, err := authenticate(r, Development())
			if err == nil {
				err = id.Check(tc.svc, tc.need)
			}
			if (err == nil) != (tc.want == nil) || !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if tc.token == "table" && tc.want == nil {
				e, limited := id.EntityRange()
				if want := (EntityRange{"p1", "r1", "p9", "r9", true, true, true, true}); !limited || e != want {
					t.Errorf("range %+v %v", e, limited)
				}
			}
		})
	}
}

func set(name, value string) func(url.Values) { return func(q url.Values) { q.Set(name, value) } }
func del(name string) func(url.Values)        { return func(q url.Values) { q.Del(name) } }

// A field that a kind of token does not sign, which anyone could add, is refused.
func TestFieldsOfOtherTokensAreRefused(t *testing.T) {
	t.Parallel()
	key, err := ParseKey(DevelopmentKey)
	must(t, err)
	tokens := map[string]struct {
		svc      wire.Service
		path     string
		t        Token
		resource string
		fields   string // that it does not sign
	}{
		"account": {wire.Blob, "/c/b", Token{Services: "b", ResourceTypes: "o"}, "",
			"si sr sdd tn spk srk epk saoid suoid scid skt"},
		"blob":  {wire.Blob, "/c/b", Token{}, "c/b", "sdd tn spk epk saoid suoid scid sktid skdutid sduoid srh srq"},
		"queue": {wire.Queue, "/q", Token{}, "q", "sr sdd ses tn spk epk rscc rsct saoid suoid"},
		"table": {wire.Table, "/Tab", Token{}, "Tab", "sr sdd ses rscc rsct saoid suoid"},
	}
	for name, tc := range tokens {
		tc.t.Permissions, tc.t.Expiry = "r", "2030-01-01"
		q, err := tc.t.Sign(DevelopmentAccount, key, tc.svc, tc.resource)
		must(t, err)
		ask := func(more string) error {
			_, err := authenticate(parse(t, tc.svc, sasNow, "GET /"+DevelopmentAccount+tc.path+"?"+q+more+
				" HTTP/1.1\nHost: 127.0.0.1"), Development())
			return err
		}
		must(t, ask(""))
		for field := range strings.FieldsSeq(tc.fields) {
			if err := ask("&" + field + "=1"); !errors.Is(err, wire.ErrAuthenticationFailed) {
				t.Errorf("%s with %s: %v", name, field, err)
			}
		}
	}
}

func TestStoredAccessPolicy(t *testing.T) {
	t.Parallel()
	q := signed(t)["policy"]
	r := parse(t, wire.Blob, sasNow, "GET /"+DevelopmentAccount+"/c/b?"+q+" HTTP/1.1\nHost: 127.0.0.1")
	id, err := authenticate(r, Development())
	must(t, err)
	if id.PolicyID() != "readers" {
		t.Fatalf("policy %q", id.PolicyID())
	}
	if err := id.Check(wire.Blob, Need{On: OnObject, Any: "r"}); err == nil {
		t.Error("a token without its policy permits a read")
	}
	for _, tc := range []struct {
		name  string
		p     Policy
		found bool
		want  error
	}{
		{"good", Policy{Expiry: "2026-03-05", Permissions: "r"}, true, nil},
		{"revoked", Policy{}, false, wire.ErrAuthenticationFailed},
		{"expired", Policy{Expiry: "2026-03-04", Permissions: "r"}, true, wire.ErrAuthenticationFailed},
		{"early", Policy{Start: "2026-03-05", Expiry: "2026-03-06", Permissions: "r"}, true, wire.ErrAuthenticationFailed},
		{"no expiry", Policy{Permissions: "r"}, true, wire.ErrAuthenticationFailed},
		{"other permission", Policy{Expiry: "2026-03-05", Permissions: "w"}, true, wire.ErrAuthorizationPermissionMismatch},
		{"no permission", Policy{Expiry: "2026-03-05"}, true, wire.ErrAuthorizationPermissionMismatch},
	} {
		t.Run(tc.name, func(t *testing.T) {
			full, err := id.Apply(tc.p, tc.found, sasNow)
			if err == nil {
				err = full.Check(wire.Blob, Need{On: OnObject, Any: "r"})
			}
			if (err == nil) != (tc.want == nil) || !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
	id.token.Expiry = "2030-01-01"
	if _, err := id.Apply(Policy{Expiry: "2026-03-05", Permissions: "r"}, true, sasNow); err == nil {
		t.Error("an expiry both in the token and in the policy is taken")
	}
}

func FuzzSAS(f *testing.F) {
	f.Add("sv=2021-12-02&ss=b&srt=sco&sp=rwl&se=2030-01-01&sig=AAAA")
	f.Add("sv=2012-02-12&sr=c&si=x&sig=%00")
	f.Add("tn=Tab&spk=a&sig=x&sv=2019-02-02")
	f.Fuzz(func(t *testing.T, q string) {
		defer workbudget.Default.Start(t, len(q))()
		if strings.ContainsAny(q, " \r\n\x00\t#") || !strings.Contains(q, "sig=") {
			return
		}
		for _, svc := range []wire.Service{wire.Blob, wire.Queue, wire.Table} {
			r := &wire.Request{}
			u, err := url.ParseRequestURI("/" + DevelopmentAccount + "/Tab/b?" + q)
			if err != nil {
				return
			}
			*r = *parse(t, svc, sasNow, "GET /"+DevelopmentAccount+"/Tab/b HTTP/1.1\nHost: h")
			for name, values := range u.Query() {
				for _, v := range values {
					r.Query = append(r.Query, wire.Param{Name: name, Value: v})
				}
			}
			id, err := authenticate(r, Development())
			if err == nil && id.Mechanism == Anonymous { // "sig" is part of another name
				continue
			}
			if err == nil {
				t.Fatalf("%q is accepted", q)
			} else if e := (*wire.Error)(nil); !errors.As(err, &e) || e.Status >= 500 && e.Status != 501 {
				t.Fatalf("%q: %v", q, err)
			}
		}
	})
}
