package amqp_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/internal/testcluster"
)

// Operators see the connections to all nodes from any node. They can end one by id or name, and its
// client gets the reason with code 320.
func TestOperatorsAndConnections(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	unauthenticated, first, second := dial(t, c.AMQP(0)), connect(t, c.AMQP(0)), connect(t, c.AMQP(1))
	unauthenticated.start()
	second.send(2, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](second)
	list := func(vhost, user string) (found []connections.ConnectionInfo) {
		t.Helper()
		testcluster.Poll(t, "all nodes answer", func() (err error) {
			var silent []string
			if found, silent, err = c.Broker(2).Connections.ClientConnections(all(t), vhost, user); err == nil && len(silent) > 0 {
				err = errorOf(silent)
			}
			return err
		})
		return found
	}
	found := list("/", "guest")
	if len(found) != 2 || len(list("", "")) != 2 || len(list("nix", "")) != 0 || len(list("", "nobody")) != 0 {
		t.Fatalf("%+v", found)
	}
	for i, p := range []*peer{first, second} {
		x := found[i]
		if string(x.Node) != c.Name(i) || x.Name != p.name() || x.Peer != p.nc.LocalAddr().String() || x.Protocol != "AMQP 0-9-1" || x.TLS ||
			x.User != "guest" || x.VHost != "/" || x.Channels != i+1 || x.State != connections.ConnectionRunning || x.SinceMs == 0 ||
			x.Received == 0 || x.Sent == 0 || !strings.HasPrefix(x.ID, c.Name(i)+"/") {
			t.Errorf("%+v", x)
		}
	}
	if err := c.Broker(2).Connections.EndConnection(all(t), found[0].ID, "it is time"); err != nil {
		t.Fatal(err)
	}
	if text := first.closed(wire.ConnectionForced, 0); text != "CONNECTION_FORCED - it is time" {
		t.Error(text)
	}
	if err := c.Broker(1).Connections.EndConnection(all(t), second.name(), ""); err != nil {
		t.Fatal(err)
	}
	if text := second.closed(wire.ConnectionForced, 0); text != "CONNECTION_FORCED - closed by an operator" {
		t.Error(text)
	}
	end := func(class failure.Class) {
		t.Helper()
		err := c.Broker(2).Connections.EndConnection(all(t), found[1].ID, "")
		if e, ok := errors.AsType[*failure.Error](err); !ok || e.Class != class {
			t.Errorf("%v, want %s", err, class)
		}
	}
	testcluster.Poll(t, "they are gone", func() error {
		if left := list("", ""); len(left) > 0 {
			return errorOf(left)
		}
		return nil
	})
	end(failure.NotFound)
	c.Kill(1)
	if _, silent, err := c.Broker(2).Connections.ClientConnections(all(t), "", ""); err != nil || !slices.Equal(silent, []string{c.Name(1)}) {
		t.Errorf("silent %q, %v", silent, err)
	}
	end(failure.Unavailable)
}
