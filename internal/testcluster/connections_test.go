package testcluster_test

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// A client's connection over gRPC is listed with who called by it, and can be closed; the
// client connects again.
func TestConnectionsOverGRPC(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	cl, operator, ctx := openClient(t, c), openClient(t, c), testContext(t)
	if _, err := client.Collect(cl.Vhosts(ctx)); err != nil {
		t.Fatal(err)
	}
	before := map[string]bool{}
	list := func() []*brokerv1.Connection {
		t.Helper()
		out, err := operator.Connections(ctx, &brokerv1.ListConnectionsRequest{User: "guest"})
		if err != nil {
			t.Fatal(err)
		}
		return out.GetConnections()
	}
	all := list()
	if len(all) != 2 {
		t.Fatalf("%v", all)
	}
	for _, x := range all {
		before[x.GetId()] = true
		if x.GetProtocol() != "gRPC" || x.GetUser() != "guest" || x.GetNode() != c.Name(0) || x.GetReceivedBytes() == 0 || x.GetSentBytes() == 0 {
			t.Errorf("%v", x)
		}
	}
	if err := operator.CloseConnection(ctx, all[0].GetId(), "enough"); err != nil { // the one of cl: it is older
		t.Fatal(err)
	}
	testcluster.Poll(t, "the client has connected again", func() error {
		if _, err := client.Collect(cl.Vhosts(ctx)); err != nil {
			return err
		}
		news := 0
		for _, x := range list() {
			if !before[x.GetId()] {
				news++
			}
		}
		if news != 1 {
			return fmt.Errorf("%d new connections", news)
		}
		return nil
	})
}
