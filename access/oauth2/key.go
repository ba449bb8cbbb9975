package oauth2

import (
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
	"slices"
)

const (
	// MaxKeys bounds the keys of an issuer.
	MaxKeys = 100
	// leastRSABits is the shortest RSA key that is accepted.
	leastRSABits = 2048
	maxRSABits   = 8192
)

// key is a public key of an issuer.
type key struct {
	id         string
	algorithms []string // for which the key may verify
	public     crypto.PublicKey
}

// webKey is a JSON Web Key (RFC 7517).
type webKey struct {
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	Curve     string `json:"crv"`
	N         string `json:"n"`
	E         string `json:"e"`
	X         string `json:"x"`
	Y         string `json:"y"`
}

// parseKeys reads a set of keys. It leaves out keys for other purposes and of unknown kinds; faults has the keys that
// should be usable and are not. It is an error if no key is left.
func parseKeys(document []byte) (keys []key, faults []error, err error) {
	var set struct {
		Keys []webKey `json:"keys"`
	}
	if err := json.Unmarshal(document, &set); err != nil {
		return nil, nil, fmt.Errorf("is not a set of keys: %w", err)
	}
	if n := len(set.Keys); n > MaxKeys {
		return nil, nil, fmt.Errorf("has %d keys, the limit is %d", n, MaxKeys)
	}
	for i := range set.Keys {
		w := &set.Keys[i]
		k := key{id: w.ID}
		if w.Use != "" && w.Use != "sig" {
			continue
		}
		switch k.public, k.algorithms, err = w.public(); {
		case err != nil:
			faults = append(faults, fmt.Errorf("key %q: %w", w.ID, err))
			continue
		case w.Algorithm != "" && !slices.Contains(k.algorithms, w.Algorithm):
			continue // for encryption, or for an algorithm that is never accepted
		case w.Algorithm != "":
			k.algorithms = []string{w.Algorithm}
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, faults, errors.Join(append(faults, errors.New("has no key that verifies signatures"))...)
	}
	return keys, faults, nil
}

// public returns the key and the algorithms that it is for; no algorithms: the kind of key is not
// for signatures by key pairs.
func (w *webKey) public() (crypto.PublicKey, []string, error) {
	switch w.Type {
	case "RSA":
		k, err := w.rsa()
		return k, []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, err
	case "EC":
		switch w.Curve {
		case "P-256":
			k, err := w.ecdsa(elliptic.P256())
			return k, []string{"ES256"}, err
		case "P-384":
			k, err := w.ecdsa(elliptic.P384())
			return k, []string{"ES384"}, err
		case "P-521":
			k, err := w.ecdsa(elliptic.P521())
			return k, []string{"ES512"}, err
		}
	case "OKP":
		if w.Curve == "Ed25519" {
			x, err := octets(w.X)
			if err == nil && len(x) != ed25519.PublicKeySize {
				err = fmt.Errorf("has %d bytes, an Ed25519 key has %d", len(x), ed25519.PublicKeySize)
			}
			return ed25519.PublicKey(x), []string{"EdDSA"}, err
		}
	}
	return nil, nil, fmt.Errorf("is of type %q %q, which is not for signatures by key pairs", w.Type, w.Curve)
}

// rsa decodes an RSA key (RFC 7518 §6.3). It bounds modulus and exponent because the cost of a
// verification grows with both.
func (w *webKey) rsa() (*rsa.PublicKey, error) {
	n, errN := octets(w.N)
	e, errE := octets(w.E)
	if err := errors.Join(errN, errE); err != nil {
		return nil, err
	}
	k := &rsa.PublicKey{N: new(big.Int).SetBytes(n)}
	exponent := new(big.Int).SetBytes(e)
	if !exponent.IsInt64() || exponent.Int64() < 3 || exponent.Int64() > 1<<31-1 || exponent.Bit(0) == 0 {
		return nil, errors.New("has an exponent that is even or not from 3 to 2147483647")
	}
	k.E = int(exponent.Int64())
	if bits := k.N.BitLen(); bits < leastRSABits || bits > maxRSABits {
		return nil, fmt.Errorf("has %d bits, %d to %d are accepted", bits, leastRSABits, maxRSABits)
	}
	return k, nil
}

// ecdsa decodes a key on the curve (RFC 7518 §6.2). Coordinates must have the full width of the
// curve, leading zeros included.
func (w *webKey) ecdsa(curve elliptic.Curve) (*ecdsa.PublicKey, error) {
	x, errX := octets(w.X)
	y, errY := octets(w.Y)
	if err := errors.Join(errX, errY); err != nil {
		return nil, err
	}
	size := (curve.Params().BitSize + 7) / 8
	if len(x) != size || len(y) != size {
		return nil, fmt.Errorf("has coordinates of %d and %d bytes, %s has %d", len(x), len(y), curve.Params().Name, size)
	}
	return ecdsa.ParseUncompressedPublicKey(curve, slices.Concat([]byte{4}, x, y)) // it refuses points that are not on the curve
}

// octets decodes the unpadded base64url of a JWK's members (RFC 7515 §2).
func octets(text string) ([]byte, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) == 0 {
		return nil, errors.New("has a part that is missing or not base64url")
	}
	return b, nil
}
