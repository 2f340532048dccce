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
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Proxy answers CONNECT for hosts of Azure, ends TLS, and sends what comes to a Lazuli, which knows the hosts.
type Proxy struct {
	address     string
	certificate tls.Certificate
	account     Account
	toServer    *tls.Config
	issuer      string // address of the server's token issuer, "" for none
}

// loginHost is the host of Microsoft Entra ID.
const loginHost = "login.microsoftonline.com"

// UseIssuer answers for Microsoft Entra ID with the token issuer at an address.
func (p *Proxy) UseIssuer(address string) { p.issuer = address }

// StartProxy starts a proxy on a free port, to the endpoints of an account. That of Blob serves the hosts of dfs as
// well.
func StartProxy(account Account) (*Proxy, error) {
	// The server's certificate is for its own host names.
	p := &Proxy{account: account, toServer: &tls.Config{InsecureSkipVerify: true}}
	if err := p.makeCertificate(); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p.address = l.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(p.connect), ReadHeaderTimeout: time.Minute}
	go func() { log.Print(server.Serve(l)) }()
	return p, nil
}

// connect takes over a connection after CONNECT.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	to, secure := p.target(r.Host)
	if to == "" || r.Method != http.MethodConnect {
		http.Error(w, "no host of Azure Storage", http.StatusBadGateway)
		return
	}
	var server net.Conn
	var err error
	if secure {
		server, err = tls.Dial("tcp", to, p.toServer)
	} else {
		server, err = net.Dial("tcp", to)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		_ = server.Close()
		log.Print(err)
		return
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		_, _ = c.Close(), server.Close()
		return
	}
	client := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{p.certificate}})
	go relay(client, server)
	go relay(server, client)
}

// relay copies what one end sends, as it is: names of headers keep their case.
func relay(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_, _ = to.Close(), from.Close()
}

// target returns the address that answers for a host such as account.blob.core.windows.net, "" for others, and whether
// it expects TLS.
func (p *Proxy) target(host string) (address string, secure bool) {
	host = strings.TrimSuffix(host, ":443")
	if host == loginHost {
		return p.issuer, false
	}
	labels := strings.SplitN(host, ".", 3)
	if len(labels) != 3 || labels[2] != "core.windows.net" {
		return "", false
	}
	service := labels[1]
	if service == "dfs" { // the Blob address serves it, by the name of the host
		service = "blob"
	}
	return p.account.Endpoints[service], p.account.TLS
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
func (p *Proxy) Direct() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: p.toServer}}
}

// Environment returns the variables with which a program uses the proxy and trusts its certificate, written to the
// folder.
func (p *Proxy) Environment(folder string) ([]string, error) {
	file := filepath.Join(folder, "ca.pem")
	err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.certificate.Certificate[0]}),
		0o600)
	return append(os.Environ(), "HTTPS_PROXY=http://"+p.address, "NO_PROXY=127.0.0.1,localhost", "SSL_CERT_FILE="+file,
		"NODE_EXTRA_CA_CERTS="+file, "REQUESTS_CA_BUNDLE="+file), err
}
