package rest_test

import (
	"io"
	"log/slog"
	"testing"

	"github.com/quorate/quorate/internal/logtail"
	"github.com/quorate/quorate/management/rest"
)

// The stream begins with the newest lines that are chosen, goes on with new ones, and after a cut continues behind the
// last one that the caller has.
func TestLog(t *testing.T) {
	_, c := one(t)
	set := whole(c)
	set.Log = logtail.New()
	log := slog.New(set.Log.Handler(slog.NewTextHandler(io.Discard, nil)))
	a := on(t, rest.New(set), c, 0)
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
	w = a.watch("/v1/log", "1.4")
	w.event()
	next(w, line{Node: "node-0", Level: "warn", Message: "first", Attributes: "queue=Orders", Number: 1})
	a.run([]row{
		{do: "GET /v1/log?level=loud", code: 400, want: has("loud", "want debug, info, warn or error")},
		{do: "GET /v1/log?limit=2001", code: 400, want: has("want 0 to 2000")},
		{who: "manager", do: "GET /v1/log", code: 403},
	})
}
