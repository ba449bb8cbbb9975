package stats

import (
	"testing"
	"time"

	"github.com/quorate/quorate/broker/connections"
)

// A connection's rates are those between two looks. One that is new, or that nobody has looked at for long, has none.
func TestRatesOfConnections(t *testing.T) {
	of := func(id string, received, sent uint64) connections.ConnectionInfo {
		return connections.ConnectionInfo{ID: id, Received: received, Sent: sent}
	}
	at := time.Now()
	first := newConnections(nil, []connections.ConnectionInfo{of("a", 10, 20), of("b", 5, 5)}, at)
	second := newConnections(first, []connections.ConnectionInfo{of("a", 30, 20), of("new", 1000, 1000)}, at.Add(2*time.Second))
	late := newConnections(second, []connections.ConnectionInfo{of("a", 5000, 5000)}, at.Add(3*time.Second+RateWithin))
	for _, x := range []struct {
		in            *Connections
		id            string
		receive, send float64
	}{{first, "a", 0, 0}, {second, "a", 10, 0}, {second, "b", 0, 0}, {second, "new", 0, 0}, {late, "a", 0, 0}, {nil, "a", 0, 0}} {
		if receive, send := x.in.RatesOf(x.id); receive != x.receive || send != x.send {
			t.Errorf("%s: %v and %v, want %v and %v", x.id, receive, send, x.receive, x.send)
		}
	}
}
