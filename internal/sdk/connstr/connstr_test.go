package connstr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	dev := Settings{
		Account: "devstoreaccount1", Key: NewSecret(DevelopmentKey),
		BlobEndpoint:  "http://127.0.0.1:10000/devstoreaccount1",
		QueueEndpoint: "http://127.0.0.1:10001/devstoreaccount1",
		TableEndpoint: "http://127.0.0.1:10002/devstoreaccount1",
	}
	proxied := dev
	proxied.BlobEndpoint = "https://storage.test:10000/devstoreaccount1"
	proxied.QueueEndpoint = "https://storage.test:10001/devstoreaccount1"
	proxied.TableEndpoint = "https://storage.test:10002/devstoreaccount1"

	cases := map[string]struct {
		in   string
		want Settings
	}{
		"development":                     {"UseDevelopmentStorage=true", dev},
		"development, trailing semicolon": {"UseDevelopmentStorage=true;", dev},
		"development, any case":           {" usedevelopmentstorage =True", dev},
		"development with proxy": {"UseDevelopmentStorage=true;DevelopmentStorageProxyUri=https://storage.test",
			proxied},
		"development with proxy, port unused": {"UseDevelopmentStorage=true;DevelopmentStorageProxyUri=https://storage.test:8443/", proxied},
		"emulator, written out": {
			"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=" + DevelopmentKey +
				";BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;QueueEndpoint=http://127.0.0.1:10001/devstoreaccount1/;TableEndpoint=http://127.0.0.1:10002/devstoreaccount1;",
			dev,
		},
		"cloud, defaults": {
			"AccountName=acct;AccountKey=a2V5",
			Settings{Account: "acct", Key: NewSecret("a2V5"), BlobEndpoint: "https://acct.blob.core.windows.net",
				QueueEndpoint: "https://acct.queue.core.windows.net", TableEndpoint: "https://acct.table.core.windows.net"},
		},
		"cloud, suffix and protocol": {
			"DefaultEndpointsProtocol=http;AccountName=acct;AccountKey=a2V5;EndpointSuffix=core.chinacloudapi.cn",
			Settings{Account: "acct", Key: NewSecret("a2V5"), BlobEndpoint: "http://acct.blob.core.chinacloudapi.cn",
				QueueEndpoint: "http://acct.queue.core.chinacloudapi.cn", TableEndpoint: "http://acct.table.core.chinacloudapi.cn"},
		},
		"one explicit endpoint": {
			"AccountName=acct;AccountKey=a2V5;TableEndpoint=https://tables.example.org",
			Settings{Account: "acct", Key: NewSecret("a2V5"), BlobEndpoint: "https://acct.blob.core.windows.net",
				QueueEndpoint: "https://acct.queue.core.windows.net", TableEndpoint: "https://tables.example.org"},
		},
		"signature with endpoints": {
			"BlobEndpoint=https://acct.blob.core.windows.net/;SharedAccessSignature=?sv=2021-01-01&sig=abc%3D",
			Settings{SAS: NewSecret("sv=2021-01-01&sig=abc%3D"), BlobEndpoint: "https://acct.blob.core.windows.net"},
		},
		"signature with account": {
			"AccountName=acct;SharedAccessSignature=sv=2021-01-01&sig=abc=",
			Settings{Account: "acct", SAS: NewSecret("sv=2021-01-01&sig=abc="),
				BlobEndpoint:  "https://acct.blob.core.windows.net",
				QueueEndpoint: "https://acct.queue.core.windows.net", TableEndpoint: "https://acct.table.core.windows.net"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(Secret{})); diff != "" {
				t.Errorf("want(-) got(+):\n%s", diff)
			}
			again, err := Parse(got.Reveal())
			if err != nil {
				t.Fatalf("the written form does not parse: %v", err)
			}
			if diff := cmp.Diff(got, again, cmp.AllowUnexported(Secret{})); diff != "" {
				t.Errorf("written and read again: want(-) got(+):\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const secret = "c2VjcmV0LXZhbHVl"
	cases := map[string]struct{ in, says string }{
		"empty":                   {"", "it is empty"},
		"only separators":         {" ; ;", "it is empty"},
		"a bare key":              {secret, "no '='"},
		"unknown field":           {"AccountNam=a;AccountKey=" + secret, `"AccountNam"`},
		"no value":                {"AccountName=;AccountKey=" + secret, "AccountName has no value"},
		"twice":                   {"AccountName=a;accountname=b;AccountKey=" + secret, "given twice"},
		"development false":       {"UseDevelopmentStorage=false", "only be true"},
		"development and account": {"UseDevelopmentStorage=true;AccountKey=" + secret, "cannot be combined"},
		"proxy without scheme": {"UseDevelopmentStorage=true;DevelopmentStorageProxyUri=host",
			"DevelopmentStorageProxyUri"},
		"no credential":      {"AccountName=a", "neither"},
		"two credentials":    {"AccountName=a;AccountKey=" + secret + ";SharedAccessSignature=sig=" + secret, "both"},
		"key without name":   {"AccountKey=" + secret + ";BlobEndpoint=http://h", "needs AccountName"},
		"key not base64":     {"AccountName=a;AccountKey=" + secret + "!", "not base64"},
		"endpoint not a URL": {"AccountName=a;AccountKey=" + secret + ";QueueEndpoint=h:1", "QueueEndpoint"},
		"endpoint with a query": {"AccountName=a;AccountKey=" + secret + ";QueueEndpoint=http://h?sig=" + secret,
			"QueueEndpoint"},
		"protocol": {"DefaultEndpointsProtocol=ftp;AccountName=a;AccountKey=" + secret,
			"DefaultEndpointsProtocol"},
		"signature to nowhere": {"SharedAccessSignature=sig=" + secret, "no account and no endpoint"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.in)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Fatalf("got %v, want an ErrInvalid saying %q", err, c.says)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error repeats a secret: %v", err)
			}
		})
	}
}

func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	s, err := Parse("AccountName=acct;AccountKey=c2VjcmV0")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "settings", s, "key", s.Key)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "settings", s, "key", s.Key)
	asJSON, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprint(s, s.Key, &s) + fmt.Sprintf("%v %+v %#v %s %q %x %#v", s, s, s, s.Key, s.Key, s.Key, s.Key) +
		string(asJSON) + log.String()
	for _, leak := range []string{"c2VjcmV0", fmt.Sprintf("%x", "c2VjcmV0")} {
		if strings.Contains(shown, leak) {
			t.Errorf("a secret leaks: %s", shown)
		}
	}
	if !strings.Contains(shown, redacted) {
		t.Errorf("nothing shows that a secret is there: %s", shown)
	}
}

// Each client's request goes to the endpoint of its service with the credential of the string.
func TestClients(t *testing.T) {
	t.Parallel()
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization, _, _ := strings.Cut(r.Header.Get("Authorization"), ":")
		got = append(got, authorization+" "+r.URL.Path+" "+r.URL.Query().Get("sig"))
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()

	endpoints := fmt.Sprintf(";BlobEndpoint=%[1]s/b;QueueEndpoint=%[1]s/q;TableEndpoint=%[1]s/t", server.URL)
	for _, s := range []string{"AccountName=acct;AccountKey=a2V5" + endpoints,
		"SharedAccessSignature=sv=1&sig=SIG" + endpoints} {
		settings, err := Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		queues, err := settings.Queues(Options{})
		if err != nil {
			t.Fatal(err)
		}
		blobs, err := settings.Blobs(Options{})
		if err != nil {
			t.Fatal(err)
		}
		tables, err := settings.Tables(Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		_, err1 := queues.CreateQueue(ctx, "name", nil)
		_, err2 := blobs.CreateContainer(ctx, "name", nil)
		_, err3 := tables.CreateTable(ctx, "name", nil)
		if err1 == nil || err2 == nil || err3 == nil {
			t.Fatal("a request that was refused succeeded")
		}
	}
	want := []string{
		"SharedKey acct /q/name ", "SharedKey acct /b/name ", "SharedKeyLite acct /t/Tables ",
		" /q/name SIG", " /b/name SIG", " /t/Tables SIG",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests want(-) got(+):\n%s", diff)
	}
}

func TestClientWithoutEndpoint(t *testing.T) {
	t.Parallel()
	s, err := Parse("BlobEndpoint=http://127.0.0.1:1;SharedAccessSignature=sv=1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Queues(Options{}); !errors.Is(err, errNoEndpoint) {
		t.Errorf("got %v, want %v", err, errNoEndpoint)
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		Development:                     true,
		"AccountName=a;AccountKey=a2V5": false,
		"BlobEndpoint=http://localhost:1;SharedAccessSignature=x": true,
		"BlobEndpoint=http://[::1]:1;SharedAccessSignature=x":     true,
		"BlobEndpoint=http://10.0.0.1:1;SharedAccessSignature=x":  false,
	} {
		s, err := Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if s.Local() != want {
			t.Errorf("%s: Local() = %v", s, !want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Development)
	f.Add("AccountName=acct;AccountKey=a2V5;EndpointSuffix=core.windows.net")
	f.Add("BlobEndpoint=https://h/;SharedAccessSignature=?sv=1&sig=2")
	f.Fuzz(func(t *testing.T, s string) {
		settings, err := Parse(s)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		if _, err := Parse(settings.Reveal()); err != nil {
			t.Fatalf("%q is accepted but not its written form: %v", s, err)
		}
	})
}
