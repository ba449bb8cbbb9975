package testcluster_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Many Gets at once on one connection get all messages, each once, although few of them have room for their answers at a
// time: the others wait for it. Nothing is refused, and no client has to try again.
func TestParallelGets(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	p := dial(t, c.Addrs()[0])
	p.declare(t, "q")
	const calls = 100
	p.publish(t, "q", calls)
	ctx := testContext(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	got := map[string]bool{}
	for range calls {
		all.Go(func() {
			r, err := p.Get(ctx, &brokerv1.GetRequest{Queue: "q", AutoAck: true})
			mu.Lock()
			defer mu.Unlock()
			switch body := string(r.GetDelivery().GetBody()); {
			case err != nil:
				errs = append(errs, err)
			case r.GetDelivery() == nil || got[body]:
				errs = append(errs, fmt.Errorf("got %q, a message of its own is missing", body))
			default:
				got[body] = true
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil || len(got) != calls {
		t.Errorf("%d of %d messages: %v", len(got), calls, err)
	}
}
