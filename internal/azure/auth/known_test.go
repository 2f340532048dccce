package auth

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"os"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// knownKey is the value of the user delegation key with which the delegated tokens of the file are signed.
const knownKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// Tokens of every version at which a string to sign changes, made by others.
func TestKnownTokens(t *testing.T) {
	t.Parallel()
	f, err := os.Open("testdata/tokens.tsv")
	must(t, err)
	defer f.Close()
	paths := map[string]string{"blob": "/c/a/b%20c", "container": "/c/x",
		"snapshot": "/c/b?snapshot=2026-03-04T05:06:07.0000000Z",
		"version":  "/c/b?versionid=2026-03-04T05:06:07.1234567Z", "account": "/c/x", "queue": "/q/messages",
		"table": "/Tab()"}
	services := map[string]wire.Service{"blob": wire.Blob, "queue": wire.Queue, "table": wire.Table, "account": wire.Blob}
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		n++
		fields := strings.Split(lines.Text(), "\t")
		kind, delegated := strings.CutPrefix(fields[1], "delegated ")
		target := "/" + DevelopmentAccount + paths[kind]
		if strings.Contains(target, "?") {
			target += "&" + fields[2]
		} else {
			target += "?" + fields[2]
		}
		r := parse(t, services[fields[0]], sasNow, "GET "+target+" HTTP/1.1\nHost: 127.0.0.1")
		r.HTTP.RemoteAddr, r.HTTP.TLS = "10.0.0.1:1", &tls.ConnectionState{}
		if !delegated {
			if _, err := authenticate(r, Development()); err != nil {
				t.Errorf("%s: %v", lines.Text(), err)
			}
			continue
		}
		token, ok := readToken(r.Query, r.Service)
		if !ok {
			t.Errorf("%s cannot be read", lines.Text())
			continue
		}
		token.Snapshot = r.Query.Get("snapshot") + r.Query.Get("versionid")
		resource, ok := token.resource(r)
		if !ok {
			t.Errorf("%s has no resource", lines.Text())
		}
		value, err := base64.StdEncoding.DecodeString(knownKey)
		must(t, err)
		good := false
		for _, message := range token.delegationStrings(r.Service, resource, "", "") {
			mac := hmac.New(sha256.New, value)
			mac.Write(message)
			good = good || base64.StdEncoding.EncodeToString(mac.Sum(nil)) == token.Signature
		}
		if !good {
			t.Errorf("%s: another string to sign: %q", lines.Text(), token.delegationStrings(r.Service, resource, "", ""))
		}
	}
	if n < 60 {
		t.Errorf("%d tokens, want all of the file", n)
	}
}

// The example of the reference, of a version that is older than the SDKs know.
// https://learn.microsoft.com/rest/api/storageservices/service-sas-examples
func TestOldStringsToSign(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		svc  wire.Service
		q    string
		path string
		want string
	}{
		{"2013-08-15, blob with overrides", wire.Blob,
			"sv=2013-08-15&st=2013-08-16&se=2013-08-17&sr=c&sp=r&rscd=file;%20attachment&rsct=binary&sig=x", "/pictures/b",
			"r\n2013-08-16\n2013-08-17\n/myaccount/pictures\n\n2013-08-15\n\nfile; attachment\n\n\nbinary"},
		{"2012-02-12, table with a range", wire.Table,
			"sv=2012-02-12&tn=Employees&sp=r&se=2013-08-17&spk=Coho%20Winery&epk=Coho%20Winery&erk=2012&sig=x", "/Employees",
			"r\n\n2013-08-17\n/myaccount/employees\n\n2012-02-12\nCoho Winery\n\nCoho Winery\n2012"},
		{"2012-02-12, queue with a policy", wire.Queue, "sv=2012-02-12&si=YWJj&sp=p&sig=x", "/q/messages",
			"p\n\n\n/myaccount/q\nYWJj\n2012-02-12"},
		{"before 2012-02-12", wire.Blob, "st=2009-02-09&se=2009-02-10&sr=c&sp=r&si=YWJj&sig=x", "/pictures/b",
			"r\n2009-02-09\n2009-02-10\n/myaccount/pictures\nYWJj"},
		{"2014-02-14, queue", wire.Queue, "sv=2014-02-14&sp=p&se=2030-01-01&sig=x", "/q",
			"p\n\n2030-01-01\n/myaccount/q\n\n2014-02-14"},
		{"2015-02-21, queue: the resource begins with its service", wire.Queue, "sv=2015-02-21&sp=p&se=2030-01-01&sig=x",
			"/q", "p\n\n2030-01-01\n/queue/myaccount/q\n\n2015-02-21"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := parse(t, tc.svc, sasNow, "GET "+tc.path+"?"+tc.q+" HTTP/1.1\nHost: myaccount."+tc.svc.String()+
				".core.windows.net")
			token, ok := readToken(r.Query, r.Service)
			if !ok {
				t.Fatal("cannot be read")
			}
			resource, ok := token.resource(r)
			if got := string(token.appendStringToSign(nil, tc.svc, r.Account, resource)); !ok || got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// Fields that a version does not sign are refused: the holder of such a token could set them.
func TestUnsignedFieldsAreRefused(t *testing.T) {
	t.Parallel()
	key, err := ParseKey(DevelopmentKey)
	must(t, err)
	for _, tc := range []struct{ version, extra string }{
		{"2012-02-12", "rsct=text/html"}, {"2014-02-14", "sip=10.0.0.5"}, {"2014-02-14", "spr=https"},
		{"2018-11-09", "ses=x"}, {"2018-11-09", "sdd=1"},
		{"2014-02-14", "ss=b&srt=o"},
	} {
		v, _ := wire.ParseVersion(tc.version)
		token := Token{Version: v, VersionText: tc.version, Permissions: "r", Expiry: "2030-01-01", Resource: "c"}
		prefix := "/"
		if v >= sas20150221 {
			prefix = "/blob/"
		}
		token.Signature = base64.StdEncoding.EncodeToString(
			key.Sign(nil, token.appendStringToSign(nil, wire.Blob, DevelopmentAccount, prefix+DevelopmentAccount+"/c")))
		for extra, ok := range map[string]bool{"": true, "&" + tc.extra: false} {
			r := parse(t, wire.Blob, sasNow, "GET /"+DevelopmentAccount+"/c/b?"+token.encode()+extra+" HTTP/1.1\nHost: h")
			r.HTTP.RemoteAddr = "10.0.0.5:1"
			if _, err := authenticate(r, Development()); (err == nil) != ok {
				t.Errorf("%s with %q: %v", tc.version, extra, err)
			}
		}
	}
}

// An account SAS signs no overrides of response headers, and gives none.
func TestAccountSASOverridesNothing(t *testing.T) {
	t.Parallel()
	key, err := ParseKey(DevelopmentKey)
	must(t, err)
	for _, token := range []Token{{Services: "b", ResourceTypes: "o", Permissions: "r", Expiry: "2030-01-01"},
		{Permissions: "r", Expiry: "2030-01-01", ContentType: "text/html"}} {
		q, err := token.Sign(DevelopmentAccount, key, wire.Blob, "c/b")
		must(t, err)
		if token.AccountSAS() {
			q += "&rsct=text/html&rscd=inline"
		}
		id, err := authenticate(parse(t, wire.Blob, sasNow, "GET /"+DevelopmentAccount+"/c/b?"+q+" HTTP/1.1\nHost: h"),
			Development())
		must(t, err)
		if got := id.Token(); got.ContentType != token.ContentType || got.ContentDisposition != "" {
			t.Errorf("account SAS %v: overrides %q %q", token.AccountSAS(), got.ContentType, got.ContentDisposition)
		}
	}
}

// A field with a line feed could stand for two.
func TestControlCharactersAreRefused(t *testing.T) {
	t.Parallel()
	for _, q := range []string{"si=a%0Ab", "sp=r%00", "sv=2021-12-02%0a", "skoid=a%0Db"} {
		r := parse(t, wire.Blob, sasNow, "GET /"+DevelopmentAccount+"/c/b?sig=x&sr=c&"+q+" HTTP/1.1\nHost: h")
		if _, ok := readToken(r.Query, r.Service); ok {
			t.Errorf("%s is read", q)
		}
	}
}

func TestVersionOfTokenRequests(t *testing.T) {
	t.Parallel()
	key, err := ParseKey(DevelopmentKey)
	must(t, err)
	q, err := Token{VersionText: "2019-02-02", Permissions: "r", Expiry: "2030-01-01"}.Sign(DevelopmentAccount, key,
		wire.Blob, "c")
	must(t, err)
	for _, tc := range []struct {
		header, extra string
		want          wire.Version
		sent          string
		fails         bool
	}{
		{"", "", 20190202, "2019-02-02", false},
		{"", "&api-version=2021-12-02", 20211202, "2021-12-02", false},
		{"x-ms-version: 2020-10-02\n", "&api-version=2021-12-02", 20201002, "", false},
		{"", "&api-version=2999-01-01", wire.LatestVersion(), "2999-01-01", false},
		{"", "&api-version=soon", 0, "", true},
	} {
		r := parse(t, wire.Blob, sasNow, "GET /"+DevelopmentAccount+"/c/b?"+q+tc.extra+" HTTP/1.1\n"+tc.header+"Host: h")
		_, err := authenticate(r, Development())
		if (err != nil) != tc.fails {
			t.Errorf("%+v: %v", tc, err)
			continue
		}
		sent := ""
		if v := r.Out.Header()[versionHeader]; len(v) > 0 {
			sent = v[0]
		}
		if !tc.fails && (r.Version != tc.want || sent != tc.sent) {
			t.Errorf("%+v: version %v, answered %q", tc, r.Version, sent)
		}
	}
	// A copy source is checked without an answer to write to.
	r := parse(t, wire.Blob, sasNow, "GET /"+DevelopmentAccount+"/c/b?"+q+" HTTP/1.1\nHost: h")
	r.Out = nil
	if _, err := authenticate(r, Development()); err != nil {
		t.Error(err)
	}
}

var versionHeader = "x-ms-version"

// One path, read alike by the check of a signature and by the service: what is decoded first could be split elsewhere.
func TestPathsOfTokens(t *testing.T) {
	t.Parallel()
	key, err := ParseKey(DevelopmentKey)
	must(t, err)
	for _, tc := range []struct {
		svc                  wire.Service
		signed, path         string
		permissions, restype string
		ok                   bool
	}{
		{wire.Blob, "c", "/c/b", "r", "", true},
		{wire.Blob, "c", "/c/d%2Fe", "r", "", true},
		{wire.Blob, "c/d/e", "/c/d%2Fe", "r", "", true},
		{wire.Blob, "c", "/c%2Fb", "r", "", false}, // a blob of the root container with a slash in its name
		{wire.Blob, "$root", "/c%2Fb", "r", "", true},
		{wire.Blob, "$root", "/b", "r", "", true},
		{wire.Blob, "b", "/b", "r", "", false},
		{wire.Blob, "c", "/c", "l", "container", true},
		{wire.Blob, "$root", "/c", "l", "container", false},
		{wire.Blob, "c", "/c/../d/b", "r", "", false}, // b in d
		{wire.Blob, "d", "/c/../d/b", "r", "", true},
		{wire.Blob, "c", "/c/%2e%2e/d/b", "r", "", false},
		{wire.Blob, "d", "/c/%2e%2e/d/b", "r", "", true},
		{wire.Blob, "c/b", "/c/x/..%2fb", "r", "", true},
		{wire.Blob, "c/x", "/c/x/..%2fb", "r", "", false},
		{wire.Blob, "c", "//c/b", "r", "", false},
		{wire.Blob, "c", "/C/b", "r", "", false},
		{wire.Queue, "q", "/q/messages", "r", "", true},
		{wire.Queue, "q", "/q%2Fmessages", "r", "", false},
		{wire.Queue, "q", "/q2/messages", "r", "", false},
		{wire.Table, "Tab", "/Tab(PartitionKey='a/b',RowKey='c')", "r", "", true},
		{wire.Table, "Tab", "/tab%28PartitionKey='a',RowKey='b')", "r", "", true},
		{wire.Table, "Tab", "/Tab2", "r", "", false},
		{wire.Table, "Tab", "/Tables('Tab')", "r", "", false},
		{wire.Table, "Tab", "/$batch", "r", "", true},
	} {
		q, err := Token{Permissions: tc.permissions, Expiry: "2030-01-01"}.Sign(DevelopmentAccount, key, tc.svc, tc.signed)
		must(t, err)
		if tc.restype != "" {
			q += "&restype=" + tc.restype
		}
		r := parse(t, tc.svc, sasNow, "GET /"+DevelopmentAccount+tc.path+"?"+q+" HTTP/1.1\nHost: h")
		if _, err := authenticate(r, Development()); (err == nil) != tc.ok {
			t.Errorf("%s, signed for %s, on %s: %v", tc.svc, tc.signed, tc.path, err)
		}
	}
}

func TestDirectory(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		depth, path, want string
		ok                bool
	}{
		{"1", "a/b", "/a", true}, {"2", "a/b/c", "/a/b", true}, {"0", "a", "", true},
		{"1", "a", "/a", true}, {"2", "a/b", "/a/b", true}, {"1", "a/", "/a", true}, {"2", "a", "", false},
		{"2", "a/", "", false}, {"1", "", "", false},
		{"1", "/a", "", false}, {"-1", "a/b", "", false}, {"x", "a/b", "", false}, {"9999999999", "a/b", "", false},
		{"", "a/b", "", false},
	} {
		token := Token{Depth: tc.depth}
		if got, ok := token.directory(tc.path, false); ok != tc.ok || ok && got != tc.want {
			t.Errorf("depth %s of %s: %q %v", tc.depth, tc.path, got, ok)
		}
	}
}

// A token for a snapshot or version is for that one alone. A request that names none is for the blob itself, which such
// a token never permits, also where it was signed for an empty time.
func TestTokensForSnapshotsAreNotForTheBlob(t *testing.T) {
	t.Parallel()
	r := parse(t, wire.Blob, sasNow, "GET /"+DevelopmentAccount+"/c/b HTTP/1.1\nHost: h")
	for _, resource := range []string{"bs", "bv"} {
		for snapshot, want := range map[string]bool{"": false, "2020-01-01T00:00:00.0000000Z": true} {
			token := Token{Resource: resource, Snapshot: snapshot, Version: sas20191212}
			if _, ok := token.resource(r); ok != want {
				t.Errorf("sr=%s with snapshot %q: %v, want %v", resource, snapshot, ok, want)
			}
		}
	}
}
