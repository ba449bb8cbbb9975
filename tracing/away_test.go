package tracing_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/tracing"
)

// A collector that is away, or that accepts connections and never answers, holds no message up: every publish gets its
// confirm while the collector still does nothing. Few spans wait, and all are counted in the end.
func TestCollectorAway(t *testing.T) {
	const limit, messages = 50, 300
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "500") // milliseconds, after which a batch counts as lost
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // nobody calls Accept
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for name, addr := range map[string]string{"away": gone, "silent": silent.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			x := tracer(t, "node-0", addr, limit)
			nodes := testcluster.StartTraced(t, 1, func(string) *tracing.Tracer { return x })
			ch := channel(t, nodes.AMQP(0))
			if _, err := ch.QueueDeclare("q", true, false, false, false, amqp091.Table{"x-queue-type": "quorum"}); err != nil {
				t.Fatal(err)
			}
			for range messages {
				publish(t, ch, "q", amqp091.Table{"traceparent": traceparent})
			}
			const spans = 2 * messages // a publish and a commit
			if s := x.Stats(); s.Exported > 0 || s.Full+s.Failed < spans-limit {
				t.Errorf("%+v after %d spans, want at most %d that wait", s, spans, limit)
			}
			ended, end := context.WithCancel(t.Context())
			end()
			if err := x.Close(ended); err == nil {
				t.Error("the last spans have been exported")
			}
			testcluster.Poll(t, "all spans are counted", func() error {
				if s := x.Stats(); s.Exported > 0 || s.Full+s.Failed != spans {
					return fmt.Errorf("%+v, want %d dropped", s, spans)
				}
				return nil
			})
		})
	}
}
