package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/event"
)

// Bounds of telling refused logins in the log: a program with an old password, or somebody who
// guesses, must not fill a disk.
const (
	// RefusedLoginLines is how many lines there are at once, and RefusedLoginEvery after what time
	// there is one more. It says how many were left out.
	RefusedLoginLines = 20
	RefusedLoginEvery = 5 * time.Second
)

// LoginTry is what a listener knows of a login.
type LoginTry struct {
	From Origin
	User string // as the client has named it; "": it has not
}

// limitedLines is how many lines of a kind may be written: so many at once, then one after each
// while.
type limitedLines struct {
	most  float64
	every time.Duration

	mu      sync.Mutex
	left    float64
	at      time.Time // when left was counted; zero: never
	skipped uint64    // since the last line
}

// take tells whether there is a line, and how many there were none for since the last one.
func (r *limitedLines) take(now time.Time) (skipped uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() {
		r.left = r.most
	} else {
		r.left = min(r.most, r.left+float64(now.Sub(r.at))/float64(r.every))
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

// LoginRefused counts a login that a listener refuses because of err, and tells it in the audit as
// far as there is room. What is not the client's fault is neither.
func (b *Broker) LoginRefused(ctx context.Context, try LoginTry, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok || !e.Unauthenticated && e.Class != ResourceExhausted && e.Class != NotAllowed {
		return
	}
	if e.Unauthenticated { // those refused unseen have a figure of their own
		b.counters.loginsRefused.Add(1)
	}
	skipped, ok := b.logins.lines.take(time.Now())
	if !ok {
		return
	}
	b.tellAct(ctx, &Act{Operation: OpLogin, VHost: e.VHost, Kind: "user", Name: try.User, From: try.From, told: true, leftOut: skipped}, nil, event.Refused, err)
}

// LoggedIn tells the audit that the context's identity uses a connection from now on, to a vhost if
// that is known.
func (b *Broker) LoggedIn(ctx context.Context, from Origin, vhost string) {
	who, err := b.Who(ctx)
	if err != nil || who == nil {
		return
	}
	b.tellAct(ctx, &Act{Operation: OpLogin, VHost: vhost, Kind: "user", Name: who.User(), From: from}, nil, event.Done, nil)
}
