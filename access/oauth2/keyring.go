package oauth2

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Waits of fetching again after a failure.
const (
	firstRetry   = time.Second
	maxRetryWait = time.Minute
)

// keyring are the keys of an issuer as they were fetched last. Run alone fetches; the others look, and
// may ask for it.
type keyring struct {
	fetch *fetcher
	every time.Duration // least time between two fetches that somebody asks for
	again time.Duration
	log   *slog.Logger
	ask   chan struct{} // of capacity 1

	mu       sync.Mutex // guards what follows
	keys     []key
	fetched  time.Time     // when keys were; zero: never
	tried    time.Time     // when the last try began; zero: never
	busy     bool          // there is one
	failed   error         // of the last one that is over
	over     chan struct{} // closed when the next one is over
	failures uint64
}

func newKeyring(c *Config) *keyring {
	return &keyring{
		fetch: newFetcher(c), every: c.RefetchEvery, again: c.Refresh, log: c.Logger,
		ask: make(chan struct{}, 1), over: make(chan struct{}),
	}
}

// run fetches at once, again and again, and when it is asked to, until ctx ends.
func (k *keyring) run(ctx context.Context) {
	retry := firstRetry
	for {
		wait := k.again
		if k.try(ctx) {
			retry = firstRetry
		} else {
			wait = retry
			retry = min(2*retry, maxRetryWait)
		}
		if !k.rest(ctx, wait) {
			return
		}
	}
}

// rest waits, or until somebody asks who may; false: ctx ended.
func (k *keyring) rest(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-k.ask:
			k.mu.Lock()
			may := k.mayAsk()
			k.mu.Unlock()
			if may {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

// try fetches the keys.
func (k *keyring) try(ctx context.Context) bool {
	k.mu.Lock()
	k.busy, k.tried = true, time.Now()
	k.mu.Unlock()
	keys, told, err := k.fetch.keys(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.keys != nil
	k.busy, k.failed = false, err
	close(k.over)
	k.over = make(chan struct{})
	if err != nil {
		if ctx.Err() == nil {
			k.failures++
			k.log.Warn("the keys of the issuer of tokens cannot be fetched", "known_keys_stay", known, "error", err)
		}
		return false
	}
	if !known || len(keys) != len(k.keys) {
		k.log.Info("keys of the issuer of tokens are in use", "keys", len(keys))
		for _, why := range told {
			k.log.Info("a key of the issuer of tokens is not used", "reason", why)
		}
	}
	k.keys, k.fetched = keys, time.Now()
	return true
}

// mayAsk tells whether a fetch may be asked for, with mu held.
func (k *keyring) mayAsk() bool { return k.tried.IsZero() || !k.busy && time.Since(k.tried) >= k.every }

// find returns the key of an id; for "" the only one that is for the algorithm. failed is set
// if there is none, and whether there is cannot be told because the issuer does not answer.
func (k *keyring) find(ctx context.Context, id, algorithm string) (found *key, failed error) {
	k.mu.Lock()
	found = pick(k.keys, id, algorithm)
	over, wait := k.over, k.busy || k.mayAsk()
	failed = k.failed
	k.mu.Unlock()
	if found != nil || !wait {
		return found, failed
	}
	select {
	case k.ask <- struct{}{}:
	default: // somebody has
	}
	select {
	case <-over:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return pick(k.keys, id, algorithm), k.failed
}

func pick(keys []key, id, algorithm string) *key {
	var found *key
	for i := range keys {
		switch x := &keys[i]; {
		case !slices.Contains(x.algorithms, algorithm), id != "" && x.id != id:
		case found != nil && id == "":
			return nil // it could be either
		case found == nil:
			found = x
		}
	}
	return found
}

// figures returns how many keys there are and how old they are; age is negative if there are none yet.
func (k *keyring) figures() (keys int, age time.Duration, failures uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	age = -1
	if !k.fetched.IsZero() {
		age = time.Since(k.fetched)
	}
	return len(k.keys), age, k.failures
}
