package imports_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/imports"
	"github.com/quorate/quorate/internal/testcluster"
)

// logsIn returns why a user cannot log in on a node, nil if it can.
func logsIn(c *testcluster.Cluster, node int, user string) error {
	_, err := c.Broker(node).Logins.Login(context.Background(), user, "secret", netip.Addr{})
	return err
}

// early defines users whose limits need a version that is not finalised, each with a permission, and two vhosts. These are
// more objects than an import may fail to create for lack of a leader.
func early() []byte {
	var users, permissions []string
	for i := range 40 {
		users = append(users, fmt.Sprintf(`{"name":"u%d","password":"secret","tags":["management"],"limits":{"max-stored-bytes":1}}`, i))
		permissions = append(permissions, fmt.Sprintf(`{"user":"u%d","vhost":"shop","configure":"","write":"","read":".*"}`, i))
	}
	return fmt.Appendf(nil, `{"users":[%s],"permissions":[%s],"vhosts":[{"name":"shop"},{"name":"gone"}]}`,
		strings.Join(users, ","), strings.Join(permissions, ","))
}

// VH-9: what needs a version that an operator has to finalise keeps no node from being ready, and is created once the
// version is finalised, with what depends on it; what was deleted meanwhile stays deleted.
func TestImportWaitsForVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes: not in short mode")
	}
	c := testcluster.StartAs(t, 3, testcluster.Settings{ManualFinalise: true, Broker: broker.Config{
		Definitions: imports.AtStart{Document: early()},
	}})
	ctx := identity.WithIdentity(t.Context(), identity.Itself())
	waiting := func() (n int) {
		for i := range 3 {
			n += c.Broker(i).Definitions.Waiting()
		}
		return n
	}
	testcluster.Poll(t, "40 users and 40 permissions wait", func() error {
		if n := waiting(); n != 80 { // more for as long as a node does not know that another one has taken the import over
			return fmt.Errorf("%d objects", n)
		}
		return nil
	})
	if _, ok := c.Cluster(0).View().VHost("gone"); !ok {
		t.Error("a vhost that needs no newer version is missing")
	}
	if err := c.Broker(1).Serving.Serves(); err != nil {
		t.Errorf("node 1 refuses clients: %v", err)
	}
	if err := logsIn(c, 0, "u0"); err == nil {
		t.Error("a user with a limit that the version does not know is created")
	}
	if _, err := c.Broker(0).Logins.Login(ctx, "guest", "guest", netip.IPv6Loopback()); err == nil {
		t.Error("guest is created though the document has users")
	}
	if _, err := c.Broker(2).Administration.DeleteVHost(ctx, "gone"); err != nil {
		t.Fatal(err)
	}
	testcluster.Poll(t, "the version is finalised", func() error {
		_, err := c.Cluster(1).Catalog().Finalise(ctx)
		return err
	})
	for i := range 3 {
		testcluster.Poll(t, "all users are created", func() error { return errors.Join(logsIn(c, i, "u0"), logsIn(c, i, "u39")) })
	}
	testcluster.Poll(t, "nothing waits", func() error {
		if n := waiting(); n > 0 {
			return fmt.Errorf("%d objects", n)
		}
		return nil
	})
	if _, ok := c.Cluster(0).View().VHost("gone"); ok {
		t.Error("a vhost that was deleted is created again")
	}
}

// When the node that imports is lost, another one continues, and a node that starts is ready.
func TestImportWaitsOnAnotherNode(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes: not in short mode")
	}
	c := testcluster.StartAs(t, 3, testcluster.Settings{ManualFinalise: true, Broker: broker.Config{
		Definitions: imports.AtStart{Document: early()},
	}})
	for i := range 3 {
		if c.Broker(i).Definitions.Waiting() > 0 {
			c.Kill(i)
			c.Restart(i)
			break
		}
	}
	testcluster.Poll(t, "the version is finalised", func() error {
		_, err := c.Cluster(1).Catalog().Finalise(t.Context())
		return err
	})
	testcluster.Poll(t, "a permission of the document", func() error {
		if _, ok := c.Cluster(0).View().Permission("u39", "shop"); !ok {
			return errors.New("missing")
		}
		return nil
	})
}

// VH-9: a queue for which there is no room on the disks keeps no node from being ready.
func TestImportWaitsForRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node: not in short mode")
	}
	c := testcluster.StartAs(t, 1, testcluster.Settings{DiskLow: 1 << 60, Broker: broker.Config{
		Definitions: imports.AtStart{Document: fmt.Appendf(nil, `{"vhosts":[{"name":"shop"}],"queues":[{"name":"q","vhost":"shop","type":"quorum"}]}`)},
	}})
	if n := c.Broker(0).Definitions.Waiting(); n != 1 || !strings.Contains(c.Broker(0).Definitions.Warning(), "1 objects") {
		t.Errorf("%d objects wait, want the queue: %s", n, c.Broker(0).Definitions.Warning())
	}
	if _, err := c.Broker(0).Logins.Login(t.Context(), "guest", "guest", netip.IPv6Loopback()); err != nil {
		t.Errorf("the default user: %v", err)
	}
}

// Each of several nodes imports a document that is imported at every start, and all become ready.
func TestImportAlways(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes: not in short mode")
	}
	c := testcluster.StartWith(t, 3, broker.Config{Definitions: imports.AtStart{Document: defined(1), Always: true}})
	ctx := identity.WithIdentity(t.Context(), identity.Itself())
	if _, err := c.Broker(0).DeleteQueue(ctx, "shop", "q0", broker.Deletion{}); err != nil {
		t.Fatal(err)
	}
	c.Kill(1)
	c.Restart(1)
	if found, _, err := c.Broker(1).Queues.Page(ctx, "shop", 0, "", false); err != nil || len(found) != 1 {
		t.Errorf("after a restart: %+v, %v", found, err)
	}
}

// VH-1: the default user that the settings name can log in whatever users the document has, with the settings' password.
func TestDefaultUserBesideDefinitions(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes: not in short mode")
	}
	document := fmt.Appendf(nil, `{"users":[{"name":"chief","password":"secret","tags":["administrator"]},{"name":"ops","password":"other","tags":[]}]}`)
	c := testcluster.StartWith(t, 3, broker.Config{
		DefaultUser: "ops", DefaultPassword: "secret", Definitions: imports.AtStart{Document: document},
	})
	for i := range 3 {
		if err := errors.Join(logsIn(c, i, "ops"), logsIn(c, i, "chief")); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
	}
	if u, ok := c.Cluster(0).View().User("ops"); !ok || len(u.Tags) != 1 {
		t.Errorf("%+v is no administrator", u)
	}
}
