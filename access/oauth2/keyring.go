package oauth2

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/wait"
)

// Waits before the next fetch after a failed one.
const (
	firstRetry   = time.Second
	maxRetryWait = time.Minute
	// leastAgain is the shortest time after which to ask again for a key that may be new.
	leastAgain = 100 * time.Millisecond
	// maxAbsent bounds the keys that are remembered as absent; for any other key the caller is asked
	// to try again.
	maxAbsent = 1000
)

// keyring holds the issuer's keys as last fetched. Run alone fetches; other goroutines look keys up
// and may request a fetch.
type keyring struct {
	fetch *fetcher
	every time.Duration // minimum time between two requested fetches
	again time.Duration
	log   *slog.Logger
	ask   chan struct{} // of capacity 1

	mu       sync.Mutex // guards what follows
	keys     []key
	fetched  time.Time     // when keys were fetched; zero: never
	tried    time.Time     // when the last fetch began; zero: never
	busy     bool          // a fetch is under way
	failed   error         // error of the last fetch that ended
	wanted   absentees     // keys that were looked up before the fetch under way, or the next one, began
	absent   absentees     // those that the last fetch did not find
	over     chan struct{} // closed when the next fetch ends
	failures uint64
}

// newKeyring returns a keyring without keys; run fetches them.
func newKeyring(c *Config) *keyring {
	return &keyring{
		fetch: newFetcher(c), every: c.RefetchEvery, again: c.Refresh, log: c.Logger,
		ask: make(chan struct{}, 1), over: make(chan struct{}),
	}
}

// run fetches at once, then periodically and on request, until ctx ends.
func (k *keyring) run(ctx context.Context) {
	retry := firstRetry
	for {
		pause := k.again
		if k.try(ctx) {
			retry = firstRetry
		} else {
			pause = retry
			retry = min(2*retry, maxRetryWait)
		}
		if !k.rest(ctx, pause) {
			return
		}
	}
}

// rest waits for the time, or for a request that mayAsk allows; false: ctx ended.
func (k *keyring) rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
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
	asked := k.wanted
	k.wanted = nil
	k.mu.Unlock()
	keys, faults, err := k.fetch.keys(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.keys != nil
	k.busy, k.failed = false, err
	close(k.over)
	k.over = make(chan struct{})
	if err != nil {
		if ctx.Err() == nil {
			k.failures++
			k.log.Warn("cannot fetch the keys of the token issuer", "known_keys_stay", known, "error", err)
		}
		return false
	}
	if !known || len(keys) != len(k.keys) {
		k.log.Info("the keys of the token issuer are in use", "keys", len(keys))
		for _, why := range faults {
			k.log.Info("a key of the token issuer is not used", "reason", why)
		}
	}
	k.keys, k.fetched, k.absent = keys, time.Now(), asked
	return true
}

// mayAsk reports whether a fetch may be requested now. mu is held.
func (k *keyring) mayAsk() bool { return k.tried.IsZero() || !k.busy && time.Since(k.tried) >= k.every }

// keyLookup is what find knows of a key.
type keyLookup struct {
	key    *key
	failed error         // the issuer does not answer, so nobody knows whether it has the key
	again  time.Duration // without a key: when the issuer may be asked again, as it has not been asked since; 0: it has no such key
}

// find returns the key with the id; for "" the only key for the algorithm. It looks for an unknown
// key at once, or as soon as a fetch is allowed again.
func (k *keyring) find(ctx context.Context, id, algorithm string) (keyLookup, error) {
	k.mu.Lock()
	found := pick(k.keys, id, algorithm)
	over, ask, busy := k.over, k.mayAsk(), k.busy
	if found != nil || !ask && !busy {
		defer k.mu.Unlock()
		return k.answer(found, id, algorithm), nil
	}
	if ask {
		k.wanted = k.wanted.with(id, algorithm)
	}
	k.mu.Unlock()
	wait.Wake(k.ask) // one request is enough for all callers that wait
	select {
	case <-over:
	case <-ctx.Done():
		return keyLookup{}, ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.answer(pick(k.keys, id, algorithm), id, algorithm), nil
}

// answer returns what is known of a key now. A key that the last fetch did not bring may be new,
// unless that fetch already looked for it, the token does not name it, or it is known for other
// algorithms. mu is held.
func (k *keyring) answer(found *key, id, algorithm string) keyLookup {
	switch {
	case found != nil, k.failed != nil:
		return keyLookup{key: found, failed: k.failed}
	case k.absent.have(id, algorithm), id == "", slices.ContainsFunc(k.keys, func(x key) bool { return x.id == id }):
		return keyLookup{}
	}
	return keyLookup{again: max(k.every-time.Since(k.tried), leastAgain)}
}

// absentees are keys that the issuer did not have, by a hash of their ids in tokens.
type absentees map[[sha256.Size]byte]bool

func absentee(id, algorithm string) [sha256.Size]byte {
	return sha256.Sum256([]byte(algorithm + " " + id))
}

// with returns the set with one more key if there is room.
func (a absentees) with(id, algorithm string) absentees {
	if a == nil {
		a = absentees{}
	}
	if len(a) < maxAbsent {
		a[absentee(id, algorithm)] = true
	}
	return a
}

func (a absentees) have(id, algorithm string) bool { return a[absentee(id, algorithm)] }

// pick finds the key with the id that fits the algorithm. A token without an id gets a key only if
// exactly one fits; nil otherwise.
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

// figures returns the number of keys and their age; the age is negative if no keys were fetched
// yet.
func (k *keyring) figures() (keys int, age time.Duration, failures uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	age = -1
	if !k.fetched.IsZero() {
		age = time.Since(k.fetched)
	}
	return len(k.keys), age, k.failures
}
