package parameters

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/signer"
)

// rawRequest is a request whose head a test writes itself.
type rawRequest struct {
	name, line string
	header     []string // besides those of the signature
	body       string
	// waits is set if the client waits for 100 Continue before it sends the body.
	waits bool
	wrong bool // the signature is that of another request
}

// large is content that needs more than one message between nodes.
var large = strings.Repeat("0123456789abcdef", 40<<10)

// rawRequests are sent one after the other, to the container "box" of an account.
var rawRequests = []rawRequest{
	{name: "a container", line: "PUT /box?restype=container", header: []string{"Content-Length: 0"}},
	{name: "a blob", line: "PUT /box/b", body: "content",
		header: []string{"Content-Length: 7", "x-ms-blob-type: BlockBlob", "x-ms-meta-CamelCase: One"}},
	{name: "its case of letters", line: "HEAD /box/b"},
	{name: "a range", line: "GET /box/b", header: []string{"Range: bytes=2-3"}},
	{name: "a range behind the end", line: "GET /box/b", header: []string{"Range: bytes=20-30"}},
	{name: "a condition", line: "GET /box/b", header: []string{"If-None-Match: *"}},
	{name: "no length", line: "PUT /box/c", header: []string{"x-ms-blob-type: BlockBlob"}},
	{name: "chunks", line: "PUT /box/c", body: "7\r\ncontent\r\n0\r\n\r\n",
		header: []string{"Transfer-Encoding: chunked", "x-ms-blob-type: BlockBlob"}},
	{name: "100 Continue", line: "PUT /box/d", waits: true, body: "content",
		header: []string{"Content-Length: 7", "Expect: 100-continue", "x-ms-blob-type: BlockBlob"}},
	{name: "no 100 Continue", line: "PUT /box/d", waits: true, body: "content", wrong: true,
		header: []string{"Content-Length: 7", "Expect: 100-continue", "x-ms-blob-type: BlockBlob"}},
	{name: "a large body", line: "PUT /box/e", body: large,
		header: []string{fmt.Sprint("Content-Length: ", len(large)), "x-ms-blob-type: BlockBlob"}},
	{name: "a large body with another MD5", line: "PUT /box/e", body: large,
		header: []string{fmt.Sprint("Content-Length: ", len(large)), "x-ms-blob-type: BlockBlob",
			"Content-MD5: " + md5Of("other")}},
	{name: "a large body that is refused", line: "PUT /box/e", body: large, wrong: true,
		header: []string{fmt.Sprint("Content-Length: ", len(large)), "x-ms-blob-type: BlockBlob"}},
	{name: "a large answer", line: "GET /box/e"},
	{name: "no such blob", line: "GET /box/none"},
	{name: "no such verb", line: "PATCH /box/b", header: []string{"Content-Length: 0"}},
}

// raw compares what comes over the connection: the status line, the order of the headers, 100 Continue.
func (p places) raw(t *testing.T) {
	accounts := make([]string, len(p))
	for i, f := range p {
		accounts[i] = f.stage(t, "blob", false).account
	}
	for _, r := range rawRequests {
		want := p[0].exchange(t, accounts[0], r)
		for i, f := range p[1:] {
			if got := f.exchange(t, accounts[i+1], r); got != want {
				t.Errorf("%s: %s and %s differ:\n%s", r.name, placeNames[0], placeNames[i+1], difference(want, got))
			}
		}
	}
}

// exchange sends a request over a connection of its own, and returns what comes back.
func (f *fixture) exchange(t *testing.T, account string, r rawRequest) string {
	t.Helper()
	host := strings.TrimPrefix(f.address("blob", account), "https://")
	method, path, _ := strings.Cut(r.line, " ")
	hr := httptest.NewRequest(method, "https://"+host+"/"+account+path, strings.NewReader(r.body))
	hr.ContentLength = -1
	lines := []string{"x-ms-version: 2026-10-06", "x-ms-date: " + time.Now().UTC().Format(http.TimeFormat)}
	for _, line := range append(lines, r.header...) {
		name, value, _ := strings.Cut(line, ": ")
		if hr.Header.Set(name, value); name == "Content-Length" {
			_, err := fmt.Sscan(value, &hr.ContentLength)
			check.OK(t, err)
		}
	}
	signed := hr.URL.EscapedPath()
	if r.wrong {
		signed += "x"
	}
	signer.Account{Name: account, Key: key}.SharedKey(hr, signed)
	lines = append(append(lines, r.header...), "Host: "+host, "Authorization: "+hr.Header.Get("Authorization"),
		"Connection: close")
	conn := check.Must(tls.Dial("tcp", host, &tls.Config{InsecureSkipVerify: true}))(t)
	defer conn.Close()
	check.OK(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	head := method + " /" + account + path + " HTTP/1.1\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	check.Must(io.WriteString(conn, head))(t)
	in, before := bufio.NewReader(conn), ""
	if r.waits {
		first := check.Must(in.ReadString('\n'))(t)
		if !strings.Contains(first, "100 Continue") {
			return normal(first + string(check.Must(io.ReadAll(in))(t)))
		}
		first += check.Must(in.ReadString('\n'))(t)
		if !r.wrong { // before it refuses, a node may have read a small body in order to pass it on
			before = first
		}
	}
	// A server that refuses a body may close the connection before all of it is sent.
	_, _ = io.WriteString(conn, r.body)
	return normal(before + string(check.Must(io.ReadAll(in))(t)))
}

// normal returns an answer without what differs from time to time.
func normal(text string) string {
	for _, m := range moves {
		text = m.from.ReplaceAllString(text, m.to)
	}
	for _, m := range times {
		text = m.ReplaceAllString(text, "T")
	}
	text = strings.Replace(text, "Connection: close\r\n", "", 1) // it repeats what the request said, at any place
	return signatures.ReplaceAllString(text, "'S'")
}

// signatures finds the signatures that an answer shows.
var signatures = regexp.MustCompile(`'[A-Za-z0-9+/]{43}='`)
