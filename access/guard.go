package access

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// DefaultCache is how long answers are remembered.
	DefaultCache = 10 * time.Second
	// DefaultTimeout bounds one call of the backend.
	DefaultTimeout = 5 * time.Second
	// maxRemembered bounds the answers that are remembered for a backend; one more clears them all.
	maxRemembered = 10_000
	// vouchedFor is how long an accepted answer, after its last use, proves that a client with the
	// same credentials does not guess them.
	vouchedFor = 10 * time.Minute
)

// Guarded is a backend with a time limit, whose answers are remembered for a while. The cache is
// keyed by a keyed hash of the credentials and never holds the credentials themselves (ID-3).
type Guarded struct {
	Backend
	keep, within time.Duration
	key          [sha256.Size]byte // random in each process

	mu      sync.Mutex
	answers map[[sha256.Size]byte]cachedOutcome
	asking  map[[sha256.Size]byte]*question
}

// cachedOutcome is a remembered outcome: an identity or a refusal, valid before until.
type cachedOutcome struct {
	id    *Identity
	err   error
	until time.Time
}

// question is a call of the backend that is under way; callers with the same credentials wait for
// its answer.
type question struct {
	over chan struct{} // closed once id and err are set
	id   *Identity
	err  error
}

// Guard bounds each call of a backend by within and remembers its answers for keep. An answer never
// outlives its identity, and a refusal that may pass is not remembered. 0 means 5 s for within and
// 10 s for keep; a negative keep remembers nothing.
func Guard(b Backend, keep, within time.Duration) *Guarded {
	c := &Guarded{
		Backend: b, keep: cmp.Or(keep, DefaultCache), within: cmp.Or(within, DefaultTimeout),
		answers: map[[sha256.Size]byte]cachedOutcome{}, asking: map[[sha256.Size]byte]*question{},
	}
	_, _ = rand.Read(c.key[:]) // never fails
	return c
}

// digest keys the answers with an HMAC under a key of this process, so that a memory dump holds no
// credentials and no hash that can be looked up in a table (ID-3). The 0xff byte occurs in no UTF-8
// text and so keeps user and secret apart.
func (c *Guarded) digest(cred Credentials) (d [sha256.Size]byte) {
	h := hmac.New(sha256.New, c.key[:])
	if !c.Tokens() { // a token names its user itself
		h.Write([]byte(cred.User))
	}
	h.Write([]byte{0xff}) // a byte that never occurs in UTF-8
	h.Write([]byte(cred.Secret))
	h.Sum(d[:0])
	return d
}

// Remembered returns the answer for the credentials if it is known.
func (c *Guarded) Remembered(cred Credentials) (id *Identity, err error, known bool) { //nolint:revive // an answer, and whether there is one
	c.mu.Lock()
	defer c.mu.Unlock()
	a, known := c.answers[c.digest(cred)]
	if !known || !cred.Now.Before(a.until) {
		return nil, nil, false
	}
	return a.id, a.err, true
}

// Vouched reports whether the credentials were right a while ago. A client that presents them does
// not guess, and many clients that present them at once are no attack.
func (c *Guarded) Vouched(cred Credentials) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, known := c.answers[c.digest(cred)]
	return known && a.err == nil && cred.Now.Before(a.until.Add(vouchedFor))
}

// Authenticate asks the backend, or waits for the answer to another call with the same credentials.
func (c *Guarded) Authenticate(ctx context.Context, cred Credentials) (*Identity, error) {
	d := c.digest(cred)
	for {
		q, mine := c.ask(d)
		if mine {
			defer c.end(d, q)
			q.id, q.err = c.answered(ctx, cred, d)
			return q.id, q.err
		}
		select {
		case <-q.over:
			if !errors.Is(q.err, context.Canceled) && !errors.Is(q.err, context.DeadlineExceeded) {
				return q.id, q.err
			} // the caller whose call this was has gone away
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ask returns the question that is under way for the credentials, or begins one; mine reports the
// latter.
func (c *Guarded) ask(d [sha256.Size]byte) (q *question, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q = c.asking[d]; q != nil {
		return q, false
	}
	q = &question{over: make(chan struct{})}
	c.asking[d] = q
	return q, true
}

// end ends the question: later callers ask again, and waiting callers read the answer in q.
func (c *Guarded) end(d [sha256.Size]byte, q *question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asking, d)
	close(q.over)
}

// answered asks the backend and remembers its answer.
func (c *Guarded) answered(ctx context.Context, cred Credentials, d [sha256.Size]byte) (*Identity, error) {
	id, err := c.bounded(ctx, cred)
	until := cred.Now.Add(c.keep)
	switch no, isNo := errors.AsType[*Refused](err); {
	case err != nil && (!isNo || no.Passing):
		return id, err
	case err == nil && !id.Expires.IsZero() && id.Expires.Before(until):
		until = id.Expires
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) >= maxRemembered {
		clear(c.answers)
	}
	c.answers[d] = cachedOutcome{id, err, until}
	return id, err
}

// bounded asks the backend within the time limit. It turns only its own timeout into Unavailable;
// when the caller's context ends, the caller gets that error.
func (c *Guarded) bounded(ctx context.Context, cred Credentials) (*Identity, error) {
	bounded, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	id, err := c.Backend.Authenticate(bounded, cred)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, &Unavailable{Backend: c.Name(), Cause: fmt.Errorf("no answer within %v: %w", c.within, err)}
	}
	return id, err
}
