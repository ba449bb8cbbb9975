package deadletter

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/tracing"
)

// keeping is an exporter that keeps its spans when it is shut down.
type keeping struct{ *tracetest.InMemoryExporter }

// Shutdown leaves the spans to the test.
func (keeping) Shutdown(context.Context) error { return nil }

// testTracer returns a tracer, and what ends it and returns its spans: names, targets, reasons and faults, sorted.
func testTracer(t *testing.T) (x *tracing.Tracer, end func() []string) {
	t.Helper()
	kept := keeping{tracetest.NewInMemoryExporter()}
	x, err := tracing.New(t.Context(), tracing.Config{Exporter: kept, Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	return x, func() []string {
		if err := x.Close(context.Background()); err != nil {
			t.Error(err)
		}
		var out []string
		for _, s := range kept.GetSpans() {
			about := map[string]string{}
			for _, a := range s.Attributes {
				about[string(a.Key)] = a.Value.String()
			}
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s to %s %s %s",
				s.Name, about["messaging.quorate.target"], about["messaging.quorate.reason"], s.Status.Description)))
		}
		slices.Sort(out)
		return out
	}
}

// tracedHeaders are the headers of a message that is traced.
func tracedHeaders() message.Table {
	return message.Table{{Name: "traceparent", Value: message.String("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}}
}

// Each attempt to bring a traced dead letter to a target is a span, and the log about dead letters that wait names a
// trace. Messages that are not traced have none.
func TestForwardSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.exchange(catalog.ExchangeFanout)
		source := w.declare("source", atLeastOnce)
		w.declare("plain", nil)
		small := w.declare("small", func(c *quorumq.Config) { c.MaxLength, c.Overflow = 2, quorumq.OverflowRejectPublish })
		w.bind("plain", "")
		w.bind("small", "")
		w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
		w.discard(source, quorumq.ReasonRejected, "k", "untraced")
		w.headers = tracedHeaders()
		w.discard(source, quorumq.ReasonRejected, "k", "a", "b")
		x, end := testTracer(t)
		var log bytes.Buffer
		f, _ := w.start(source, Config{Tracer: x, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		synctest.Wait()
		w.take(small, 2)
		f.Retry(small)
		synctest.Wait()
		f.Close()
		f.Wait()
		got, want := end(), []string{
			"dead-letter source to plain rejected", "dead-letter source to plain rejected",
			"dead-letter source to small rejected", "dead-letter source to small rejected",
			"dead-letter source to small rejected " + refusedText,
		}
		if !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
		if !strings.Contains(log.String(), "trace_id=0af7651916cd43dd8448eb211c80319c") {
			t.Errorf("the log has no trace: %s", log.String())
		}
	})
}

// A moved message is no dead letter, and its span does not say so.
func TestMoveSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.moves = true
		source, target := w.declare("source", nil), w.declare("target", nil)
		w.put(source, &message.Message{Headers: tracedHeaders(), Body: []byte("m")})
		x, end := testTracer(t)
		f, _ := w.start(source, Config{Tracer: x})
		w.move(source, quorumq.Destination{Kind: quorumq.ToQueue, Name: "target"})
		f.Wake()
		synctest.Wait()
		f.Close()
		f.Wait()
		if got := end(); !slices.Equal(got, []string{"move source to target"}) || len(w.take(target, 9)) != 1 {
			t.Errorf("spans %q", got)
		}
	})
}

// At-most-once copies have spans too.
func TestCopySpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.exchange(catalog.ExchangeFanout)
		source := w.declare("source", atMostOnce)
		w.declare("plain", nil)
		w.declare("small", func(c *quorumq.Config) { c.MaxLength, c.Overflow = 1, quorumq.OverflowRejectPublish })
		w.bind("plain", "")
		w.bind("small", "")
		w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
		w.headers = tracedHeaders()
		w.discard(source, quorumq.ReasonExpired, "k", "a", "b")
		x, end := testTracer(t)
		c := NewCopier(Config{Tracer: x}, &term{w: w, uid: source}, w, w)
		c.Add(w.machine(source).copies)
		synctest.Wait()
		c.Close()
		c.Wait()
		got, want := end(), []string{
			"dead-letter source to plain expired", "dead-letter source to plain expired",
			"dead-letter source to small expired", "dead-letter source to small expired " + ErrRefused.Error(),
		}
		if !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
	})
}
