package oauth2

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Waits of fetching again after a failure.
const (
	firstRetry   = time.Second
	maxRetryWait = time.Minute
	// leastAgain is after how long at least one is to ask again for a key that may be new.
	leastAgain = 100 * time.Millisecond
	// maxAbsent bounds the keys that are remembered as absent; of others one is told to ask again.
	maxAbsent = 1000
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
	wanted   absentees     // keys that were looked for before the try that is under way, or the next one, began
	absent   absentees     // those of them that the last one has not found
	over     chan struct{} // closed when the next one is over
	failures uint64
}

// newKeyring returns a keyring without keys; run fetches them.
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
	asked := k.wanted
	k.wanted = nil
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
	k.keys, k.fetched, k.absent = keys, time.Now(), asked
	return true
}

// mayAsk reports whether a fetch may be asked for, with mu held.
func (k *keyring) mayAsk() bool { return k.tried.IsZero() || !k.busy && time.Since(k.tried) >= k.every }

// answer is what find says of a key.
type answer struct {
	key    *key
	failed error         // the issuer does not answer, so that nobody can report whether it has the key
	again  time.Duration // if there is no key: when the issuer may be asked, which it was not since; 0: it has no such key
}

// find returns the key of an id; for "" the only one that is for the algorithm. One that is not known is looked for at once,
// or as soon as that may be done again.
func (k *keyring) find(ctx context.Context, id, algorithm string) (answer, error) {
	k.mu.Lock()
	found := pick(k.keys, id, algorithm)
	over, ask, wait := k.over, k.mayAsk(), k.busy
	if found != nil || !ask && !wait {
		defer k.mu.Unlock()
		return k.answer(found, id, algorithm), nil
	}
	if ask {
		k.wanted = k.wanted.with(id, algorithm)
	}
	k.mu.Unlock()
	select {
	case k.ask <- struct{}{}:
	default: // somebody has
	}
	select {
	case <-over:
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.answer(pick(k.keys, id, algorithm), id, algorithm), nil
}

// answer says of a key what is known now. A key that was not among those of the last fetch may be new since, unless it was
// already looked for then, has no name, or is known by its name for other algorithms. The caller holds mu.
func (k *keyring) answer(found *key, id, algorithm string) answer {
	switch {
	case found != nil, k.failed != nil:
		return answer{key: found, failed: k.failed}
	case k.absent.have(id, algorithm), id == "", slices.ContainsFunc(k.keys, func(x key) bool { return x.id == id }):
		return answer{}
	}
	return answer{again: max(k.every-time.Since(k.tried), leastAgain)}
}

// absentees are keys, by a hash of what tokens call them.
type absentees map[[sha256.Size]byte]bool

func absentee(id, algorithm string) [sha256.Size]byte {
	return sha256.Sum256([]byte(algorithm + " " + id))
}

// with returns them with one more, if there is room.
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
