package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quorate/quorate/broker/failure"
)

// All refused logins are counted. The lines about them are limited, and report how many were left
// out.
func TestRefusedLoginsAreLogged(t *testing.T) {
	var log bytes.Buffer
	var refused atomic.Uint64
	l := testAudit(&log, &refused)
	try := LoginTry{From: Origin{Protocol: "amqp", Address: "192.0.2.1:5"}, User: "bad\x1b[2J" + strings.Repeat("x", 1000)}
	wrong := &failure.Error{Class: failure.AccessRefused, Unauthenticated: true, Reason: "wrong"}
	const n = 3 * RefusedLoginLines
	for range n {
		l.LoginRefused(t.Context(), try, wrong)
	}
	if got := refused.Load(); got != n {
		t.Errorf("%d are counted, want %d", got, n)
	}
	text := log.String()
	if lines := strings.Count(text, "\n"); lines < RefusedLoginLines || lines > RefusedLoginLines+2 || len(text) > 600*lines ||
		!strings.Contains(text, "operation=login outcome=refused user=\"\" mechanism=\"\" protocol=amqp address=192.0.2.1:5 client=\"\" vhost=\"\" object=user name=\"bad\\x1b[2Jx") {
		t.Errorf("%d lines:\n%s", lines, text)
	}
	log.Reset()
	for _, err := range []error{context.Canceled, &failure.Error{Class: failure.Unavailable, Reason: "starting"}} {
		l.LoginRefused(t.Context(), try, err)
	}
	l.LoginRefused(t.Context(), try, &failure.Error{Class: failure.ResourceExhausted})
	if refused.Load() != n || strings.Contains(log.String(), "starting") {
		t.Errorf("what is not the client's doing counts: %s", log.String())
	}
}

// Attempts to log in are counted by how they end, with what is known of where they come from. What is no client's fault is no
// attempt.
func TestLoginsAreCounted(t *testing.T) {
	var refused atomic.Uint64
	var got []string
	l := testAudit(io.Discard, &refused)
	l.cfg.Tried = func(protocol, address, user string, accepted bool) {
		got = append(got, fmt.Sprint(protocol, " ", address, " ", user, " ", accepted))
	}
	from := Origin{Protocol: "amqp", Address: "192.0.2.1:5"}
	try := LoginTry{From: from, User: "u"}
	l.LoginRefused(t.Context(), try, &failure.Error{Class: failure.AccessRefused, Unauthenticated: true})
	l.LoginRefused(t.Context(), try, &failure.Error{Class: failure.ResourceExhausted})
	l.LoginRefused(t.Context(), try, &failure.Error{Class: failure.Unavailable})
	l.LoggedIn(t.Context(), from, "/") // nobody has to log in
	l.LoggedIn(user("v", false), from, "/")
	want := "amqp 192.0.2.1:5 u false; amqp 192.0.2.1:5 u false; amqp 192.0.2.1:5 v true"
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
