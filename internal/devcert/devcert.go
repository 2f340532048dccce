package devcert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
)

// Names of the files that [Make] writes.
const (
	AuthorityCert = "ca.pem"
	AuthorityKey  = "ca-key.pem"
	ServerCert    = "cert.pem"
	ServerKey     = "key.pem"
)

// Lifetimes. Operating systems refuse server certificates of more than 825 days.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	serverLife    = 397 * 24 * time.Hour
	// renewBefore is the time before its end a server certificate is replaced by [Make].
	renewBefore = 30 * 24 * time.Hour
)

// localDomains are the DNS names for which the authority may sign, with all names below them. "lazuli" is what the
// service is called in a compose file.
var localDomains = []string{"localhost", "local", "internal", "test", "lazuli"}

// hosts are the names and addresses that every server certificate has.
func hosts() []string {
	return []string{"localhost", "*.localhost", "*.blob.localhost", "*.dfs.localhost", "*.queue.localhost",
		"*.table.localhost",
		"127.0.0.1", "::1", "lazuli", "host.docker.internal"}
}

// Result says what [Make] found or wrote.
type Result struct {
	// Dir is the folder; the four files have the names above.
	Dir string
	// NewAuthority and NewServer say what was made; a good certificate stays.
	NewAuthority, NewServer bool
	// NotAfter is the time at which the server certificate ends.
	NotAfter time.Time
}

// Make makes an authority and a server certificate in dir, which it creates, and keeps what is there and good: the
// authority as long as it lives, the server certificate as long as it covers all hosts and has a month left. extra
// are further names and addresses; one that [Allowed] refuses is an error, since the authority could not sign for it.
// An authority that may not sign for the names of an account on Azure is replaced by one that may sign for those that
// extra has, and those that the old one had.
func Make(dir string, extra []string, now time.Time) (Result, error) {
	r := Result{Dir: dir}
	for _, host := range extra {
		if !Allowed(host) {
			return r, fmt.Errorf("%q is %s; get its certificate from a public authority "+
				"and give it to lazuli with --cert and --key", host, NotAllowed)
		}
	}
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return r, err
	}
	ca, caKey, err := load(dir, AuthorityCert, AuthorityKey)
	switch {
	// No authority yet: ca stays nil, and one is made below.
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return r, err
	}
	permitted := accountHosts(extra)
	if ca != nil {
		// A new authority may sign for all that the old one could, or hosts that were named before would lose their
		// certificate.
		permitted = append(permitted, accountHosts(ca.PermittedDNSDomains)...)
	}
	slices.Sort(permitted)
	permitted = slices.Compact(permitted)
	// Made again early enough for a server certificate to live its whole life under it.
	if ca == nil || now.After(ca.NotAfter.Add(-serverLife/2)) ||
		len(permitted) > len(accountHosts(ca.PermittedDNSDomains)) {
		if ca, caKey, err = makeAuthority(dir, permitted, now); err != nil {
			return r, err
		}
		r.NewAuthority = true
	}
	hosts := append(hosts(), extra...)
	leaf, _, err := load(dir, ServerCert, ServerKey)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	// A certificate of an earlier authority is no longer trusted by those that get the new one.
	if leaf == nil || leaf.CheckSignatureFrom(ca) != nil || now.After(leaf.NotAfter.Add(-renewBefore)) ||
		!covers(leaf, hosts) {
		if leaf, err = makeServer(dir, ca, caKey, hosts, now); err != nil {
			return r, err
		}
		r.NewServer = true
	}
	r.NotAfter = leaf.NotAfter
	return r, nil
}

// NotAllowed says what a host is that [Allowed] refuses.
const NotAllowed = "no local name, private address or host of a storage account on Azure"

// accountHost matches the host of a storage account on Azure: clients that know no other hosts take the server for
// Azure, by /etc/hosts. https://learn.microsoft.com/azure/storage/common/storage-account-overview#storage-account-endpoints
var accountHost = lazyregexp.New(`^[a-z0-9]{3,24}(-secondary)?\.(blob|dfs|queue|table)\.core\.windows\.net$`)

// accountHosts returns the hosts of storage accounts on Azure among names, in lower case.
func accountHosts(names []string) (list []string) {
	for _, name := range names {
		if name = strings.ToLower(name); accountHost().MatchString(name) {
			list = append(list, name)
		}
	}
	return list
}

// Allowed reports whether the authority may sign for a host: localhost, local, internal, test, lazuli, a name below one
// of them, an address of a private or loopback network, or the host of one storage account on Azure.
func Allowed(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast()
	}
	name := strings.TrimPrefix(strings.ToLower(host), "*.")
	if name == "" || strings.ContainsAny(name, " */:\\\x00") || strings.HasPrefix(name, ".") ||
		strings.HasSuffix(name, ".") {
		return false
	}
	if accountHost().MatchString(name) && name == strings.ToLower(host) {
		return true
	}
	for _, d := range localDomains {
		if name == d || strings.HasSuffix(name, "."+d) {
			return true
		}
	}
	return false
}

func covers(leaf *x509.Certificate, hosts []string) bool {
	for _, host := range hosts {
		// VerifyHostname knows no wildcards on its left side.
		if leaf.VerifyHostname(strings.Replace(host, "*", "any", 1)) != nil {
			return false
		}
	}
	return true
}

// load reads a certificate and its key. Its error is fs.ErrNotExist if either file is absent.
func load(dir, certName, keyName string) (*x509.Certificate, crypto.Signer, error) {
	certText, err := os.ReadFile(filepath.Join(dir, certName))
	if err != nil {
		return nil, nil, err
	}
	keyText, err := secretfile.Read(filepath.Join(dir, keyName), 64<<10)
	if err != nil {
		return nil, nil, err
	}
	bad := func(name string) error {
		return fmt.Errorf("%s cannot be read; remove it to make another", filepath.Join(dir, name))
	}
	certBlock, _ := pem.Decode(certText)
	keyBlock, _ := pem.Decode(keyText)
	if certBlock == nil {
		return nil, nil, bad(certName)
	}
	if keyBlock == nil {
		return nil, nil, bad(keyName)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, nil, bad(certName)
	}
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	signer, ok := key.(*ecdsa.PrivateKey)
	if err != nil || !ok || !signer.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, bad(keyName)
	}
	return cert, signer, nil
}

// makeAuthority makes an authority for local names, private addresses, and the given hosts of accounts on Azure: it
// cannot be used against any other account.
func makeAuthority(dir string, accounts []string, now time.Time) (*x509.Certificate, crypto.Signer, error) {
	host, _ := os.Hostname() // only so that people can tell authorities apart
	template := &x509.Certificate{
		Subject: pkix.Name{Organization: []string{"Lazuli development"},
			CommonName: "Lazuli local authority " + host},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         append(slices.Clip(localDomains), accounts...),
		PermittedIPRanges: []*net.IPNet{network("127.0.0.0/8"), network("10.0.0.0/8"), network("172.16.0.0/12"),
			network("192.168.0.0/16"),
			network("169.254.0.0/16"), network("::1/128"), network("fc00::/7"), network("fe80::/10")},
	}
	return create(dir, AuthorityCert, AuthorityKey, template, nil, nil)
}

func network(s string) *net.IPNet {
	_, n, err := net.ParseCIDR(s)
	if err != nil {
		panic("devcert: " + err.Error())
	}
	return n
}

func makeServer(dir string, ca *x509.Certificate, caKey crypto.Signer, hosts []string,
	now time.Time) (*x509.Certificate, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{Organization: []string{"Lazuli development"}, CommonName: "localhost"},
		NotBefore:   now.Add(-time.Hour),
		NotAfter:    now.Add(serverLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if template.NotAfter.After(ca.NotAfter) {
		template.NotAfter = ca.NotAfter
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, strings.ToLower(host))
		}
	}
	leaf, _, err := create(dir, ServerCert, ServerKey, template, ca, caKey)
	return leaf, err
}

// create makes a key and a certificate, signed by parent or by itself, and writes both.
func create(dir, certName, keyName string, template, parent *x509.Certificate,
	parentKey crypto.Signer) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	chain := []byte(nil)
	if parent == nil {
		parent, parentKey = template, key
	} else { // so that clients which know the authority find it
		chain = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: parent.Raw})
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	if err := secretfile.Write(filepath.Join(dir, keyName),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})); err != nil {
		return nil, nil, err
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), chain...)
	if err := disk.WriteFile(dir, certName, text); err != nil {
		return nil, nil, err
	}
	// Every client may read a certificate.
	if err := os.Chmod(filepath.Join(dir, certName), 0o644); err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}
