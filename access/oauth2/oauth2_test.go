package oauth2_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/access/oauth2"
	"github.com/quorate/quorate/internal/issuer"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// run runs a backend until the test's end.
func run(t *testing.T, c oauth2.Config) *oauth2.Backend {
	t.Helper()
	if c.ResourceServer == "" {
		c.ResourceServer = "quorate"
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	b := oauth2.New(c)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	return b
}

func ask(t *testing.T, b access.Backend, token string) (*access.Identity, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return b.Authenticate(ctx, access.Credentials{Secret: token, Bearer: true, Now: time.Now()})
}

func wantRefused(t *testing.T, what string, err error, reason string) {
	t.Helper()
	if no, is := errors.AsType[*access.Refused](err); !is || !strings.Contains(no.Reason, reason) {
		t.Errorf("%s: %v, want a refusal with %q", what, err, reason)
	}
}

// ID-4: each algorithm verifies, over HTTP by discovery and over HTTPS by the URL of the keys.
func TestTokensLogIn(t *testing.T) {
	for _, secure := range []bool{false, true} {
		i, c := issuer.Start(t), oauth2.Config{}
		if c.Issuer = i.URL(); secure {
			i = issuer.StartTLS(t)
			c.Issuer, c.KeysURL, c.Authorities = "", i.KeysURL(), x509.NewCertPool()
			c.Authorities.AddCert(i.Server().Certificate())
		}
		algorithms := []string{"RS256", "PS384", "ES256", "ES384", "ES512", "EdDSA"}
		for _, a := range algorithms {
			i.Rotate(a, a, false)
		}
		b := run(t, c)
		for _, a := range algorithms {
			id, err := ask(t, b, i.Sign(a, a, i.Claims("ann", "quorate", map[string]any{"scope": "quorate.tag:monitoring quorate.read:*/orders other.write:*/*"})))
			if err != nil {
				t.Fatalf("%s: %v", a, err)
			}
			g, entered := id.Rights.In("/")
			if id.Name != "ann" || !slices.Equal(id.Tags, []string{"monitoring"}) || !entered || g[access.Write] != nil || id.Expires.Before(time.Now()) {
				t.Errorf("%s: %+v %v", a, id, g)
			}
			if may, _ := g[access.Read].Match("orders"); !may {
				t.Errorf("%s: no read access", a)
			}
		}
		if f := b.Figures(); f.Keys != len(algorithms) || f.Age < 0 || f.Failures != 0 || i.Asked() != 1 {
			t.Errorf("%+v, asked %d times", f, i.Asked())
		}
	}
}

// ID-4: whatever is wrong with a token, it is refused, and the reason shows nothing of it.
func TestWrongTokens(t *testing.T) {
	i := issuer.Start(t)
	i.Rotate("k", "RS256", false)
	i.Rotate("e", "ES256", false)
	b := run(t, oauth2.Config{Issuer: i.URL()})
	good := i.Claims("ann", "quorate", nil)
	with := func(claim string, value any) string {
		return i.Sign("k", "RS256", i.Claims("ann", "quorate", map[string]any{claim: value}))
	}
	public, err := x509.MarshalPKIXPublicKey(i.Public("k"))
	if err != nil {
		t.Fatal(err)
	}
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	outsider, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(i.Sign("k", "RS256", good), ".")
	other := strings.Split(i.Sign("k", "RS256", i.Claims("root", "quorate", nil)), ".")
	hour := time.Now().Add(time.Hour).Unix()
	for what, row := range map[string]struct{ token, reason string }{
		"forged by another key":    {i.SignAs(map[string]any{"kid": "k"}, "RS256", outsider, good), "signature"},
		"other claims":             {strings.Join([]string{parts[0], other[1], parts[2]}, "."), "signature"},
		"no signature":             {parts[0] + "." + parts[1] + ".", "signature"},
		"alg none":                 {i.SignAs(map[string]any{"kid": "k"}, "none", jwt.UnsafeAllowNoneSignatureType, good), "signature"},
		"HS256 by the public key":  {i.SignAs(map[string]any{"kid": "k"}, "HS256", asPEM, good), "signature"},
		"HS256 by the modulus":     {i.SignAs(map[string]any{"kid": "k"}, "HS256", outsider.N.Bytes(), good), "signature"},
		"another type of key":      {i.SignAs(map[string]any{"kid": "k"}, "EdDSA", edwards, good), "no key"},
		"another algorithm":        {i.Sign("k", "RS512", good), "no key"},
		"no kid, of several keys":  {i.SignAs(nil, "PS256", outsider, good), "names no key"},
		"a kid that is a number":   {i.SignAs(map[string]any{"kid": 7}, "RS256", outsider, good), "is not a string"},
		"demands an extension":     {i.SignAs(map[string]any{"kid": "k", "crit": []string{"b64"}}, "RS256", outsider, good), "crit"},
		"wrong audience":           {with("aud", []string{"rabbitmq", "quorate2"}), `audience "quorate"`},
		"no audience":              {with("aud", nil), "lacks"},
		"wrong issuer":             {with("iss", "https://login.example"), "issuer"},
		"no issuer":                {with("iss", nil), "lacks"},
		"expired":                  {with("exp", time.Now().Add(-time.Minute).Unix()), "has expired (20"},
		"no end":                   {with("exp", nil), "lacks"},
		"an end that is a text":    {with("exp", "tomorrow"), "cannot be read"},
		"an end far in the past":   {with("exp", -1e300), "has expired"},
		"not valid yet":            {with("nbf", hour), "not valid yet (20"},
		"no user":                  {with("sub", nil), "none of the claims"},
		"a user that is no text":   {with("sub", 7), "none of the claims"},
		"a user with a line break": {with("sub", "ann\nroot"), "cannot be a user name"},
		"a long user":              {with("sub", strings.Repeat("x", 256)), "cannot be a user name"},
		"no token":                 {"x.y.z", "cannot be read"},
		"nothing":                  {"", "cannot be read"},
		"a huge token":             {"eyJhbGciOiJSUzI1NiJ9." + strings.Repeat("e", 1<<20) + ".x", "the limit is 16384"},
		"many scopes":              {with("scope", strings.Repeat("a ", 5000)), "more than 1000 scopes"},
	} {
		id, err := ask(t, b, row.token)
		if id != nil {
			t.Errorf("%s: logs in as %s", what, id.Name)
		}
		wantRefused(t, what, err, row.reason)
	}
}

// Ten thousand scopes are refused, by the size of the token or of what it stands for.
func TestManyScopes(t *testing.T) {
	i := issuer.Start(t)
	i.Rotate("k", "ES256", false)
	stands := make([]string, 1000)
	for n := range stands {
		stands[n] = fmt.Sprint("quorate.read:*/q", n)
	}
	b := run(t, oauth2.Config{Issuer: i.URL(), ScopeAliases: map[string][]string{"all": stands}, AdditionalScopes: []string{"a.b"}})
	token := func(more map[string]any) string { return i.Sign("k", "ES256", i.Claims("ann", "quorate", more)) }
	_, err := ask(t, b, token(map[string]any{"scope": strings.Repeat("all ", 10)}))
	wantRefused(t, "by aliases", err, "more than 1000 scopes")
	_, err = ask(t, b, token(map[string]any{"a": slices.Repeat([]any{map[string]any{"b": "x y z"}}, 500)}))
	wantRefused(t, "in nested claims", err, "more than 1000 scopes")
	_, err = ask(t, b, token(map[string]any{"scope": strings.Repeat("a ", 10_000)}))
	wantRefused(t, "ten thousand", err, "the limit is 16384")
}

// The clock of the issuer may be off by the leeway, and the identity lasts as long.
func TestLeeway(t *testing.T) {
	i := issuer.Start(t)
	i.Rotate("k", "ES256", false)
	b := run(t, oauth2.Config{Issuer: i.URL(), Leeway: time.Minute})
	end := time.Now().Add(-30 * time.Second).Truncate(time.Second)
	id, err := ask(t, b, i.Sign("k", "ES256", i.Claims("ann", "quorate", map[string]any{"exp": end.Unix(), "nbf": time.Now().Add(30 * time.Second).Unix()})))
	if err != nil || !id.Expires.Equal(end.Add(time.Minute)) {
		t.Fatalf("%+v, %v", id, err)
	}
}

// wantAgain wants that the answer is unknown now, and when it may be known.
func wantAgain(t *testing.T, what string, err error, within time.Duration) {
	t.Helper()
	no, is := errors.AsType[*access.Unavailable](err)
	if !is || no.RetryAfter <= 0 || no.RetryAfter > within {
		t.Errorf("%s: %v, want that it cannot be told, and again within %v", what, err, within)
	}
}

// A key that came since the keys were fetched is not refused: the answer says when they are fetched again. A flood of tokens
// with keys that there are not costs the issuer nothing more.
func TestUnknownKeysAreBounded(t *testing.T) {
	i := issuer.Start(t)
	i.Rotate("old", "ES256", false)
	b := run(t, oauth2.Config{Issuer: i.URL(), RefetchEvery: time.Hour})
	if _, err := ask(t, b, i.Sign("old", "ES256", i.Claims("ann", "quorate", nil))); err != nil {
		t.Fatal(err)
	}
	i.Rotate("new", "ES256", true)
	key := i.Claims("ann", "quorate", nil)
	var all sync.WaitGroup
	for n := range 500 {
		all.Go(func() {
			token := i.Sign("new", "ES256", key)
			if n%2 == 0 {
				token = i.Sign("old", "ES256", key)
			}
			_, err := ask(t, b, token)
			if n%2 == 0 && err != nil {
				t.Error(err)
			} else if n%2 == 1 {
				wantAgain(t, "new", err, time.Hour)
			}
		})
	}
	all.Wait()
	if n := i.Asked(); n != 1 {
		t.Errorf("the issuer was asked %d times", n)
	}
}

// A token with a key that is new since the last fetch logs in when its time has come, after one more fetch; one whose key was looked
// for and is not there is refused from then on, until the next fetch may find it.
func TestNewKeyComesAgain(t *testing.T) {
	const every = 300 * time.Millisecond
	i := issuer.Start(t)
	i.Rotate("old", "ES256", false)
	b := run(t, oauth2.Config{Issuer: i.URL(), RefetchEvery: every})
	claims := i.Claims("ann", "quorate", nil)
	old := i.Sign("old", "ES256", claims)
	if _, err := ask(t, b, old); err != nil {
		t.Fatal(err)
	}
	i.Rotate("new", "ES256", false)
	fresh := i.Sign("new", "ES256", claims)
	for {
		_, err := ask(t, b, fresh)
		if err == nil {
			break
		}
		wantAgain(t, "the new key", err, every)
		if t.Failed() {
			return
		}
		no, _ := errors.AsType[*access.Unavailable](err)
		<-time.After(no.RetryAfter) // as its client does
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	never := i.SignAs(map[string]any{"kid": "never"}, "EdDSA", edwards, claims)
	for refused := false; !refused; {
		_, err := ask(t, b, never)
		no, again := errors.AsType[*access.Unavailable](err)
		if refused = !again; again {
			<-time.After(no.RetryAfter)
			continue
		}
		wantRefused(t, "never", err, `no key "never"`)
	}
	asked := i.Asked()
	if _, err := ask(t, b, never); !is[*access.Refused](err) && i.Asked() == asked { // the next fetch may have been due
		t.Errorf("it was looked for, and is not there: %v", err)
	}
}

// A new key is taken when its first token comes, and one that is gone is gone.
func TestRotation(t *testing.T) {
	i := issuer.Start(t)
	i.Rotate("a", "ES256", false)
	b := run(t, oauth2.Config{Issuer: i.URL(), RefetchEvery: time.Nanosecond})
	claims := i.Claims("ann", "quorate", nil)
	if _, err := ask(t, b, i.Sign("a", "ES256", claims)); err != nil {
		t.Fatal(err)
	}
	i.Rotate("b", "EdDSA", true)
	if _, err := ask(t, b, i.Sign("b", "EdDSA", claims)); err != nil {
		t.Fatal(err)
	}
	gone := i.Sign("a", "ES256", claims)
	_, err := ask(t, b, gone)
	for again, is := errors.AsType[*access.Unavailable](err); is; again, is = errors.AsType[*access.Unavailable](err) {
		<-time.After(again.RetryAfter)
		_, err = ask(t, b, gone)
	}
	wantRefused(t, "the old key", err, `no key "a"`)
}

// An issuer that does not answer makes nobody wrong and nobody right: without keys tokens cannot be
// verified, with the earlier ones they are.
func TestIssuerDown(t *testing.T) {
	i := issuer.Start(t)
	i.Break(issuer.Down)
	i.Rotate("a", "ES256", false)
	b := run(t, oauth2.Config{Issuer: i.URL(), RefetchEvery: time.Nanosecond})
	claims := i.Claims("ann", "quorate", nil)
	token := i.Sign("a", "ES256", claims)
	if id, err := ask(t, b, token); id != nil || !is[*access.Unavailable](err) {
		t.Fatalf("%v, %v, want that it cannot be told", id, err)
	}
	i.Break(nil)
	if _, err := ask(t, b, token); err != nil {
		t.Fatal(err)
	}
	i.Break(issuer.Down)
	i.Rotate("b", "ES256", false)
	if id, err := ask(t, b, i.Sign("b", "ES256", claims)); id != nil || !is[*access.Unavailable](err) {
		t.Errorf("%v, %v, want that it cannot be told", id, err)
	}
	if _, err := ask(t, b, token); err != nil {
		t.Errorf("the known key: %v", err)
	}
	if b.Figures().Failures < 2 {
		t.Errorf("%+v", b.Figures())
	}
}

// What an issuer says is bounded, and believed only about itself.
func TestIssuerLies(t *testing.T) {
	for what, answer := range map[string]string{
		"another issuer":    `{"issuer": "https://login.example", "jwks_uri": "%s/keys"}`,
		"keys in plain":     `{"issuer": "%s", "jwks_uri": "http://login.example/keys"}`,
		"no keys":           `{"issuer": "%s", "jwks_uri": ""}`,
		"rubbish":           `<html>%s`,
		"a long answer":     `{"issuer": "%s", "x": "` + strings.Repeat("x", oauth2.MaxDocumentBytes) + `"}`,
		"too many keys":     `{"issuer": "%[1]s", "jwks_uri": "%[1]s/x", "keys": [{}` + strings.Repeat(",{}", oauth2.MaxKeys) + `]}`,
		"keys of no use":    `{"issuer": "%[1]s", "jwks_uri": "%[1]s/x", "keys": [{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256", "kid": "k"}]}`,
		"a short RSA key":   `{"issuer": "%[1]s", "jwks_uri": "%[1]s/x", "keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "k"}]}`,
		"off the curve":     `{"issuer": "%[1]s", "jwks_uri": "%[1]s/x", "keys": [{"kty": "EC", "crv": "P-256", "x": "` + strings.Repeat("A", 43) + `", "y": "` + strings.Repeat("A", 43) + `", "kid": "k"}]}`,
		"an even exponent":  `{"issuer": "%[1]s", "jwks_uri": "%[1]s/x", "keys": [{"kty": "RSA", "n": "AQAB", "e": "AAAA", "kid": "k"}]}`,
		"a redirect":        "",
		"half of an answer": `{"issuer": "%s"`,
	} {
		i := issuer.Start(t)
		i.Break(func(w http.ResponseWriter, r *http.Request) {
			if answer == "" {
				http.Redirect(w, r, "https://login.example/", http.StatusFound)
				return
			}
			_, _ = w.Write([]byte(strings.ReplaceAll(strings.ReplaceAll(answer, "%[1]s", i.URL()), "%s", i.URL())))
		})
		i.Rotate("k", "ES256", false)
		b := run(t, oauth2.Config{Issuer: i.URL()})
		if id, err := ask(t, b, i.Sign("k", "ES256", i.Claims("ann", "quorate", nil))); id != nil || !is[*access.Unavailable](err) {
			t.Errorf("%s: %v, %v", what, id, err)
		}
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func TestValidate(t *testing.T) {
	for want, c := range map[string]oauth2.Config{
		"are both empty":              {ResourceServer: "q"},
		"resource_server_id is empty": {Issuer: "https://login.example"},
		"use https":                   {Issuer: "http://login.example", ResourceServer: "q"},
		"jwks_url is \"ftp":           {KeysURL: "ftp://login.example/keys", ResourceServer: "q"},
		`algorithms has "none"`:       {Issuer: "https://login.example", ResourceServer: "q", Algorithms: []string{"none"}},
		`algorithms has "HS256"`:      {Issuer: "https://login.example", ResourceServer: "q", Algorithms: []string{"RS256", "HS256"}},
		"leeway is 1h0m0s":            {Issuer: "https://login.example", ResourceServer: "q", Leeway: time.Hour},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	good := oauth2.Config{Issuer: "http://127.0.0.1:8080/realms/x", KeysURL: "https://login.example/keys", ResourceServer: "q"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}
