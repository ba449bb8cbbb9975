package testcluster_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// batchOf returns a request with messages for a queue, numbered from first on. Each tenth is for no queue and mandatory,
// each eleventh is for an exchange that does not exist.
func batchOf(queue string, first, n int) *brokerv1.PublishRequest {
	var all []*brokerv1.PublishRequest
	for i := first; i < first+n; i++ {
		m := &brokerv1.Message{RoutingKey: queue, Body: fmt.Append(nil, i)}
		switch {
		case i%10 == 0:
			m.RoutingKey, m.Mandatory = "nix", true
		case i%11 == 0:
			m.Exchange = "nix"
		}
		all = append(all, &brokerv1.PublishRequest{Sequence: uint64(i), Message: m})
	}
	all[0].More = all[1:]
	return all[0]
}

// resultsOf checks the results of messages that batchOf made, and how they came.
func resultsOf(t *testing.T, responses []*brokerv1.PublishResponse, messages int, batches bool) {
	t.Helper()
	got := map[uint64]brokerv1.PublishResult_Result{}
	for i, r := range responses {
		if opening := batches && i == 0; opening != (r.GetMaxBatch() > 0) {
			t.Errorf("response %d of %d has max_batch %d", i, len(responses), r.GetMaxBatch())
		}
		if !batches && len(r.GetMore()) > 0 {
			t.Errorf("a caller that has not asked for batches got %v", r)
		}
		for _, r := range append([]*brokerv1.PublishResponse{r}, r.GetMore()...) {
			if n := r.GetSequence(); n > 0 {
				if _, twice := got[n]; twice {
					t.Errorf("message %d has two results", n)
				}
				got[n] = r.GetResult().GetResult()
			}
		}
	}
	for i := 1; i <= messages; i++ {
		want := brokerv1.PublishResult_RESULT_CONFIRMED
		switch {
		case i%10 == 0:
			want = brokerv1.PublishResult_RESULT_RETURNED
		case i%11 == 0:
			want = brokerv1.PublishResult_RESULT_INVALID
		}
		if got[uint64(i)] != want {
			t.Errorf("message %d: %v, want %v", i, got[uint64(i)], want)
		}
	}
	if len(got) != messages {
		t.Errorf("%d results of %d messages", len(got), messages)
	}
}

// Requests with many messages are as many requests with one: each message has its result, and the queue has them in
// order. Only who asks for it gets results in batches.
func TestPublishBatches(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	p := dial(t, c.Addrs()[0])
	for _, batches := range []bool{false, true} {
		queue := fmt.Sprint("batches-", batches)
		p.declare(t, queue)
		const messages = 600
		open := &brokerv1.PublishRequest{Producer: slices.Repeat([]byte{1}, 16), Batches: batches}
		requests := []*brokerv1.PublishRequest{open, batchOf(queue, 1, 256), batchOf(queue, 257, 1), batchOf(queue, 258, 200), batchOf(queue, 458, messages-457)}
		responses, err := publishRequests(t, p, requests...)
		if err != nil {
			t.Fatal(err)
		}
		resultsOf(t, responses, messages, batches)
		// The same again, by the same producer, is stored no second time (PUB-6).
		if responses, err = publishRequests(t, p, requests...); err != nil {
			t.Fatal(err)
		}
		resultsOf(t, responses, messages, batches)
		var want []string
		for i := 1; i <= messages; i++ {
			if i%10 != 0 && i%11 != 0 {
				want = append(want, fmt.Sprint(i))
			}
		}
		var got []string
		for _, d := range p.consume(t, queue, len(want), brokerv1.Outcome_OUTCOME_ACK) {
			got = append(got, string(d.GetBody()))
		}
		if !slices.Equal(got, want) {
			t.Errorf("the queue had %v", got)
		}
		if left, err := p.Get(testContext(t), &brokerv1.GetRequest{Queue: queue}); err != nil || left.GetDelivery() != nil {
			t.Errorf("the queue still has %v, %v", left, err)
		}
	}
}

// A node keeps a bounded number of results for a client that does not read them, also of messages that no queue has to
// decide about; when the client reads, the stream continues.
func TestResultsNobodyReads(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	p := dial(t, c.Addrs()[0])
	stream, err := p.Publish(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	const messages = 300_000 // their results are far more than what the windows of both sides hold
	var sent, limit atomic.Int64
	limit.Store(messages)
	done := make(chan error, 1)
	go func() {
		for i := int64(1); i <= limit.Load(); i++ {
			m := &brokerv1.PublishRequest{Sequence: uint64(i), Message: &brokerv1.Message{RoutingKey: "nix", Mandatory: true}}
			if err := stream.Send(m); err != nil {
				done <- err
				return
			}
			sent.Add(1)
		}
		done <- stream.CloseSend()
	}()
	// Each look takes a call's time. The sender stands still when it has not moved in many of them.
	for last, still := int64(0), 0; still < 200; {
		if _, err := p.Get(testContext(t), &brokerv1.GetRequest{Queue: "nix"}); status.Code(err) != codes.NotFound {
			t.Fatal(err)
		}
		if n := sent.Load(); n != last || n == 0 {
			last, still = n, 0
			continue
		}
		still++
	}
	if n := sent.Load(); n == messages {
		t.Fatal("the node took all messages while nobody read a result")
	}
	limit.Store(sent.Load() + 1000)
	for i := uint64(1); i <= uint64(limit.Load()); i++ {
		if r, err := stream.Recv(); err != nil || r.GetSequence() != i {
			t.Fatalf("result %d: %v, %v", i, r, err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
