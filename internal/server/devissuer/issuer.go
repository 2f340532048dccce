package devissuer

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
)

// DefaultTenant is the tenant of the issuer's tokens unless another is configured.
const DefaultTenant = "1a211100-0000-4000-8000-000000000000"

// DefaultClient is who a managed identity without a client id is.
const DefaultClient = "lazuli-developer"

// Config holds what an issuer is made of. The zero value is an issuer with a key of its own that is lost with it.
type Config struct {
	// KeyFile keeps the signing key, readable by its owner alone; it is created if absent. "" keeps the key in memory.
	KeyFile string
	// Seed is secret. The signing key is derived from it in place of KeyFile, so all processes with the same seed accept
	// each other's tokens.
	Seed []byte
	// Tenant is the tid claim and the tenant in the issuer's paths; "" is DefaultTenant.
	Tenant string
	// URL is the place where the handler is reached, "https://localhost:10003/oauth". It is then part of the issuer's
	// name, as client libraries check. "" takes addresses from each request, and a fixed name.
	URL string
	// Clients are the client ids that get tokens, with their secrets. Nil takes every client with any secret.
	Clients map[string]string
	// Groups are the groups that a client's tokens name: ids, or names that [auth.ObjectID] makes ids of.
	Groups map[string][]string
	// Lifetime is the time that tokens live; 0 is an hour.
	Lifetime time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Issuer signs tokens. It is an http.Handler, safe for concurrent use.
type Issuer struct {
	config Config
	id     string // the iss claim
	key    *ecdsa.PrivateKey
	kid    string
}

// New makes an issuer, with the key of its file.
func New(c Config) (*Issuer, error) {
	if c.Tenant == "" {
		c.Tenant = DefaultTenant
	}
	if c.Lifetime == 0 {
		c.Lifetime = time.Hour
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	key, err := signingKey(&c)
	if err != nil {
		return nil, fmt.Errorf("development issuer: %w", err)
	}
	i := &Issuer{config: c, key: key, id: "https://lazuli.localhost"}
	if c.URL != "" {
		i.id = c.URL
	}
	i.id += "/" + c.Tenant + "/v2.0"
	public, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, fmt.Errorf("development issuer: %w", err)
	}
	sum := sha256.Sum256(public)
	i.kid = hex.EncodeToString(sum[:10])
	return i, nil
}

const pemType = "PRIVATE KEY"

// shortKey is the length in bytes up to which a file can be a private key without the public one.
const shortKey = 80

// signingKey returns the key that the configuration asks for.
func signingKey(c *Config) (*ecdsa.PrivateKey, error) {
	if c.Seed == nil {
		return loadKey(c.KeyFile)
	}
	// 16 bytes more than a key has, so that all keys are as likely (FIPS 186-5, A.2.1).
	stream, err := hkdf.Key(sha256.New, c.Seed, nil, "lazuli development issuer", 48)
	if err != nil {
		return nil, err
	}
	one, order := big.NewInt(1), elliptic.P256().Params().N
	d := new(big.Int).SetBytes(stream)
	d.Mod(d, new(big.Int).Sub(order, one)).Add(d, one)
	return ecdsa.ParseRawPrivateKey(elliptic.P256(), d.FillBytes(make([]byte, 32)))
}

func loadKey(path string) (*ecdsa.PrivateKey, error) {
	if path == "" {
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	text, err := secretfile.Read(path, 64<<10)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return createKey(path)
	case err != nil:
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemType {
		return nil, fmt.Errorf("%s is not a PEM file with a private key", path)
	}
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := any.(*ecdsa.PrivateKey)
	if err != nil || !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s does not hold a P-256 key", path)
	}
	// The file has the public key as well: a private key of which a bit has changed is another valid key.
	if public, err := key.PublicKey.Bytes(); err != nil || len(block.Bytes) > shortKey &&
		!bytes.Contains(block.Bytes, public) {
		return nil, fmt.Errorf("%s is damaged: its private and its public key do not belong together", path)
	}
	return key, nil
}

func createKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	err = secretfile.Create(path, pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}))
	if errors.Is(err, fs.ErrExist) { // another process was faster
		return loadKey(path)
	}
	return key, err
}

// Trust is the issuer as [auth.NewOAuth] takes it: its tokens are checked without any network.
func (i *Issuer) Trust() auth.Issuer {
	is := auth.Issuer{ID: i.id, Keys: auth.KeySet{i.kid: {Key: &i.key.PublicKey, Algorithm: "ES256"}}}
	base := "https://lazuli.localhost"
	if i.config.URL != "" {
		base = i.config.URL
	}
	is.AuthorizeURL = base + "/" + i.config.Tenant + "/oauth2/authorize"
	return is
}

// Token signs a token for a client, for one of the audiences of Azure Storage.
func (i *Issuer) Token(client, audience string) (string, error) {
	now := i.config.Now()
	claims := jwt.MapClaims{
		"iss": i.id, "aud": audience, "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(i.config.Lifetime).Unix(),
		"sub": auth.ObjectID(client), "oid": auth.ObjectID(client), "tid": i.config.Tenant, "appid": client, "ver": "1.0",
	}
	if names := i.config.Groups[client]; len(names) > 0 {
		ids := make([]string, len(names))
		for n, name := range names {
			ids[n] = auth.ObjectID(name)
		}
		claims["groups"] = ids
	}
	t := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	t.Header["kid"] = i.kid
	return t.SignedString(i.key)
}

// jwk is the public key as a JSON Web Key.
func (i *Issuer) jwk() map[string]string {
	b, err := i.key.PublicKey.Bytes() // 4, X, Y
	if err != nil {
		panic("devissuer: the key was checked when it was loaded: " + err.Error())
	}
	return map[string]string{"kty": "EC", "use": "sig", "alg": "ES256", "kid": i.kid, "crv": "P-256",
		"x": base64.RawURLEncoding.EncodeToString(b[1:33]), "y": base64.RawURLEncoding.EncodeToString(b[33:])}
}
