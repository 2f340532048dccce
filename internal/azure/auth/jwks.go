package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// PublicKey is a signing key of an issuer.
type PublicKey struct {
	// Key is an *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey.
	Key crypto.PublicKey
	// Algorithm is the only JWT algorithm allowed for the key; "" allows all algorithms of the key's type.
	Algorithm string
}

// allows reports whether the key may verify a token signed with alg. Whether the key's type fits the algorithm
// is checked by the verification.
func (k PublicKey) allows(alg string) bool { return k.Algorithm == "" || k.Algorithm == alg }

// KeySet is a fixed set of keys by key ID. It implements [KeySource].
type KeySet map[string]PublicKey

// Key implements [KeySource].
func (s KeySet) Key(_ context.Context, kid string, _ time.Time) (PublicKey, error) {
	if kid == "" && len(s) == 1 {
		for _, k := range s {
			return k, nil
		}
	}
	k, ok := s[kid]
	if !ok {
		return k, ErrUnknownKey
	}
	return k, nil
}

// Limits of a key set.
const (
	maxJWKS    = 1 << 20 // bytes
	maxKeys    = 64
	minRSABits = 2048
	maxRSABits = 8192
)

// ParseJWKS reads a JSON Web Key Set (RFC 7517). Keys for other uses than signatures, and of other kinds than RSA, EC
// and Ed25519, are ignored. A set without usable keys is an error, and so is an RSA key of less than 2048 bits.
func ParseJWKS(text []byte) (KeySet, error) {
	if len(text) > maxJWKS {
		return nil, fmt.Errorf("the key set is larger than %d bytes", maxJWKS)
	}
	var doc struct {
		Keys []struct{ Kty, Use, Kid, Alg, N, E, Crv, X, Y string }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, errors.New("the key set is not valid JSON")
	}
	if len(doc.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has more than %d keys", maxKeys)
	}
	set := make(KeySet)
	for _, j := range doc.Keys {
		// Issuers publish keys for encryption in the same set: to refuse these would refuse all tokens of the issuer.
		if j.Use != "" && j.Use != "sig" {
			continue
		}
		var key crypto.PublicKey
		var err error
		switch j.Kty {
		case "RSA":
			key, err = rsaKey(j.N, j.E)
		case "EC":
			key, err = ecKey(j.Crv, j.X, j.Y)
		case "OKP":
			key, err = edKey(j.Crv, j.X)
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", j.Kid, err)
		}
		// The algorithm stays with the key, so that a token cannot choose another one for it.
		set[j.Kid] = PublicKey{key, j.Alg}
	}
	if len(set) == 0 {
		return nil, errors.New("the key set has no signing key")
	}
	return set, nil
}

func rsaKey(n, e string) (crypto.PublicKey, error) {
	modulus, err1 := base64.RawURLEncoding.DecodeString(n)
	exponent, err2 := base64.RawURLEncoding.DecodeString(e)
	if err1 != nil || err2 != nil || len(exponent) == 0 || len(exponent) > 4 || len(modulus) > maxRSABits/8+1 {
		return nil, errors.New("not an RSA key")
	}
	k := &rsa.PublicKey{N: new(big.Int).SetBytes(modulus), E: int(new(big.Int).SetBytes(exponent).Int64())}
	if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits || k.E < 3 || k.E%2 == 0 {
		return nil, fmt.Errorf("RSA keys must have %d to %d bits", minRSABits, maxRSABits)
	}
	return k, nil
}

func ecKey(curve, x, y string) (crypto.PublicKey, error) {
	c, ok := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[curve]
	bx, err1 := base64.RawURLEncoding.DecodeString(x)
	by, err2 := base64.RawURLEncoding.DecodeString(y)
	size := 0
	if ok {
		size = (c.Params().BitSize + 7) / 8
	}
	if !ok || err1 != nil || err2 != nil || len(bx) != size || len(by) != size {
		return nil, errors.New("not an EC key of a known curve")
	}
	return ecdsa.ParseUncompressedPublicKey(c, append(append([]byte{4}, bx...), by...))
}

func edKey(curve, x string) (crypto.PublicKey, error) {
	b, err := base64.RawURLEncoding.DecodeString(x)
	if curve != "Ed25519" || err != nil || len(b) != ed25519.PublicKeySize {
		return nil, errors.New("not an Ed25519 key")
	}
	return ed25519.PublicKey(b), nil
}
