package broker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
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

// refusedLines is how many lines may be written.
type refusedLines struct {
	mu      sync.Mutex
	left    float64
	at      time.Time // when left was counted; zero: never
	skipped uint64    // since the last line
}

// take tells whether there is a line, and how many there were none for since the last one.
func (r *refusedLines) take(now time.Time) (skipped uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() {
		r.left = RefusedLoginLines
	} else {
		r.left = min(RefusedLoginLines, r.left+float64(now.Sub(r.at))/float64(RefusedLoginEvery))
	}
	r.at = now
	if r.left < 1 {
		r.skipped++
		return 0, false
	}
	r.left--
	skipped, r.skipped = r.skipped, 0
	return skipped, true
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
	skipped, ok := b.logins.lines.take(time.Now())
	if !ok {
		return
	}
	b.log.InfoContext(ctx, "login refused", slog.String("listener", try.Listener), slog.String("address", try.Address),
		slog.String("user", try.User[:min(len(try.User), maxLoggedUser)]), slog.Any("error", err), slog.Uint64("left_out", skipped))
}
