// Package azurehosts lets programs that have addresses of Azure Storage use a Lazuli: a proxy has a certificate for the
// hosts of the accounts.
package azurehosts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Proxy answers CONNECT for hosts of Azure, ends TLS, and sends the requests to a Lazuli, with their Host.
type Proxy struct {
	address     string
	certificate tls.Certificate
	account     Account
	toServer    *http.Transport
	issuer      *url.URL // nil for none
}

// loginHost is the host of Microsoft Entra ID.
const loginHost = "login.microsoftonline.com"

// UseIssuer answers for Microsoft Entra ID with the token issuer of the server. Its argument is the address that
// IDENTITY_ENDPOINT has.
func (p *Proxy) UseIssuer(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	u.Path = strings.TrimSuffix(u.Path, "/msi/token")
	p.issuer = u
	return nil
}

// StartProxy starts a proxy on a free port, to the endpoints of an account. That of Blob serves the hosts of dfs as
// well.
func StartProxy(account Account) (*Proxy, error) {
	// The server's certificate is for its own host names.
	p := &Proxy{account: account, toServer: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	if err := p.makeCertificate(); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p.address = l.Addr().String()
	// One server has all connections, whatever their host.
	inner := &http.Server{Handler: http.HandlerFunc(p.forward), ReadHeaderTimeout: time.Minute}
	connections := &accepted{c: make(chan net.Conn), address: l.Addr()}
	go func() { log.Print(inner.Serve(connections)) }()
	server := &http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { p.connect(w, r, connections) }), ReadHeaderTimeout: time.Minute}
	go func() { log.Print(server.Serve(l)) }()
	return p, nil
}

// connect takes over a connection after CONNECT.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request, to *accepted) {
	if p.service(r.Host) == "" || r.Method != http.MethodConnect {
		http.Error(w, "no host of Azure Storage", http.StatusBadGateway)
		return
	}
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		log.Print(err)
		return
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		_ = c.Close()
		return
	}
	to.c <- tls.Server(c, &tls.Config{Certificates: []tls.Certificate{p.certificate}})
}

// service returns the service whose endpoint answers for a host such as account.blob.core.windows.net, "login" for
// Microsoft Entra ID, "" for others.
func (p *Proxy) service(host string) string {
	if p.issuer != nil && strings.TrimSuffix(host, ":443") == loginHost {
		return "login"
	}
	labels := strings.SplitN(host, ".", 3)
	if len(labels) != 3 || !strings.HasPrefix(labels[2], "core.windows.net") {
		return ""
	}
	if labels[1] == "dfs" { // the Blob address serves it, by the name of the host
		return "blob"
	}
	if p.account.Endpoints[labels[1]] == "" {
		return ""
	}
	return labels[1]
}

func (p *Proxy) forward(w http.ResponseWriter, r *http.Request) {
	service := p.service(r.Host)
	target := p.account.Endpoints[service]
	w.Header()["Content-Type"] = nil // an answer without a type gets none
	(&httputil.ReverseProxy{Transport: p.toServer, Rewrite: func(r *httputil.ProxyRequest) {
		if service == "login" {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.URL.Path = p.issuer.Scheme, p.issuer.Host, p.issuer.Path+r.In.URL.Path
			return
		}
		r.Out.URL.Scheme, r.Out.URL.Host = "http", target
		if p.account.TLS {
			r.Out.URL.Scheme = "https"
		}
		r.Out.Host = r.In.Host
	}}).ServeHTTP(w, r)
}

// makeCertificate makes a certificate for the hosts of all accounts.
func (p *Proxy) makeCertificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Lazuli's test of clients"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"*.blob.core.windows.net", "*.dfs.core.windows.net", "*.queue.core.windows.net",
			"*.table.core.windows.net", loginHost}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	p.certificate = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return err
}

// Direct is a client that sends requests to the server without the proxy.
func (p *Proxy) Direct() *http.Client { return &http.Client{Transport: p.toServer} }

// Environment returns the variables with which a program uses the proxy and trusts its certificate, written to the
// folder.
func (p *Proxy) Environment(folder string) ([]string, error) {
	file := filepath.Join(folder, "ca.pem")
	err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.certificate.Certificate[0]}),
		0o600)
	return append(os.Environ(), "HTTPS_PROXY=http://"+p.address, "NO_PROXY=127.0.0.1,localhost", "SSL_CERT_FILE="+file,
		"NODE_EXTRA_CA_CERTS="+file, "REQUESTS_CA_BUNDLE="+file), err
}

// accepted is a listener of connections that are handed to it.
type accepted struct {
	c       chan net.Conn
	address net.Addr
}

func (a *accepted) Accept() (net.Conn, error) { return <-a.c, nil }
func (a *accepted) Close() error              { return nil }
func (a *accepted) Addr() net.Addr            { return a.address }
