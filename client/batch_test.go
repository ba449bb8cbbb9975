package client

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"google.golang.org/grpc"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// batchingNode confirms what is published, and keeps each request. It takes requests of up to most messages, which it
// says with its first response; 0: it is of an older build.
type batchingNode struct {
	brokerv1.UnimplementedBrokerServer
	brokerv1.UnimplementedAdminServer
	most uint32

	mu       sync.Mutex // guards what follows
	requests [][]*brokerv1.PublishRequest
}

func (n *batchingNode) ClusterStatus(context.Context, *brokerv1.ClusterStatusRequest) (*brokerv1.ClusterStatusResponse, error) {
	return &brokerv1.ClusterStatusResponse{Cluster: "test"}, nil
}

func (n *batchingNode) Publish(s grpc.BidiStreamingServer[brokerv1.PublishRequest, brokerv1.PublishResponse]) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	if n.most > 0 && first.GetBatches() {
		if err := s.Send(&brokerv1.PublishResponse{MaxBatch: n.most}); err != nil {
			return err
		}
	}
	for {
		r, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		n.mu.Lock()
		n.requests = append(n.requests, append([]*brokerv1.PublishRequest{r}, r.GetMore()...))
		n.mu.Unlock()
		confirmed := &brokerv1.PublishResult{Result: brokerv1.PublishResult_RESULT_CONFIRMED, Queues: 1}
		answer := &brokerv1.PublishResponse{Sequence: r.GetSequence(), Result: confirmed}
		for _, further := range r.GetMore() {
			answer.More = append(answer.More, &brokerv1.PublishResponse{Sequence: further.GetSequence(), Result: confirmed})
		}
		if err := s.Send(answer); err != nil {
			return err
		}
	}
}

// Messages go out many in a request to nodes that say how many they take, and to others one by one. All arrive in order.
func TestPublisherJoins(t *testing.T) {
	t.Parallel()
	for _, most := range []uint32{0, 1, 3, 256} {
		n := &batchingNode{most: most}
		c := dial(t, serve(t, n))
		p, err := c.Publisher(PublisherConfig{})
		if err != nil {
			t.Fatal(err)
		}
		const messages = 5000 // far more bytes than are under way before the node has said what it takes
		for range messages {
			err := p.PublishAsync(t.Context(), Message{RoutingKey: "q", Body: make([]byte, 1000)}, func(r Result, err error) {
				if err != nil {
					t.Errorf("%v, %v", r, err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.mu.Lock()
		next, largest := uint64(0), 0
		for _, request := range n.requests {
			largest = max(largest, len(request))
			for _, r := range request {
				if next++; r.GetSequence() != next || len(r.GetMessage().GetBody()) != 1000 {
					t.Fatalf("most %d: message %d has sequence %d", most, next, r.GetSequence())
				}
			}
		}
		n.mu.Unlock()
		if next != messages || largest > max(1, int(most)) || most > 1 && largest < 2 {
			t.Errorf("most %d: %d messages, at most %d in a request", most, next, largest)
		}
	}
}

func TestFitting(t *testing.T) {
	t.Parallel()
	of := func(sizes ...int) (all []*brokerv1.PublishRequest) {
		for _, size := range sizes {
			all = append(all, &brokerv1.PublishRequest{Message: &brokerv1.Message{Body: make([]byte, size)}})
		}
		return all
	}
	for _, c := range []struct {
		sizes      []int
		most, want int
	}{
		{[]int{1}, 9, 1},
		{[]int{1, 1, 1}, 0, 1},
		{[]int{1, 1, 1}, 1, 1},
		{[]int{1, 1, 1}, 2, 2},
		{[]int{1, 1, 1}, 9, 3},
		{[]int{maxJoinedBytes, 1}, 9, 1},
		{[]int{maxJoinedBytes * 9, 1}, 9, 1},
		{[]int{1, maxJoinedBytes, 1}, 9, 1},
		{[]int{1, maxJoinedBytes - 100, 1}, 9, 3},
		{[]int{0}, 9, 1},
		{[]int{maxJoinedBytes - 10, 9, 1}, 9, 1},
	} {
		if got := fitting(of(c.sizes...), c.most); got != c.want {
			t.Errorf("%v, most %d: %d, want %d", c.sizes, c.most, got, c.want)
		}
	}
}
