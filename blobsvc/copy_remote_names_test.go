package blobsvc_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

// Answers to copies do not tell which names a private network has: a name that leads to a private address is answered
// like one that does not exist.
func TestCopySourceNamesAreNotTold(t *testing.T) {
	t.Parallel()
	resolver := nameServer(t, "internal.example.", [4]byte{10, 0, 0, 1})
	f := startWith(t, func(c *blobhost.Config) { c.Egress = egress.Policy{Hosts: []string{"*"}, Resolver: resolver} })
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	for _, operation := range [][]string{{"x-ms-blob-type", "BlockBlob"}, {"x-ms-requires-sync", "true"}, nil} {
		ask := func(host string) reply {
			t.Helper()
			r := f.do("PUT", "/box/copy", "",
				append([]string{"x-ms-copy-source", "http://" + host + "/secret"}, operation...)...)
			r.body, _, _ = strings.Cut(r.body, "RequestId")
			return r.want(t, 500, "CannotVerifyCopySource")
		}
		there, absent := ask("internal.example"), ask("absent.example")
		if there.body != absent.body || len(there.header) != len(absent.header) {
			t.Errorf("%v: a name of the private network is answered\n%v %s\nand one that does not exist\n%v %s", operation,
				there.header, there.body, absent.header, absent.body)
		}
	}
}

// nameServer is a resolver that knows one name.
func nameServer(t *testing.T, name string, address [4]byte) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) == 0 {
				continue
			}
			answer := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true,
				RCode: dnsmessage.RCodeNameError}, Questions: m.Questions}
			if q := m.Questions[0]; strings.EqualFold(q.Name.String(), name) {
				answer.RCode = dnsmessage.RCodeSuccess
				if q.Type == dnsmessage.TypeA {
					answer.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type,
						Class: q.Class}, Body: &dnsmessage.AResource{A: address}}}
				}
			}
			if packed, err := answer.Pack(); err == nil {
				_, _ = conn.WriteTo(packed, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}
