package server_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/devcert"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/operations"
	"github.com/lazuli-storage/lazuli/internal/test/signer"
)

// sender sends requests as the simplest clients do: the head, the whole body, and only then it reads.
type sender struct {
	server *server.Server
	roots  *x509.CertPool // nil for http
}

// overHTTPAndHTTPS runs a test with a server of each kind, which has a container, a blob, a queue and a table.
func overHTTPAndHTTPS(t *testing.T, test func(t *testing.T, s sender)) {
	t.Helper()
	made, err := devcert.Make(t.TempDir(), nil, time.Now())
	check.OK(t, err)
	secure, err := devcert.ServerConfig(filepath.Join(made.Dir, devcert.ServerCert),
		filepath.Join(made.Dir, devcert.ServerKey))
	check.OK(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(check.Must(os.ReadFile(filepath.Join(made.Dir, devcert.AuthorityCert)))(t))
	for name, config := range map[string]*tls.Config{"http": nil, "https": secure} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := server.Start(server.Config{InMemory: true, TLS: config, DataLake: "127.0.0.1:0"})
			check.OK(t, err)
			t.Cleanup(func() { _ = s.Stop(t.Context()) })
			for _, made := range []struct {
				service         wire.Service
				method, path    string
				body, name, has string
			}{
				{wire.Blob, "PUT", "/box?restype=container", "", "", ""},
				{wire.Blob, "PUT", "/box/thing", "x", "x-ms-blob-type", "BlockBlob"},
				{wire.Blob, "PUT", "/box/log", "", "x-ms-blob-type", "AppendBlob"},
				{wire.Queue, "PUT", "/line", "", "", ""},
				{wire.Table, "POST", "/Tables", `{"TableName":"Tab"}`, "Content-Type", "application/json"},
			} {
				r, err := http.NewRequest(made.method, s.InProcessURL(made.service, auth.DevelopmentAccount)+made.path,
					strings.NewReader(made.body))
				check.OK(t, err)
				r.Header.Set("x-ms-version", "2021-12-02")
				if made.name != "" {
					r.Header.Set(made.name, made.has)
				}
				resp, err := s.InProcess().RoundTrip(r)
				check.OK(t, err)
				if resp.Body.Close(); resp.StatusCode != http.StatusCreated {
					t.Fatalf("%s: %s", made.path, resp.Status)
				}
			}
			var trusted *x509.CertPool
			if config != nil {
				trusted = roots
			}
			test(t, sender{s, trusted})
		})
	}
}

// refused is a request, and the answer that it gets before its body is read.
type refused struct {
	name         string
	service      wire.Service
	method, path string
	headers      []string // names and values
	unsigned     bool
	badKey       bool
	chunked      bool
	from, to     int64 // the sizes at which the answer is this one; 0 is no bound
	status       int
	code         string
}

// zeros is a piece of a body.
var zeros = make([]byte, 64<<10)

// try sends a body of n bytes with a request, then reads, and wants the answer and a regular end of the connection.
func (s sender) try(t *testing.T, tt refused, n int64) {
	t.Helper()
	address := s.server.URL(tt.service, auth.DevelopmentAccount)
	u, err := url.Parse(address + tt.path)
	check.OK(t, err)
	r := &http.Request{Method: tt.method, URL: u, Header: http.Header{}, ContentLength: n}
	if tt.chunked {
		r.ContentLength = -1
	}
	r.Header.Set("x-ms-date", time.Now().UTC().Format(http.TimeFormat))
	r.Header.Set("x-ms-version", "2021-12-02")
	for i := 0; i < len(tt.headers); i += 2 {
		r.Header.Set(tt.headers[i], tt.headers[i+1])
	}
	if !tt.unsigned {
		secret := auth.DevelopmentKey
		if tt.badKey {
			secret = "AAAA" + secret[4:]
		}
		account := signer.Account{Name: auth.DevelopmentAccount, Key: signer.ParseKey(secret),
			Table: tt.service == wire.Table}
		account.SharedKey(r, u.EscapedPath())
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\n", tt.method, u.RequestURI(), u.Host)
	if tt.chunked {
		fmt.Fprintf(&head, "Transfer-Encoding: chunked\r\n")
	} else {
		fmt.Fprintf(&head, "Content-Length: %d\r\n", n)
	}
	check.OK(t, r.Header.Write(&head))
	head.WriteString("\r\n")
	if tt.chunked {
		fmt.Fprintf(&head, "%x\r\n", n)
	}

	c := s.connect(t, u.Host)
	defer c.Close()
	if _, err := c.Write(head.Bytes()); err != nil {
		t.Errorf("%s, %d bytes: sending the head: %v", tt.name, n, err)
		return
	}
	for left := n; left > 0; left -= int64(len(zeros)) {
		if _, err := c.Write(zeros[:min(left, int64(len(zeros)))]); err != nil {
			t.Errorf("%s, %d bytes: sending with %d left: %v", tt.name, n, left, err)
			return
		}
	}
	if tt.chunked {
		_, _ = io.WriteString(c, "\r\n0\r\n\r\n")
	}
	answers := bufio.NewReader(c)
	resp, err := http.ReadResponse(answers, r)
	if err != nil {
		t.Errorf("%s, %d bytes: no answer: %v", tt.name, n, err)
		return
	}
	text, err := io.ReadAll(resp.Body)
	// The header is there from version 2017-07-29 on, the element at every version.
	has := resp.Header.Get("x-ms-error-code") == tt.code || bytes.Contains(text, []byte("<Code>"+tt.code+"</Code>"))
	if err != nil || resp.StatusCode != tt.status || tt.code != "" && !has {
		t.Errorf("%s, %d bytes: %s %s, %v, want %d %s\n%s", tt.name, n, resp.Status, resp.Header.Get("x-ms-error-code"),
			err, tt.status, tt.code, text)
	}
	if !resp.Close {
		return
	}
	if _, err := answers.ReadByte(); err != io.EOF {
		t.Errorf("%s, %d bytes: %v after the answer", tt.name, n, err)
	}
}

func (s sender) connect(t *testing.T, host string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", host)
	check.OK(t, err)
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute)) // a test that hangs fails
	if s.roots == nil {
		return c
	}
	return tls.Client(c, &tls.Config{RootCAs: s.roots, ServerName: "127.0.0.1"})
}

// Each refusal of an operation that takes a body reaches a client that sends the whole body before it reads, whatever
// the size of the body.
func TestRefusalsOfLargeBodies(t *testing.T) {
	t.Parallel()
	sizes := []int64{1 << 20, 33 << 20}
	huge := map[string]bool{"wrong key": true, "exists": true, "block, no container": true, "a file, no path": true}
	block := []string{"x-ms-blob-type", "BlockBlob"}
	with := func(more ...string) []string { return append(more, block...) }
	const lease = "6a0d0d3c-0000-4000-8000-000000000000"
	list := []refused{
		{name: "no credential", service: wire.Blob, method: "PUT", path: "/box/b", headers: block, unsigned: true,
			status: 401, code: "NoAuthenticationInformation"},
		{name: "a token without a signature", service: wire.Blob, method: "PUT", path: "/box/b?sv=2021-12-02&sig=x",
			headers: block, unsigned: true, status: 403, code: "AuthenticationFailed"},
		{name: "wrong key", service: wire.Blob, method: "PUT", path: "/box/b", headers: block, badKey: true, status: 403,
			code: "AuthenticationFailed"},
		{name: "no container", service: wire.Blob, method: "PUT", path: "/none/b", headers: block, status: 404,
			code: "ContainerNotFound"},
		{name: "exists", service: wire.Blob, method: "PUT", path: "/box/thing", headers: with("If-None-Match", "*"),
			status: 409, code: "BlobAlreadyExists"},
		{name: "another ETag", service: wire.Blob, method: "PUT", path: "/box/thing",
			headers: with("If-Match", `"0x8D000000000000"`), status: 412, code: "ConditionNotMet"},
		{name: "no such lease", service: wire.Blob, method: "PUT", path: "/box/thing",
			headers: with("x-ms-lease-id", lease), status: 412, code: "LeaseNotPresentWithBlobOperation"},
		{name: "a tier that is none", service: wire.Blob, method: "PUT", path: "/box/b",
			headers: with("x-ms-access-tier", "Warm"), status: 400, code: "InvalidHeaderValue"},
		{name: "no blob type", service: wire.Blob, method: "PUT", path: "/box/b", status: 400},
		{name: "no length", service: wire.Blob, method: "PUT", path: "/box/b", headers: block, chunked: true, status: 411,
			code: "MissingContentLengthHeader"},
		{name: "a method that is none", service: wire.Blob, method: "PATCH", path: "/box/b", status: 405},
		{name: "block, no container", service: wire.Blob, method: "PUT", path: "/none/b?comp=block&blockid=YQ==",
			status: 404, code: "ContainerNotFound"},
		{name: "block, no id", service: wire.Blob, method: "PUT", path: "/box/b?comp=block&blockid=!", status: 400},
		{name: "block, too large", service: wire.Blob, method: "PUT", path: "/box/b?comp=block&blockid=YQ==",
			headers: []string{"x-ms-version", "2015-02-21"}, from: 5 << 20, status: 413, code: "RequestBodyTooLarge"},
		{name: "append, another position", service: wire.Blob, method: "PUT", path: "/box/log?comp=appendblock",
			headers: []string{"x-ms-blob-condition-appendpos", "7", "x-ms-version", "2023-01-03"}, to: 100 << 20, status: 412,
			code: "AppendPositionConditionNotMet"},
		{name: "append, too large", service: wire.Blob, method: "PUT", path: "/box/log?comp=appendblock", from: 5 << 20,
			status: 413, code: "RequestBodyTooLarge"},
		{name: "pages, too large", service: wire.Blob, method: "PUT", path: "/box/p?comp=page",
			headers: []string{"x-ms-page-write", "update", "x-ms-range", "bytes=0-511"}, from: 5 << 20, status: 413},
		{name: "a message", service: wire.Queue, method: "POST", path: "/line/messages", status: 413,
			code: "RequestBodyTooLarge"},
		{name: "a message, wrong key", service: wire.Queue, method: "POST", path: "/line/messages", badKey: true,
			status: 403, code: "AuthenticationFailed"},
		{name: "an entity", service: wire.Table, method: "POST", path: "/Tab",
			headers: []string{"Content-Type", "application/json"}, from: 5 << 20, status: 413},
		{name: "an entity in chunks", service: wire.Table, method: "POST", path: "/Tab",
			headers: []string{"Content-Type", "application/json"}, from: 5 << 20, chunked: true, status: 413},
		{name: "a transaction, wrong key", service: wire.Table, method: "POST", path: "/$batch",
			headers: []string{"Content-Type", "multipart/mixed; boundary=b"}, badKey: true, status: 403},
		{name: "a file, no filesystem", service: wire.DataLake, method: "PATCH", path: "/none/f?action=append&position=0",
			status: 404, code: "FilesystemNotFound"},
		{name: "a file, no path", service: wire.DataLake, method: "PATCH", path: "/box/none?action=append&position=0",
			status: 404, code: "PathNotFound"},
		{name: "a file, wrong key", service: wire.DataLake, method: "PATCH", path: "/box/f?action=append&position=0",
			badKey: true, status: 403, code: "AuthenticationFailed"},
	}
	overHTTPAndHTTPS(t, func(t *testing.T, s sender) {
		for _, tt := range list {
			for _, n := range sizes {
				if n >= tt.from && (tt.to == 0 || n <= tt.to) {
					s.try(t, tt, n)
				}
			}
			if huge[tt.name] && !testing.Short() {
				s.try(t, tt, 200<<20)
			}
		}
	})
}

// No operation of any service, whatever its method, breaks the connection of a client whose credential it refuses.
func TestRefusedCredentialsOfEveryOperation(t *testing.T) {
	t.Parallel()
	paths := map[frontend.Level]string{"service": "/", "container": "/box", "blob": "/box/thing", "queue": "/line",
		"messages": "/line/messages", "message": "/line/messages/1", "batch": "/$batch", "tables": "/Tables",
		"one table": "/Tables('Tab')", "table": "/Tab", "filesystem": "/box", "path": "/box/thing"}
	tables := operations.Tables(t)
	overHTTPAndHTTPS(t, func(t *testing.T, s sender) {
		for service, rows := range tables {
			for _, row := range rows {
				if row.Method == http.MethodOptions || row.Method == http.MethodHead {
					continue
				}
				path, ok := paths[row.On]
				if !ok {
					path = "/Tab(PartitionKey='p',RowKey='r')"
				}
				query := url.Values{}
				if row.Comp != "" {
					query.Set("comp", row.Comp)
				}
				if row.Restype != "" {
					query.Set("restype", row.Restype)
				}
				if len(query) > 0 {
					path += "?" + query.Encode()
				}
				s.try(t, refused{name: fmt.Sprint(service, " ", row.Name), service: service, method: row.Method, path: path,
					badKey: true, status: 403}, 1<<20)
			}
		}
	})
}
