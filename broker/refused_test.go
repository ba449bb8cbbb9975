package broker

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/quorate/quorate/access"
)

// Refused logins are all counted, and told in so many lines, which say what was left out.
func TestRefusedLoginsAreTold(t *testing.T) {
	var log bytes.Buffer
	b := alone(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	defer b.Close()
	try := LoginTry{From: Origin{Protocol: "amqp", Address: "192.0.2.1:5"}, User: "bad\x1b[2J" + strings.Repeat("x", 1000)}
	const n = 3 * RefusedLoginLines
	for range n {
		b.LoginRefused(t.Context(), try, unauthenticated(access.WrongPassword))
	}
	if got := b.clients.Counters.LoginsRefused.Load(); got != n {
		t.Errorf("%d are counted, want %d", got, n)
	}
	text := log.String()
	if lines := strings.Count(text, "\n"); lines < RefusedLoginLines || lines > RefusedLoginLines+2 || len(text) > 600*lines ||
		!strings.Contains(text, "operation=login outcome=refused user=\"\" mechanism=\"\" protocol=amqp address=192.0.2.1:5 client=\"\" vhost=\"\" object=user name=\"bad\\x1b[2Jx") {
		t.Errorf("%d lines:\n%s", lines, text)
	}
	log.Reset()
	for _, err := range []error{context.Canceled, errNotServing(errFirstUser)} {
		b.LoginRefused(t.Context(), try, err)
	}
	b.LoginRefused(t.Context(), try, tooManyLogins())
	if b.clients.Counters.LoginsRefused.Load() != n || strings.Contains(log.String(), "starting") {
		t.Errorf("what is not the client's doing counts: %s", log.String())
	}
}
