//go:build linux

package attack

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Large messages that a quota holds back, of calls and of streams, keep within the budget of bytes that are being received; and
// who needs the room gets it (VH-14).
func TestHeldMessages(t *testing.T) {
	const large, budget, each = 8<<20 - 1<<10, 64 << 20, 24
	v := attacked(t, fmt.Sprintf("limits:\n  incoming_bytes: %d\n", budget))
	h := v.behave(1000)
	h.more(10)
	ctx := t.Context()
	if _, err := h.client.PutVHost(ctx, client.VHost{Name: "held"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.client.DeclareQueue(ctx, client.Queue{VHost: "held", Name: "q"}); err != nil {
		t.Fatal(err)
	}
	users := []string{"a", "b"}
	for _, u := range users {
		if _, err := h.client.PutUser(ctx, client.User{Name: u, Password: "secret"}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.client.SetPermission(ctx, client.Permission{VHost: "held", User: u, Configure: ".*", Write: ".*", Read: ".*"}); err != nil {
			t.Fatal(err)
		}
	}
	none := int64(0)
	v.until("quotas can be set", func() error {
		return h.client.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "held", Limits: client.VHostLimits{MaxMessageRate: &none}})
	})
	v.forgetPeak()
	before := v.peak()
	var held sync.WaitGroup
	results := make(chan error, each*len(users))
	m := &brokerv1.Message{Vhost: "held", RoutingKey: "q", Body: make([]byte, large)}
	for _, u := range users {
		as := metadata.AppendToOutgoingContext(ctx, "authorization", basic(u))
		for i := range each {
			cl := brokerv1.NewBrokerClient(v.dial())
			held.Go(func() { results <- publishOnce(as, cl, m, i%2 == 0) })
		}
	}
	v.until("the budget is used, and messages wait", func() error {
		if len(results) > 0 {
			t.Fatalf("a publisher has ended: %v", <-results)
		}
		used, waiting, held := v.figure(`quorate_incoming_bytes{protocol="grpc"}`), v.figure(`quorate_incoming_waiting{protocol="grpc"}`), v.figure("quorate_quota_waiting")
		if used < budget*15/16 || used > budget*9/8 || waiting == 0 || int(held+waiting) != each*len(users) {
			return fmt.Errorf("%v bytes, %v wait for room, %v for a quota", used, waiting, held)
		}
		return nil
	})
	took := v.peak() - before
	t.Logf("%d MiB of messages took %d MiB", len(users)*each*large>>20, took>>20)
	if took > 3*budget {
		t.Errorf("%d messages of %d bytes took %d bytes", len(users)*each, large, took)
	}
	if err := publishOnce(metadata.AppendToOutgoingContext(ctx, "authorization", guest), brokerv1.NewBrokerClient(v.dial()),
		&brokerv1.Message{RoutingKey: "honest", Body: m.Body}, true); err != nil {
		t.Errorf("another user's large message: %v", err)
	}
	if err := h.client.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "held", Limits: client.VHostLimits{}}); err != nil {
		t.Fatal(err)
	}
	held.Wait()
	confirmed, refused := 0, 0
	for range cap(results) {
		switch err := <-results; status.Code(err) {
		case codes.OK:
			confirmed++
		case codes.ResourceExhausted:
			refused++
		default:
			t.Error(err)
		}
	}
	t.Logf("%d were confirmed, %d refused", confirmed, refused)
	if refused == 0 || confirmed < each {
		t.Errorf("%d were confirmed, %d refused", confirmed, refused)
	}
	h.more(10)
	h.end()
}

// publishOnce publishes a message by a call, or by a stream.
func publishOnce(ctx context.Context, cl brokerv1.BrokerClient, m *brokerv1.Message, call bool) error {
	if call {
		_, err := cl.PublishOne(ctx, &brokerv1.PublishOneRequest{Message: m})
		return err
	}
	s, err := cl.Publish(ctx)
	if err != nil {
		return err
	}
	_ = s.Send(&brokerv1.PublishRequest{Sequence: 1, Message: m}) // what is wrong is answered at once
	_, err = s.Recv()
	return err
}
