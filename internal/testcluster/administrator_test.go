package testcluster_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// awaitVersion waits until all nodes know that the newest version is finalised.
func awaitVersion(t *testing.T, c *testcluster.Cluster, nodes int) {
	t.Helper()
	for i := range nodes {
		testcluster.Poll(t, "the newest version", func() error {
			if v := c.Cluster(i).View().Version(); v < catalog.NewestVersion {
				return fmt.Errorf("version %d", v)
			}
			return nil
		})
	}
}

// VH-10: of two commands at once on two nodes that each take one of the last two administrators
// away, one is refused, and says what helps.
func TestLastAdministrator(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 3)
	ctx := testContext(t)
	awaitVersion(t, c, 3)
	root := openClient(t, c)
	put := func(name string) {
		t.Helper()
		if _, err := root.PutUser(ctx, client.User{Name: name, Password: name, Tags: []string{"administrator"}}); err != nil {
			t.Fatal(err)
		}
	}
	lose := []func(*client.Client, string) error{
		func(cl *client.Client, name string) error { _, err := cl.DeleteUser(ctx, name); return err },
		func(cl *client.Client, name string) error {
			_, err := cl.ChangeUser(ctx, client.UserChange{Name: name, Tags: []string{}})
			return err
		},
		func(cl *client.Client, name string) error {
			_, err := cl.ChangeUser(ctx, client.UserChange{Name: name, NoPassword: true})
			return err
		},
		func(cl *client.Client, name string) error {
			none := int64(0)
			return cl.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: name, Limits: client.UserLimits{MaxConnections: &none}})
		},
		func(cl *client.Client, name string) error {
			_, err := cl.PutUser(ctx, client.User{Name: name, Password: name})
			return err
		},
	}
	put("a")
	put("b")
	at := func(node int, name string) *client.Client {
		cl, err := client.Dial(ctx, client.Config{Addresses: c.Addrs()[node : node+1], FixedAddresses: true, Username: name, Password: name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}
	of := []*client.Client{at(0, "a"), at(1, "b")}
	if _, err := of[0].DeleteUser(ctx, "guest"); err != nil {
		t.Fatal(err)
	}
	for round := range 10 {
		errs := make([]error, 2)
		var both sync.WaitGroup
		for i, name := range []string{"a", "b"} {
			both.Go(func() { errs[i] = lose[round%len(lose)](of[i], name) })
		}
		both.Wait()
		refused := slices.IndexFunc(errs, func(err error) bool { return err != nil })
		if refused < 0 || errs[1-refused] != nil {
			t.Fatalf("round %d: %v; want one of them refused", round, errs)
		}
		var e *client.Error
		if !errors.As(errs[refused], &e) || e.Code != codes.FailedPrecondition || !strings.Contains(e.Text, "make another user with the tag administrator and a password first") {
			t.Fatal(errs[refused])
		}
		root = of[refused]
		gone := []string{"a", "b"}[1-refused]
		put(gone)
		if err := root.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: gone, Limits: client.UserLimits{}}); err != nil {
			t.Fatal(err)
		}
	}
}

// VH-10: what a change does not name stays.
func TestChangeUser(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	ctx, root := testContext(t), openClient(t, c)
	change := func(u client.UserChange) bool {
		t.Helper()
		created, err := root.ChangeUser(ctx, u)
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	five := int64(5)
	if !change(client.UserChange{Name: "u", Create: true, Password: "one"}) || change(client.UserChange{Name: "u", Create: true, Tags: []string{"monitoring"}}) {
		t.Error("created is not told")
	}
	if err := root.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: "u", Limits: client.UserLimits{MaxChannels: &five}}); err != nil {
		t.Fatal(err)
	}
	change(client.UserChange{Name: "u", Password: "two"})
	if err := loginError(ctx, t, c, as("u", "two")); err != nil || loginError(ctx, t, c, as("u", "one")) == nil {
		t.Errorf("the password is not the new one: %v", err)
	}
	if got := accessState(t, root); !strings.Contains(got, "user u [monitoring] argon2id 5;") {
		t.Error(got)
	}
	change(client.UserChange{Name: "u", Tags: []string{}, NoPassword: true})
	if got := accessState(t, root); !strings.Contains(got, "user u []  5;") {
		t.Error(got)
	}
	if _, err := root.ChangeUser(ctx, client.UserChange{Name: "nobody"}); client.ClassOf(err) != client.NotFound {
		t.Error(err)
	}
}
