package testcluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// A login stores the hash of RabbitMQ again as one that is slow to guess. What was minted with the weak one
// continues.
func TestUpgradedHash(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	awaitVersion(t, c, 1)
	root, ctx := openClient(t, c), testContext(t)
	u := client.User{Name: "u", Hash: "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", Algorithm: "rabbit_password_hashing_sha256", Tags: []string{"t"}}
	if _, err := root.PutUser(ctx, u); err != nil {
		t.Fatal(err)
	}
	early, err := openClient(t, c, as("u", "test12")).MintToken(ctx, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	testcluster.Poll(t, "the better hash", func() error {
		if u, ok := c.Cluster(0).View().User("u"); !ok || u.Algorithm != "argon2id" {
			return fmt.Errorf("%+v", u)
		}
		return nil
	})
	if err := loginError(ctx, t, c, as("u", "test12")); err != nil {
		t.Error(err)
	}
	if err := loginError(ctx, t, c, as("u", "test13")); err == nil {
		t.Error("a wrong password logs in")
	}
	if u, _ := c.Cluster(0).View().User("u"); fmt.Sprint(u.Tags) != "[t]" {
		t.Errorf("%+v", u)
	}
	token := func(cfg *client.Config) { cfg.Token = early.Token }
	if err := loginError(ctx, t, c, token); err != nil {
		t.Errorf("a token that was minted before: %v", err)
	}
	if _, err := root.ChangeUser(ctx, client.UserChange{Name: "u", Password: "test12"}); err != nil {
		t.Fatal(err)
	}
	if err := loginError(ctx, t, c, token); err == nil {
		t.Error("a token outlives its password")
	}
}
