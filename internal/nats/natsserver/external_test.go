package natsserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

// external starts a NATS server of another process, as this package sees it, until the end of the test.
func external(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	n, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	go n.Start()
	t.Cleanup(func() { n.Shutdown(); n.WaitForShutdown() })
	if !n.ReadyForConnections(time.Minute) {
		t.Fatal("not ready")
	}
	return n
}

// certificate makes a certificate for 127.0.0.1 that is its own authority, and returns its files.
func certificate(t *testing.T) (cert, key string, pair tls.Certificate) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func(path, kind string, b []byte) {
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(cert, "CERTIFICATE", der)
	write(key, "EC PRIVATE KEY", encoded)
	if pair, err = tls.LoadX509KeyPair(cert, key); err != nil {
		t.Fatal(err)
	}
	return cert, key, pair
}

// An external server that wants TLS, a client certificate and a password.
func TestExternalWithTLSAndPassword(t *testing.T) {
	cert, key, pair := certificate(t)
	pool := x509.NewCertPool()
	authority, err := os.ReadFile(cert)
	if err != nil || !pool.AppendCertsFromPEM(authority) {
		t.Fatal(err)
	}
	n := external(t, &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
		StoreDir: t.TempDir(),
		Username: "lazuli", Password: "secret", NoSigs: true, NoLog: true, AuthTimeout: 60, TLSTimeout: 60,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool,
			ClientAuth: tls.RequireAndVerifyClientCert}})
	url := func(user string) string {
		return fmt.Sprintf("tls://%s127.0.0.1:%d", user, n.Addr().(*net.TCPAddr).Port)
	}
	s, err := Start(Config{URL: url("lazuli:secret@"), CAFile: cert, CertFile: cert, KeyFile: key})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Conn().Request("$JS.API.INFO", nil, time.Minute); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]Config{
		"no password":    {URL: url(""), CAFile: cert, CertFile: cert, KeyFile: key},
		"wrong password": {URL: url("lazuli:wrong@"), CAFile: cert, CertFile: cert, KeyFile: key},
		"no authority":   {URL: url("lazuli:secret@"), CertFile: cert, KeyFile: key},
		"no certificate": {URL: url("lazuli:secret@"), CAFile: cert},
		"no such file": {URL: url("lazuli:secret@"), CAFile: cert, CertFile: cert, KeyFile: key,
			Credentials: "/nonexistent.creds"},
	} {
		s, err := Start(c)
		if err == nil {
			s.Close()
			t.Errorf("%s: connected", name)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "wrong@") {
			t.Errorf("%s: the error tells the password: %v", name, err)
		}
	}
}

// A server that refuses the password for a while is connected to again when it accepts it.
func TestExternalThatRefusesForAWhile(t *testing.T) {
	t.Parallel()
	address := check.FreeAddress(t)
	_, p, _ := net.SplitHostPort(address)
	port := check.Must(strconv.Atoi(p))(t)
	start := func(password string) *server.Server {
		return external(t, &server.Options{Host: "127.0.0.1", Port: port, Username: "lazuli", Password: password,
			NoSigs: true, NoLog: true})
	}
	n := start("secret")
	log := &testlog.Buffer{}
	s := check.Must(Start(Config{URL: "nats://lazuli:secret@" + address, Log: slog.New(slog.NewTextHandler(log, nil))}))(t)
	t.Cleanup(s.Close)
	n.Shutdown()
	n.WaitForShutdown()
	began := time.Now()
	n = start("other")
	check.Eventually(t, func() bool {
		v := check.Must(n.Varz(nil))(t)
		return v.TotalConnections >= 4 || s.Conn().IsClosed()
	}, "the client tries several times")
	if s.Conn().IsClosed() {
		t.Fatal("the client has given up")
	}
	most := 1 + int(time.Since(began)/time.Minute) // it is logged again after a minute
	if n := strings.Count(log.String(), "authorization violation"); n < 1 || n > most {
		t.Errorf("the refusal was logged %d times, want %d at most:\n%s", n, most, log)
	}
	n.Shutdown()
	n.WaitForShutdown()
	start("secret")
	check.Eventually(t, s.Conn().IsConnected, "the client connects again")
}

// A server whose messages are too small for a queue's is refused with what to change.
func TestExternalWithSmallPayload(t *testing.T) {
	n := external(t, &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, MaxPayload: 64 << 10,
		NoSigs: true, NoLog: true})
	s, err := Start(Config{URL: n.ClientURL()})
	if err == nil {
		s.Close()
		t.Error("connected")
	} else if !strings.Contains(err.Error(), "max_payload") {
		t.Errorf("%v; want what to change", err)
	}
}

// A server with accounts, to which a credentials file is the way in: the file is what `nsc generate creds` writes.
func TestExternalWithCredentials(t *testing.T) {
	operator, account, user := nkey(t, nkeys.CreateOperator), nkey(t, nkeys.CreateAccount), nkey(t, nkeys.CreateUser)
	public := func(pair nkeys.KeyPair) string {
		p, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	resolver, system := &server.MemAccResolver{}, nkey(t, nkeys.CreateAccount)
	for _, pair := range []nkeys.KeyPair{account, system} {
		claims := jwt.NewAccountClaims(public(pair))
		if pair == account {
			claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
		}
		signed, err := claims.Encode(operator)
		if err != nil {
			t.Fatal(err)
		}
		if err := resolver.Store(public(pair), signed); err != nil {
			t.Fatal(err)
		}
	}
	n := external(t, &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
		StoreDir:    t.TempDir(),
		TrustedKeys: []string{public(operator)}, SystemAccount: public(system), AccountResolver: resolver, NoSigs: true,
		NoLog:       true,
		AuthTimeout: 60})
	credentials := func(by nkeys.KeyPair) string {
		token, err := jwt.NewUserClaims(public(user)).Encode(by)
		if err != nil {
			t.Fatal(err)
		}
		seed, err := user.Seed()
		if err != nil {
			t.Fatal(err)
		}
		file, err := jwt.FormatUserConfig(token, seed)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "lazuli.creds")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s, err := Start(Config{URL: n.ClientURL(), Credentials: credentials(account)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	answer, err := s.Conn().Request("$JS.API.INFO", nil, time.Minute)
	if err != nil || strings.Contains(string(answer.Data), `"error"`) {
		t.Errorf("JetStream: %v, %v", answer, err)
	}
	for name, c := range map[string]Config{
		"none":            {URL: n.ClientURL()},
		"another account": {URL: n.ClientURL(), Credentials: credentials(nkey(t, nkeys.CreateAccount))},
	} {
		if s, err := Start(c); err == nil {
			s.Close()
			t.Errorf("%s: connected", name)
		}
	}
}

func nkey(t *testing.T, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	return pair
}
