package password_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/password"
)

func TestHashMatches(t *testing.T) {
	for _, secret := range []string{"", "guest", "pä$$wörd", strings.Repeat("x", 200)} {
		hash, a, err := password.Hash(secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := password.Check(hash, a); err != nil {
			t.Error(err)
		}
		if ok, err := password.Matches(secret, hash, a); !ok || err != nil {
			t.Errorf("%q does not match its own hash: %v", secret, err)
		}
		if ok, err := password.Matches(secret+"x", hash, a); ok || err != nil {
			t.Errorf("%q matches the hash of another: %v", secret+"x", err)
		}
		again, _, _ := password.Hash(secret)
		if again == hash {
			t.Error("two hashes of a password are the same: no salt")
		}
	}
}

// The hash of "test12" with the salt 90 8D C6 0A is the worked example of RabbitMQ's
// documentation of passwords.
func TestRabbitHashes(t *testing.T) {
	const hash = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
	if ok, err := password.Matches("test12", hash, password.RabbitSHA256); !ok || err != nil {
		t.Errorf("the documented example does not match: %v", err)
	}
	if ok, _ := password.Matches("test13", hash, password.RabbitSHA256); ok {
		t.Error("another password matches")
	}
}

func TestBadHashes(t *testing.T) {
	argon := func(cost string) string { return "$argon2id$v=19$" + cost + "$c2FsdHNhbHQ$c3Vt" }
	for _, c := range []struct {
		hash string
		a    password.Algorithm
		want string
	}{
		{"x", "md5", "unknown"},
		{"x", "", "unknown"},
		{"", password.Argon2id, "form"},
		{"$argon2i$v=19$m=1,t=1,p=1$YQ$YQ", password.Argon2id, "form"},
		{argon("m=1024,t=1"), password.Argon2id, "form"},
		{argon("m=999999999,t=1,p=1"), password.Argon2id, "asks for"},
		{argon("m=1024,t=0,p=1"), password.Argon2id, "asks for"},
		{argon("m=1024,t=99,p=1"), password.Argon2id, "asks for"},
		{"%%%", password.RabbitSHA256, "base64"},
		{"YQ==", password.RabbitSHA512, "base64"},
	} {
		err := password.Check(c.hash, c.a)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Check(%q, %q): error %v, want one with %q", c.hash, c.a, err, c.want)
		}
		if ok, err := password.Matches("", c.hash, c.a); ok || (err == nil && c.hash != "") {
			t.Errorf("Matches with %q, %q: %v, %v; want an error", c.hash, c.a, ok, err)
		}
	}
	if err := password.Check("", ""); err != nil {
		t.Errorf("a user without password is refused: %v", err)
	}
}

// A hash that takes the place of another one matches the same password, and shows where it comes
// from.
func TestUpgrade(t *testing.T) {
	const from = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
	hash, a := password.Upgrade("test12", from)
	if right, err := password.Matches("test12", hash, a); err != nil || !right || !password.Current(hash, a) {
		t.Errorf("%s: %v, %v", hash, right, err)
	}
	sum, other := sha256.Sum256([]byte(from)), sha256.Sum256([]byte("other"))
	fresh, _, err := password.Hash("test12")
	if err != nil || !password.UpgradeOf(hash, sum[:]) || password.UpgradeOf(hash, other[:]) || password.UpgradeOf(fresh, sum[:]) ||
		password.UpgradeOf(hash, nil) || password.UpgradeOf(from, sum[:]) {
		t.Error("it is not told where the hash comes from")
	}
	for hash, a := range map[string]password.Algorithm{from: password.RabbitSHA256, "$argon2id$v=19$m=8,t=1,p=1$c2FsdA$c3Vt": password.Argon2id, "": ""} {
		if password.Current(hash, a) {
			t.Errorf("%s is taken for a new hash", hash)
		}
	}
}
