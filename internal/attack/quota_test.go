//go:build linux

package attack

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// All nodes of a cluster with quotas are killed at once, and one starts before the others: rates and what a vhost may hold are
// bounded as before, and nothing is lost that was confirmed (VH-14, VH-16).
func TestQuotasAfterAllWereKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes: not in short mode")
	}
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: t.TempDir(), Nodes: 3, Name: "quotas"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 4*startTimeout) // they start twice
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	v := &victim{t, c.Nodes[0]}
	cl, err := client.Dial(ctx, client.Config{Addresses: c.Addresses()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	const rate, holds = 200, 1_000_000
	limit, bytes := int64(rate), int64(holds)
	for _, h := range []string{"rated", "full"} {
		if _, err := cl.PutVHost(ctx, client.VHost{Name: h}); err != nil {
			t.Fatal(err)
		}
		if _, err := cl.DeclareQueue(ctx, client.Queue{VHost: h, Name: "q"}); err != nil {
			t.Fatal(err)
		}
	}
	v.until("quotas can be set", func() error {
		return cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "rated", Limits: client.VHostLimits{MaxMessageRate: &limit}})
	})
	if err := cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "full", Limits: client.VHostLimits{MaxStoredBytes: &bytes}}); err != nil {
		t.Fatal(err)
	}
	confirmed := map[string]int{"rated": 0, "full": 0}
	full := func(node *chaos.Node) func() error {
		return func() error {
			for {
				err := publishWithin(ctx, t, node, "full", 50_000, 2*time.Second)
				switch {
				case err == nil:
					confirmed["full"]++
				case status.Code(err) == codes.ResourceExhausted:
					return nil
				default:
					return err
				}
			}
		}
	}
	v.until("the vhost is full", full(c.Nodes[0]))
	before := confirmed["full"]
	rated(t, c, confirmed, rate)

	c.Kill()
	if err := c.Nodes[1].Start(); err != nil {
		t.Fatal(err)
	}
	v.until("one node alone serves nobody", func() error {
		if err := publishWithin(ctx, t, c.Nodes[1], "rated", 10, time.Second); status.Code(err) != codes.Unavailable {
			return fmt.Errorf("a publish is answered %v", status.Code(err))
		}
		return nil
	})
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	rated(t, c, confirmed, rate)
	// VH-16 bounds what comes in until then by time, not by messages.
	v.until("the vhost is full again", full(c.Nodes[2]))
	t.Logf("%d messages in the full vhost, then %d", before, confirmed["full"])
	for h, want := range confirmed {
		v.until("what was confirmed is there", func() error {
			q, err := cl.GetQueue(ctx, client.QueueRef{VHost: h, Name: "q"})
			if err == nil && (q.Stats == nil || q.Stats.MessagesReady < uint64(want)) {
				err = fmt.Errorf("in %s: %+v, want %d", h, q.Stats, want)
			}
			return err
		})
	}
}

// publishWithin publishes one message at a node.
func publishWithin(ctx context.Context, t *testing.T, n *chaos.Node, vhost string, bytes int, within time.Duration) error {
	t.Helper()
	cc, err := grpc.NewClient(n.Client, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cc.Close() }()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "authorization", guest), within)
	defer cancel()
	return publishOnce(ctx, brokerv1.NewBrokerClient(cc), &brokerv1.Message{Vhost: vhost, RoutingKey: "q", Body: make([]byte, bytes)}, true)
}

// rated publishes at all nodes for a while, as fast as it may, and compares that with the rate.
func rated(t *testing.T, c *chaos.Cluster, confirmed map[string]int, rate int) {
	t.Helper()
	// Several at a node: each waits until its message is stored, which takes long on a disk that others use, too.
	const warm, lasts, each = 2 * time.Second, 4 * time.Second, 10
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	results := make(chan struct{}, 1000)
	ended := make(chan struct{})
	for _, n := range c.Nodes {
		p := publisherOf(ctx, t, n)
		for range each {
			go func() {
				defer func() { ended <- struct{}{} }()
				for ctx.Err() == nil {
					r, err := p.Publish(ctx, client.Message{VHost: "rated", RoutingKey: "q", Body: []byte("x")})
					switch {
					case err == nil && r.Outcome == client.Confirmed:
						results <- struct{}{}
					case ctx.Err() == nil:
						t.Errorf("a publish: %v, %v", r, err)
						return
					}
				}
			}()
		}
	}
	all, counted, running := 0, 0, each*len(c.Nodes)
	began := time.Now().Add(warm) // the nodes know what all want
	took := lasts
	end := time.After(warm + lasts)
	for running > 0 {
		select {
		case <-results:
			all++
			if time.Now().After(began) && ctx.Err() == nil {
				counted++
			}
		case <-end:
			took = time.Since(began)
			cancel()
		case <-ended:
			running--
		}
	}
	confirmed["rated"] += all + len(results)
	allowed := float64(rate) * took.Seconds()
	t.Logf("%d in %v", counted, took)
	if have := float64(counted); have > 1.2*allowed || have < 0.5*allowed {
		t.Errorf("%d messages in %v, at %d a second", counted, took, rate)
	}
}

func publisherOf(ctx context.Context, t *testing.T, n *chaos.Node) *client.Publisher {
	t.Helper()
	cl, err := client.Dial(ctx, client.Config{Addresses: []string{n.Client}, FixedAddresses: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	p, err := cl.Publisher(client.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// basic is the authorization of a user with the password "secret".
func basic(user string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":secret"))
}
