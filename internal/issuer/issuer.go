// Package issuer is a small issuer of OAuth 2 tokens on loopback, for tests. It has real keys, real
// HTTP or HTTPS, and discovery. It can also rotate keys, go silent or answer rubbish, as a real
// issuer may.
package issuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	rsaBits = 2048
	// lifetime is that of a token without an expiry of its own.
	lifetime = time.Hour
)

// Issuer signs tokens and publishes its keys. Its methods may be called concurrently.
type Issuer struct {
	t      testing.TB
	server *httptest.Server

	mu      sync.Mutex
	private map[string]crypto.Signer // by kid
	public  []map[string]string
	broken  http.HandlerFunc // answers requests instead; nil: the issuer answers them itself
	asked   int              // number of requests for the keys
}

// Start starts an issuer on HTTP, without keys. It stops at the test's end.
func Start(t testing.TB) *Issuer { return start(t, (*httptest.Server).Start) }

// StartTLS is Start on HTTPS; Server().Certificate() is its own authority.
func StartTLS(t testing.TB) *Issuer { return start(t, (*httptest.Server).StartTLS) }

// start starts the server; begin chooses TLS or not. The server stops at the test's end.
func start(t testing.TB, begin func(*httptest.Server)) *Issuer {
	i := &Issuer{t: t, private: map[string]crypto.Signer{}}
	i.server = httptest.NewUnstartedServer(http.HandlerFunc(i.serve))
	i.server.Config.ErrorLog = nil
	begin(i.server)
	t.Cleanup(i.server.Close)
	return i
}

// URL returns the issuer's name.
func (i *Issuer) URL() string { return i.server.URL }

// KeysURL returns the URL of its keys.
func (i *Issuer) KeysURL() string { return i.server.URL + "/keys" }

// Server returns the web server.
func (i *Issuer) Server() *httptest.Server { return i.server }

// Asked returns how often clients requested the keys.
func (i *Issuer) Asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// Break makes h answer all requests, until Break(nil).
func (i *Issuer) Break(h http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.broken = h
}

// Down is a handler for Break: it answers that the issuer is unavailable.
func Down(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "down", http.StatusServiceUnavailable)
}

// serve answers discovery and keys as an OpenID provider does, or as the test has set with Break.
// It counts the requests for keys.
func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	broken, public := i.broken, i.public
	if r.URL.Path == "/keys" {
		i.asked++
	}
	i.mu.Unlock()
	var answer any
	switch {
	case broken != nil:
		broken(w, r)
		return
	case r.URL.Path == "/.well-known/openid-configuration":
		answer = map[string]string{"issuer": i.URL(), "jwks_uri": i.KeysURL()}
	case r.URL.Path == "/keys":
		answer = map[string]any{"keys": public}
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

// Rotate creates a key for an algorithm and publishes it, beside the earlier keys or instead of
// them.
func (i *Issuer) Rotate(kid, algorithm string, alone bool) {
	i.t.Helper()
	signer, described := i.generate(algorithm)
	described["kid"], described["use"], described["alg"] = kid, "sig", algorithm
	i.mu.Lock()
	defer i.mu.Unlock()
	if alone {
		i.public = nil
	}
	i.private[kid] = signer
	i.public = append(i.public[:len(i.public):len(i.public)], described)
}

// generate creates a key pair for the algorithm, and the members of its JWK (RFC 7518 §6).
func (i *Issuer) generate(algorithm string) (crypto.Signer, map[string]string) {
	i.t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	var curve elliptic.Curve
	switch algorithm {
	case "EdDSA":
		public, private, err := ed25519.GenerateKey(rand.Reader)
		i.must(err)
		return private, map[string]string{"kty": "OKP", "crv": "Ed25519", "x": encode(public)}
	case "ES256":
		curve = elliptic.P256()
	case "ES384":
		curve = elliptic.P384()
	case "ES512":
		curve = elliptic.P521()
	default:
		k, err := rsa.GenerateKey(rand.Reader, rsaBits)
		i.must(err)
		return k, map[string]string{"kty": "RSA", "n": encode(k.N.Bytes()), "e": encode(big.NewInt(int64(k.E)).Bytes())}
	}
	k, err := ecdsa.GenerateKey(curve, rand.Reader)
	i.must(err)
	point, err := k.PublicKey.Bytes() // 4, x, y
	i.must(err)
	half := len(point) / 2
	return k, map[string]string{"kty": "EC", "crv": curve.Params().Name, "x": encode(point[1 : 1+half]), "y": encode(point[1+half:])}
}

// must fails the test on an error.
func (i *Issuer) must(err error) {
	i.t.Helper()
	if err != nil {
		i.t.Fatal(err)
	}
}

// Public returns the public key with this id.
func (i *Issuer) Public(kid string) crypto.PublicKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.private[kid].Public()
}

// Claims returns the claims of a token for a user and an audience that is valid for an hour, with
// additions; a nil value removes a claim.
func (i *Issuer) Claims(user, audience string, more map[string]any) jwt.MapClaims {
	now := time.Now()
	claims := jwt.MapClaims{
		"iss": i.URL(), "sub": user, "aud": audience, "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(lifetime).Unix(),
	}
	maps.Copy(claims, more)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

// Sign signs claims with one of the issuer's keys, published or not.
func (i *Issuer) Sign(kid, algorithm string, claims jwt.MapClaims) string {
	i.t.Helper()
	i.mu.Lock()
	key := i.private[kid]
	i.mu.Unlock()
	if key == nil {
		i.must(fmt.Errorf("there is no key %q", kid))
	}
	return i.SignAs(map[string]any{"kid": kid}, algorithm, key, claims)
}

// SignAs signs claims with any key, and with any header besides alg.
func (i *Issuer) SignAs(header map[string]any, algorithm string, key any, claims jwt.MapClaims) string {
	i.t.Helper()
	t := jwt.NewWithClaims(jwt.GetSigningMethod(algorithm), claims)
	maps.Copy(t.Header, header)
	text, err := t.SignedString(key)
	i.must(err)
	return text
}

// Unreachable returns a URL on loopback where nothing listens.
func Unreachable(t testing.TB) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}
