package broker

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// C-9: all unknown arguments are counted. The lines about them are limited, and report how many
// were left out.
func TestUnknownArgumentsAreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var count atomic.Uint64
	unknown := newUnknownArguments(&count, slog.New(slog.NewTextHandler(&log, nil)))
	about := failure.Error{VHost: "/", Kind: "queue", Name: "q"}
	args := message.Table{{Name: "x-max-lngth", Value: message.Int64(5)}, {Name: "x-" + strings.Repeat("n", 1<<16)}}
	const n = 3 * UnknownArgumentLines
	for range n {
		warnings, err := unknown.of(t.Context(), catalog.New().View(), about, args, policy.UnknownOfQueue(args), true)
		if err != nil || len(warnings) != 2 {
			t.Fatalf("%q, %v", warnings, err)
		}
	}
	if got := count.Load(); got != 2*n {
		t.Errorf("%d are counted, want %d", got, 2*n)
	}
	text := log.String()
	if lines := strings.Count(text, "\n"); lines < UnknownArgumentLines || lines > UnknownArgumentLines+2 || len(text) > 600*lines ||
		!strings.Contains(text, "kind=queue vhost=/ name=q argument=x-max-lngth nearest=x-max-length refused=false left_out=0") {
		t.Errorf("%d lines, %d bytes:\n%.2000s", lines, len(text), text)
	}
}
