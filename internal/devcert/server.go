package devcert

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"software.sslmate.com/src/go-pkcs12"
)

// checkEvery is the interval at which the files of a served certificate are looked at.
const checkEvery = 10 * time.Second

// ServerConfig is the TLS configuration of a server with the certificate and key of two PEM files: TLS 1.2 and
// later. When the files change, new connections get the new certificate; a pair that cannot be used
// leaves the old one in place.
func ServerConfig(certFile, keyFile string) (*tls.Config, error) {
	p := &pair{files: []string{certFile, keyFile},
		load: func() (tls.Certificate, error) { return tls.LoadX509KeyPair(certFile, keyFile) }}
	if err := p.read(); err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
	}
	return p.config(), nil
}

// ServerConfigPFX is ServerConfig for a PFX (PKCS #12) file, which has the certificate, its chain and the key,
// encrypted with a password.
func ServerConfigPFX(file, password string) (*tls.Config, error) {
	p := &pair{files: []string{file}, load: func() (tls.Certificate, error) { return loadPFX(file, password) }}
	if err := p.read(); err != nil {
		return nil, fmt.Errorf("certificate %s: %w", file, err)
	}
	return p.config(), nil
}

// maxPFX bounds a PFX file in bytes.
const maxPFX = 1 << 20

func loadPFX(file, password string) (c tls.Certificate, err error) {
	f, err := os.Open(file)
	if err != nil {
		return c, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPFX))
	if err != nil {
		return c, err
	}
	key, leaf, chain, err := pkcs12.DecodeChain(data, password)
	if errors.Is(err, pkcs12.ErrIncorrectPassword) {
		return c, errors.New("the password of the PFX file is wrong; it is --pwd or LAZULI_PWD")
	}
	if err != nil {
		return c, fmt.Errorf("not a PFX file with a certificate and a key: %w", err)
	}
	c = tls.Certificate{PrivateKey: key, Leaf: leaf, Certificate: [][]byte{leaf.Raw}}
	for _, above := range chain {
		c.Certificate = append(c.Certificate, above.Raw)
	}
	return c, nil
}

// pair is a certificate with its key, as files have it.
type pair struct {
	files []string
	load  func() (tls.Certificate, error)

	mu      sync.Mutex
	cert    *tls.Certificate // guarded by mu, like the rest
	stamp   []time.Time      // when the files were changed
	checked time.Time
}

func (p *pair) current(now time.Time) *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.checked) >= checkEvery {
		p.checked = now
		if !slices.Equal(p.times(), p.stamp) {
			_ = p.read() // the old one is still good
		}
	}
	return p.cert
}

func (p *pair) read() error {
	stamp := p.times()
	cert, err := p.load()
	if err != nil {
		return err
	}
	p.cert, p.stamp = &cert, stamp
	return nil
}

func (p *pair) times() []time.Time {
	t := make([]time.Time, len(p.files))
	for i, name := range p.files {
		if info, err := os.Stat(name); err == nil {
			t[i] = info.ModTime()
		}
	}
	return t
}

func (p *pair) config() *tls.Config {
	p.checked = time.Now()
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.current(time.Now()), nil },
	}
}
