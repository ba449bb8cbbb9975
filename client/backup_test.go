package client

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// exporter is a node that sends copies of queues.
type exporter struct {
	brokerv1.UnimplementedBrokerServer
	brokerv1.UnimplementedAdminServer
	brokerv1.UnimplementedBackupsServer

	block string // "": it sends none
	fails bool   // behind that, as a broker that is well otherwise
	asked atomic.Int32
}

func (e *exporter) ExportQueue(_ *brokerv1.ExportQueueRequest, s grpc.ServerStreamingServer[brokerv1.ExportQueueResponse]) error {
	e.asked.Add(1)
	if e.block != "" {
		if err := s.Send(&brokerv1.ExportQueueResponse{Block: []byte(e.block)}); err != nil {
			return err
		}
	}
	if !e.fails {
		return nil
	}
	of, err := status.New(codes.Unavailable, "UNAVAILABLE: no leader could be reached in time").
		WithDetails(&errdetails.ErrorInfo{Reason: string(Unavailable)})
	return errors.Join(of.Err(), err)
}

// exporting returns a client of some nodes, and their addresses.
func exporting(t *testing.T, nodes ...*exporter) (c *Client, addresses []string) {
	t.Helper()
	for _, n := range nodes {
		addresses = append(addresses, serve(t, n))
	}
	c, err := New(Config{Addresses: addresses, FixedAddresses: true, ProbeInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, addresses
}

// answered has nodes answer probes first. So the client goes to them in the order that it prefers, however busy the machine
// is.
func answered(t *testing.T, c *Client, addresses []string) {
	t.Helper()
	all, err := c.nodes.candidates(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		if !slices.Contains(addresses, n.address) {
			continue
		}
		if _, err := n.probe(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// export returns the blocks of a copy.
func export(t *testing.T, c *Client, r ExportQueueRequest) (copied string, err error) {
	t.Helper()
	err = c.ExportQueue(t.Context(), r, func() error {
		copied = ""
		return nil
	}, func(b []byte) error {
		copied += string(b)
		return nil
	})
	return copied, err
}

// A copy that a node cannot send, or not to its end, comes from the next one that the call prefers, even if there is no
// patience left.
func TestExportQueueFromNextNode(t *testing.T) {
	t.Parallel()
	for _, sent := range []string{"", "a part"} {
		for _, patience := range []time.Duration{3 * time.Second, 1} {
			a, b := &exporter{block: sent, fails: true}, &exporter{block: "all"}
			c, addresses := exporting(t, a, b)
			answered(t, c, addresses)
			got, err := export(t, c, ExportQueueRequest{Queue: "q", Nodes: addresses, Patience: Patience{For: patience}})
			if err != nil || got != "all" || a.asked.Load() != 1 {
				t.Errorf("%q sent before it fails, patience %v: copied %q, %v; it was asked %d times", sent, patience, got, err, a.asked.Load())
			}
		}
	}
}

// Without patience, each preferred node is asked once, and another one only if none of these answers.
func TestExportQueueGivesUp(t *testing.T) {
	t.Parallel()
	const dead, unknown = "127.0.0.1:1", "127.0.0.1:2"
	a, b, usual := &exporter{fails: true}, &exporter{fails: true}, &exporter{fails: true}
	c, addresses := exporting(t, a, b, usual)
	c.nodes.learned([]string{dead})
	c.nodes.mu.Lock()
	c.nodes.current = 2
	c.nodes.mu.Unlock()
	for _, row := range []struct {
		nodes []string
		want  [3]int32
	}{
		{[]string{unknown, dead, addresses[0], dead, addresses[1]}, [3]int32{1, 1, 0}},
		{[]string{dead, unknown}, [3]int32{0, 0, 1}},
		{nil, [3]int32{0, 0, 1}},
	} {
		answered(t, c, addresses)
		_, err := export(t, c, ExportQueueRequest{Queue: "q", Nodes: row.nodes, Patience: Patience{For: 1}})
		if got := [3]int32{a.asked.Swap(0), b.asked.Swap(0), usual.asked.Swap(0)}; !errors.Is(err, ErrNoProgress) || got != row.want {
			t.Errorf("%v: asked %v times, want %v; %v", row.nodes, got, row.want, err)
		}
	}
}
