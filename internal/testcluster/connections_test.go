package testcluster_test

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// A client's connection over gRPC is listed with who called by it, and can be closed; the
// client connects again.
func TestConnectionsOverGRPC(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	cl, operator, ctx := openClient(t, c), openClient(t, c), testContext(t)
	if _, err := client.Collect(cl.VHosts(ctx)); err != nil {
		t.Fatal(err)
	}
	before := map[string]bool{}
	list := func() []client.ConnectionInfo {
		t.Helper()
		all, err := client.Collect(operator.Connections(ctx, client.ListConnectionsRequest{User: "guest"}))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := list()
	if len(all) != 2 {
		t.Fatalf("%v", all)
	}
	for _, x := range all {
		before[x.ID] = true
		if x.Protocol != "gRPC" || x.User != "guest" || x.Node != c.Name(0) || x.ReceivedBytes == 0 || x.SentBytes == 0 {
			t.Errorf("%v", x)
		}
	}
	if err := operator.CloseConnection(ctx, client.CloseConnectionRequest{Connection: all[0].ID, Reason: "enough"}); err != nil { // the one of cl: it is older
		t.Fatal(err)
	}
	testcluster.Poll(t, "the client has connected again", func() error {
		if _, err := client.Collect(cl.VHosts(ctx)); err != nil {
			return err
		}
		news := 0
		for _, x := range list() {
			if !before[x.ID] {
				news++
			}
		}
		if news != 1 {
			return fmt.Errorf("%d new connections", news)
		}
		return nil
	})
}
