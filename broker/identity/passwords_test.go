package identity

import (
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/password"
)

// fastHash returns RabbitMQ's hash of a password.
func fastHash(secret string) string {
	salt := "salt"
	sum := sha256.Sum256([]byte(salt + secret))
	return base64.StdEncoding.EncodeToString(append([]byte(salt), sum[:]...))
}

// The time of a refusal does not reveal whether the user exists, nor how its password was hashed. A
// login takes as long as a refusal, and does not fail because its hash cannot be upgraded.
func TestLoginsTakeAlike(t *testing.T) {
	c := catalog.New()
	slow, _, err := password.Hash("right")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range []catalog.User{
		{Name: "fast", PasswordHash: fastHash("right"), Algorithm: string(password.RabbitSHA256)},
		{Name: "slow", PasswordHash: slow, Algorithm: string(password.Argon2id)},
		{Name: "none"},
	} {
		u.UserLimits = catalog.NoUserLimits()
		if r := c.Apply(c.View().Index()+1, 1, &catalog.PutUser{User: u}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	l := testLogins(c.View, Config{})
	login := func(user, secret string) (time.Duration, error) {
		for l.Hashing() > 0 { // the slot of the last wrong one rests
			time.Sleep(time.Millisecond)
		}
		begun := time.Now()
		_, err := l.Login(t.Context(), user, secret, netip.Addr{})
		return time.Since(begun), err
	}
	least := map[string]time.Duration{}
	for i := range 5 {
		for _, user := range []string{"fast", "slow", "none", "nobody"} {
			took, err := login(user, "wrong "+strconv.Itoa(i))
			if err == nil {
				t.Fatal("a wrong password logs in")
			}
			if least[user] == 0 || took < least[user] {
				least[user] = took
			}
		}
	}
	for user, took := range least {
		if took < least["slow"]/3 {
			t.Errorf("%s is refused after %v, slow after %v", user, took, least["slow"])
		}
	}
	if took, err := login("fast", "right"); err != nil || took < least["slow"]/3 {
		t.Fatalf("%v after %v, slow ones after %v", err, took, least["slow"])
	}
	if u := <-l.upgrades; u.User.Name != "fast" || !password.UpgradeOf(u.Hash, passwordSum(u.User)) {
		t.Errorf("%+v is no upgrade", u)
	}
}

// Logins are not held up when more hashes need an upgrade than can wait for one.
func TestUpgradesAreBounded(t *testing.T) {
	l := testLogins(catalog.New().View, Config{})
	for range 2 * maxUpgrades {
		l.upgrade(Upgrade{})
	}
	if len(l.upgrades) != maxUpgrades {
		t.Errorf("%d wait, want %d", len(l.upgrades), maxUpgrades)
	}
}
