package access_test

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/access"
)

// backend answers from a table: by secret, what there is.
type backend struct {
	name   string
	tokens bool
	knows  map[string]any // *access.Identity or error; missing: refused
	asked  []string       // the secrets
}

func (b *backend) Name() string { return b.name }
func (b *backend) Tokens() bool { return b.tokens }

func (b *backend) Authenticate(ctx context.Context, c access.Credentials) (*access.Identity, error) {
	b.asked = append(b.asked, c.Secret)
	switch x := b.knows[c.Secret].(type) {
	case *access.Identity:
		return x, nil
	case error:
		if errors.Is(x, context.DeadlineExceeded) { // it hangs
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, x
	}
	return nil, &access.Refused{Reason: b.name + " refuses"}
}

func always() error { return nil }

// jwt has the form of a token.
func jwt(name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + name + ".x"
}

// ID-1: the first that accepts counts; a backend without an answer neither accepts nor refuses.
func TestChain(t *testing.T) {
	down := &access.Unavailable{Backend: "b", Cause: errors.New("down")}
	a := &backend{name: "a", knows: map[string]any{"a": &access.Identity{Name: "of a"}, "both": &access.Identity{Name: "of a"}}}
	b := &backend{name: "b", knows: map[string]any{
		"b": &access.Identity{Name: "of b"}, "both": &access.Identity{Name: "of b"}, "down": down, "hidden": errors.New("panic"),
		"nobody": (*access.Identity)(nil), "old": &access.Identity{Name: "old", Expires: time.Unix(1, 0)},
	}}
	c := &backend{name: "c", knows: map[string]any{"down": &access.Identity{Name: "of c"}}}
	o := &backend{name: "o", tokens: true, knows: map[string]any{jwt("o"): &access.Identity{Name: "of o"}}}
	chain := access.NewChain(a, b, c, o)
	for _, row := range []struct {
		secret, want, by string
		bearer           bool
		fault            string
	}{
		{secret: "a", want: "of a", by: "a"},
		{secret: "b", want: "of b", by: "b"},
		{secret: "both", want: "of a", by: "a"},
		{secret: "down", want: "of c", by: "c"},
		{secret: "hidden", fault: "panic"},
		{secret: "nobody", fault: "a refuses"},
		{secret: "old", fault: "a refuses"},
		{secret: "wrong", fault: "a refuses"},
		{secret: jwt("o"), want: "of o", by: "o"},
		{secret: jwt("o"), want: "of o", by: "o", bearer: true},
		{secret: jwt("x"), fault: "o refuses"},
		{secret: "a", bearer: true, fault: "o refuses"},
	} {
		id, by, err := chain.Authenticate(t.Context(), access.Credentials{Secret: row.secret, Bearer: row.bearer, Now: time.Unix(2, 0)}, always)
		if row.fault == "" && (err != nil || id.Name != row.want || by != row.by) || row.fault != "" && (id != nil || err == nil || !strings.Contains(err.Error(), row.fault)) {
			t.Errorf("%q: %v by %q, %v, want %q", row.secret, id, by, err, row.want+row.fault)
		}
	}
	if slices.Contains(a.asked, jwt("o")) || slices.Contains(o.asked, "both") {
		t.Error("a password was shown for a token, or a token that was taken for a password")
	}
	if got := chain.Counts()["b"]; got != (access.Counts{Accepted: 1, Refused: 4, Unavailable: 2}) {
		t.Errorf("%+v", got)
	}
	// Nobody is asked who may not be.
	for _, x := range []*backend{a, b, c, o} {
		x.asked = nil
	}
	stop := errors.New("too often")
	if _, _, err := chain.Authenticate(t.Context(), access.Credentials{Secret: "a"}, func() error { return stop }); !errors.Is(err, stop) || len(a.asked) > 0 {
		t.Errorf("%v, %q", err, a.asked)
	}
	if _, err := chain.Again(t.Context(), "b", access.Credentials{Secret: "both"}, always); err != nil || len(a.asked) > 0 {
		t.Errorf("%v, %q", err, a.asked)
	}
}

// ID-3: answers are remembered for their time, no longer than an identity lasts, by name and secret.
func TestGuard(t *testing.T) {
	start := time.Unix(1000, 0)
	b := &backend{name: "b", knows: map[string]any{
		"right": &access.Identity{Name: "x"}, "short": &access.Identity{Name: "x", Expires: start.Add(2 * time.Second)},
		"down": &access.Unavailable{Backend: "b", Cause: errors.New("down")}, "passing": &access.Refused{Passing: true},
	}}
	chain := access.NewChain(access.Guard(b, 5*time.Second, 0))
	asked := func(user, secret string, after time.Duration) bool {
		b.asked = nil
		_, _, _ = chain.Authenticate(t.Context(), access.Credentials{User: user, Secret: secret, Now: start.Add(after)}, always)
		return len(b.asked) > 0
	}
	for _, row := range []struct {
		user, secret string
		after        time.Duration
		want         bool
	}{
		{"x", "right", 0, true},
		{"x", "right", 4 * time.Second, false},
		{"y", "right", 4 * time.Second, true},
		{"x", "right", 5 * time.Second, true},
		{"x", "short", 0, true},
		{"x", "short", time.Second, false},
		{"x", "short", 2 * time.Second, true},
		{"x", "wrong", 0, true},
		{"x", "wrong", time.Second, false},
		{"x", "down", 0, true},
		{"x", "down", 0, true},
		{"x", "passing", 0, true},
		{"x", "passing", 0, true},
	} {
		if got := asked(row.user, row.secret, row.after); got != row.want {
			t.Errorf("%s %s after %v: asked %v", row.user, row.secret, row.after, got)
		}
	}
	chain = access.NewChain(access.Guard(b, -1, 0))
	for range 2 {
		if !asked("x", "right", 0) {
			t.Error("remembered although nothing is to be")
		}
	}
}

// ID-3: who was right a while ago takes no try from those who guess, and is asked about once for all who
// come at the same time.
func TestVouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &slow{backend: backend{name: "b", knows: map[string]any{"right": &access.Identity{Name: "x"}}}}
		chain := access.NewChain(access.Guard(b, time.Second, 0))
		tries := 0
		login := func(secret string) error {
			_, _, err := chain.Authenticate(t.Context(), access.Credentials{User: "x", Secret: secret, Now: time.Now()}, func() error {
				tries++
				return nil
			})
			return err
		}
		if err := login("right"); err != nil || tries != 1 {
			t.Fatal(tries, err)
		}
		time.Sleep(time.Minute)
		b.asked = nil
		done := make(chan error, 50)
		for range cap(done) {
			go func() { done <- login("right") }()
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if tries != 1 || len(b.asked) != 1 {
			t.Errorf("%d tries, asked %d times", tries, len(b.asked))
		}
		if err := login("wrong"); err == nil || tries != 2 {
			t.Error(tries, err)
		}
		time.Sleep(time.Hour)
		if err := login("right"); err != nil || tries != 3 {
			t.Error(tries, err)
		}
	})
}

// slow takes a moment for each answer.
type slow struct{ backend }

func (s *slow) Authenticate(ctx context.Context, c access.Credentials) (*access.Identity, error) {
	time.Sleep(100 * time.Millisecond)
	return s.backend.Authenticate(ctx, c)
}

// A backend that does not answer is not waited for for ever.
func TestGuardTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{name: "b", knows: map[string]any{"hangs": context.DeadlineExceeded}}
		chain := access.NewChain(access.Guard(b, 0, time.Minute))
		start := time.Now()
		_, _, err := chain.Authenticate(t.Context(), access.Credentials{Secret: "hangs"}, always)
		if _, is := errors.AsType[*access.Unavailable](err); !is || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestIsJWT(t *testing.T) {
	for text, want := range map[string]bool{
		jwt("x"): true, "": false, "a.b.c": false, "..": false, jwt("x") + ".y": false, "eyJhIjoxfQ.x.y": false,
		jwt(strings.Repeat("x", access.MaxTokenBytes)): false,
	} {
		if access.IsJWT(text) != want {
			t.Errorf("%.80q: %v", text, !want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, want := range map[string]bool{
		"ann": true, "auth0|1:2": true, "é": true, "": false, "a\nb": false, "a\x7f": false, "\xff": false, strings.Repeat("x", 256): false,
	} {
		if err := access.CheckName(name); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}
