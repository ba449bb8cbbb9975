package broker

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Bounds of telling refused logins in the log: a program with an old password, or somebody who
// guesses, must not fill a disk.
const (
	// RefusedLoginLines is how many lines there are at once, and RefusedLoginEvery after what time
	// there is one more. It says how many were left out.
	RefusedLoginLines = 20
	RefusedLoginEvery = 5 * time.Second
	// maxLoggedUser bounds what is logged of a name that nobody has checked, in bytes.
	maxLoggedUser = 255
)

// LoginTry is what a listener knows of a login.
type LoginTry struct {
	Listener string // "grpc", "amqp" or "http"
	Address  string // of the client
	User     string // as the client has named it; "": it has not
}

// LoginRefused counts a login that a listener refuses because of err, and tells it in the log as
// far as there is room. What is not the client's fault is neither.
func (b *Broker) LoginRefused(ctx context.Context, try LoginTry, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok || !e.Unauthenticated && e.Class != ResourceExhausted {
		return
	}
	if e.Unauthenticated { // those refused unseen have a figure of their own
		b.counters.loginsRefused.Add(1)
	}
	skipped, ok := b.logins.lines.Take(time.Now())
	if !ok {
		return
	}
	b.log.InfoContext(ctx, "login refused", slog.String("listener", try.Listener), slog.String("address", try.Address),
		slog.String("user", try.User[:min(len(try.User), maxLoggedUser)]), slog.Any("error", err), slog.Uint64("left_out", skipped))
}
