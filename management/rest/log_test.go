package rest_test

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/logtail"
)

// The stream begins with the newest lines that are chosen, continues with new ones, and after a cut continues behind
// the last one that the caller has.
func TestLog(t *testing.T) {
	a, c := one(t)
	log := slog.New(c.Lines(0).Handler(slog.NewTextHandler(io.Discard, nil))) //nolint:sloglint // DiscardHandler takes no lines at all
	log.Warn("first", "queue", "Orders")
	log.Info("second", "queue", "orders")
	log.Warn("third")
	log.Warn("fourth", "queue", "orders")
	w := a.watch("/v1/log?level=warn&contains=orders&limit=1", "")
	if x := w.event(); x.name != "begin" || x.data != `{"node":"node-0"}` {
		t.Errorf("%+v", x)
	}
	type line struct {
		Node, Level, Message, Attributes string
		Number, At                       int64
	}
	next := func(w watching, want line) string {
		t.Helper()
		x := w.event()
		got := samples[line](t, x)
		if got != want || x.name != "" || x.id == "" {
			t.Errorf("%+v, want %+v", x, want)
		}
		return x.id
	}
	id := next(w, line{Node: "node-0", Level: "warn", Message: "fourth", Attributes: "queue=orders", Number: 4})
	log.Error("of no queue")
	log.Error("fifth of ORDERS")
	next(w, line{Node: "node-0", Level: "error", Message: "fifth of ORDERS", Number: 6})
	w.close()
	log.Warn("orders missed")
	w = a.watch("/v1/log?contains=orders", id)
	w.event()
	next(w, line{Node: "node-0", Level: "error", Message: "fifth of ORDERS", Number: 6})
	next(w, line{Node: "node-0", Level: "warn", Message: "orders missed", Number: 7})
	w = a.watch("/v1/log", "9999.4")
	w.event()
	next(w, line{Node: "node-0", Level: "warn", Message: "first", Attributes: "queue=Orders", Number: 1})
	a.run([]row{
		{do: "GET /v1/log?level=loud", code: 400, want: has("loud", "want debug, info, warn or error")},
		{do: "GET /v1/log?limit=2001", code: 400, want: has("want 0 to 2000")},
		{do: "GET /v1/log?node=nix", code: 404, want: has("nix")},
		{who: "manager", do: "GET /v1/log", code: 403},
	})
}

// Any node shows the log of any other one. When that one goes, the stream ends with the reason.
func TestLogOfAnotherNode(t *testing.T) {
	a := start(t, 3)
	log := slog.New(a.cluster.Lines(0).Handler(slog.NewTextHandler(io.Discard, nil))) //nolint:sloglint // as above
	long := strings.Repeat("x", logtail.MaxTextBytes)
	for range 600 { // more than one answer of a node has
		log.Info(long) //nolint:sloglint // the message itself is long
	}
	log.Warn("there")
	w := a.watch("/v1/log?node=node-0&limit=600", "")
	if x := w.event(); x.data != `{"node":"node-0"}` {
		t.Errorf("%+v", x)
	}
	for range 599 {
		if x := w.event(); !strings.Contains(x.data, long) {
			t.Fatalf("%+v", x)
		}
	}
	last := w.event()
	log.Error("then")
	if x := w.event(); !strings.Contains(last.data, `"message":"there"`) || !strings.Contains(x.data, `"message":"then"`) || !strings.Contains(x.data, `"node":"node-0"`) {
		t.Errorf("%+v, %+v", last, x)
	}
	again := a.watch("/v1/log?node=node-0&level=error", last.id)
	again.event()
	if x := again.event(); !strings.Contains(x.data, `"message":"then"`) {
		t.Errorf("%+v", x)
	}
	a.cluster.Kill(0)
	if x := w.until("error"); x.name != "fault" || !strings.Contains(x.data, "node-0") {
		t.Errorf("%+v", x)
	}
	a.run([]row{{do: "GET /v1/log?node=node-0", code: 503, want: has("node-0")}})
}
