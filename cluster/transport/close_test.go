package transport

import (
	"context"
	"errors"
	"testing"
	"time"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// stubborn has a call that does not return when its context ends.
type stubborn struct {
	nodev1.UnimplementedNodeServer
	begun, end chan struct{}
}

func (s stubborn) NodeStatus(context.Context, *nodev1.NodeStatusRequest) (*nodev1.NodeStatusResponse, error) {
	close(s.begun)
	<-s.end
	return &nodev1.NodeStatusResponse{}, nil
}

// A call that does not return holds up neither Close beyond its context, nor Serve at all.
func TestCloseWithStubbornCall(t *testing.T) {
	calls := stubborn{begun: make(chan struct{}), end: make(chan struct{})}
	conf := testConfig("n2", 1)
	conf.Calls = calls
	a, b := start(t, testConfig("n1", 1)), start(t, conf)
	t.Cleanup(func() { close(calls.end) }) // before both are stopped
	meet(a, b)
	connected(t, a, b)
	client, err := a.Client("n2")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = client.NodeStatus(t.Context(), &nodev1.NodeStatusRequest{}) }() // its connection ends
	<-calls.begun
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := b.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close returned %v", err)
	}
	select {
	case err := <-b.served:
		if err != nil {
			t.Errorf("Serve returned %v", err)
		}
	case <-time.After(time.Minute):
		t.Errorf("Serve waits for the call\n%s", stacks())
	}
}
