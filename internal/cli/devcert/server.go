package devcert

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// checkEvery is how often the files of a served certificate are looked at.
const checkEvery = 10 * time.Second

// ServerConfig is the TLS configuration of a server with the certificate and key of two PEM files: TLS 1.2 and later,
// HTTP/2 and HTTP/1.1. When the files change, new connections get the new certificate; a pair that cannot be used
// leaves the old one in place.
func ServerConfig(certFile, keyFile string) (*tls.Config, error) {
	p := &pair{certFile: certFile, keyFile: keyFile}
	if err := p.read(); err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
	}
	p.checked = time.Now()
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.current(time.Now()), nil },
	}, nil
}

type pair struct {
	certFile, keyFile string

	mu      sync.Mutex
	cert    *tls.Certificate // guarded by mu, like the rest
	stamp   [2]time.Time     // when the files were changed
	checked time.Time
}

func (p *pair) current(now time.Time) *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.checked) >= checkEvery {
		p.checked = now
		if p.times() != p.stamp {
			_ = p.read() // the old one is still good
		}
	}
	return p.cert
}

func (p *pair) read() error {
	stamp := p.times()
	cert, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	if err != nil {
		return err
	}
	p.cert, p.stamp = &cert, stamp
	return nil
}

func (p *pair) times() (t [2]time.Time) {
	for i, name := range []string{p.certFile, p.keyFile} {
		if info, err := os.Stat(name); err == nil {
			t[i] = info.ModTime()
		}
	}
	return t
}
