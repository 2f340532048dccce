package peering

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"os"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
)

// MinSecret and maxSecret bound the length of the shared secret in bytes, without white space at its ends.
const (
	MinSecret = 32
	maxSecret = 4 << 10
)

// tlsName is the name that certificates have that are derived from the secret.
const tlsName = "node.lazuli-cluster.internal"

// credentials authenticate the connections between nodes.
type credentials struct {
	password string      // "" without a secret
	tls      *tls.Config // nil without a secret and certificates
}

// loadCredentials reads the files that the configuration names.
func loadCredentials(c *Config) (credentials, error) {
	var cred credentials
	if c.SecretFile != "" {
		secret, err := readSecret(c.SecretFile)
		if err != nil {
			return cred, err
		}
		if cred.password, err = derivePassword(secret); err != nil {
			return cred, err
		}
		if c.CAFile == "" {
			if cred.tls, err = deriveTLS(secret); err != nil {
				return cred, err
			}
		}
	}
	if c.CAFile != "" {
		var err error
		if cred.tls, err = loadTLS(c); err != nil {
			return cred, err
		}
	}
	return cred, nil
}

// ErrShortSecret means that the secret of a cluster has fewer than [MinSecret] characters.
var ErrShortSecret = errors.New("the cluster's secret is too short")

// Secret returns the secret that all nodes share, for keys that are derived from it.
func (c *Config) Secret() ([]byte, error) { return readSecret(c.SecretFile) }

func readSecret(path string) ([]byte, error) {
	secret, err := secretfile.Read(path, maxSecret)
	if err != nil {
		return nil, fmt.Errorf("the cluster's secret: %w", err)
	}
	if secret = bytes.TrimSpace(secret); len(secret) < MinSecret {
		return nil, fmt.Errorf("%w: %s has %d characters, and needs %d or more: `openssl rand -hex 32` makes one",
			ErrShortSecret, path, len(secret), MinSecret)
	}
	return secret, nil
}

// derivePassword derives the password that a node presents. The secret cannot be computed from it.
func derivePassword(secret []byte) (string, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "lazuli cluster password", 32)
	return hex.EncodeToString(key), err
}

// deriveTLS derives an authority from the secret, so that all nodes have the same one, and signs a certificate of this
// process with it. The certificates have no end that a wrong clock could miss; a new secret replaces them.
func deriveTLS(secret []byte) (*tls.Config, error) {
	seed, err := hkdf.Key(sha256.New, secret, nil, "lazuli cluster authority", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	// The key of the authority comes from the secret alone, so all nodes trust each other without having exchanged
	// anything. The certificate of a process is random and lives as long as it.
	authorityKey := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Lazuli cluster"},
		// A node whose clock is wrong must not be shut out of the cluster that could tell it.
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	authority, err := sign(template, template, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf, err := sign(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: tlsName},
		// One name for all nodes: what is proved is membership, not which address answered.
		DNSNames:  []string{tlsName},
		NotBefore: template.NotBefore, NotAfter: template.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, authority, public,
		authorityKey)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority)
	config := mutualTLS(tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}, pool)
	config.ServerName = tlsName
	return config, nil
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, by crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// loadTLS reads the authority and the certificate of this node.
func loadTLS(c *Config) (*tls.Config, error) {
	authority, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("the cluster's authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("the cluster's authority: %s has no certificate in PEM", c.CAFile)
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("the node's certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("the node's certificate: %w", err)
	}
	// A node is server and client of its peers: both uses must be allowed.
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: intermediates(pair),
			KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
			return nil, fmt.Errorf("the node's certificate %s is not accepted by the cluster's authority for servers and "+
				"clients: %w", c.CertFile, err)
		}
	}
	return mutualTLS(pair, pool), nil
}

func intermediates(pair tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			pool.AddCert(cert)
		}
	}
	return pool
}

func mutualTLS(pair tls.Certificate, authorities *x509.CertPool) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: authorities,
		ClientCAs:  authorities,
		ClientAuth: tls.RequireAndVerifyClientCert}
}

var errSecret = errors.New("it presented another secret than this node has")

// checkPassword compares a presented password in constant time.
func (c *credentials) checkPassword(password string) error {
	if !hmac.Equal([]byte(password), []byte(c.password)) {
		return errSecret
	}
	return nil
}
