package inventory

import (
	"context"
	"time"
)

// listing is one kind of objects in a cluster, as they were listed last. The holder of busy owns its fields.
type listing[K comparable, V any] struct {
	// busy has one place. It is a channel instead of a mutex, because listing may take long and callers that wait for
	// it must be able to give up.
	busy  chan struct{}
	load  func(context.Context) (map[K]V, error)
	items map[K]V
	read  time.Time // when the listing of items began; zero: never
}

func newListing[K comparable, V any](load func(context.Context) (map[K]V, error)) *listing[K, V] {
	return &listing[K, V]{busy: make(chan struct{}, 1), load: load}
}

// lock waits for the place, or for the end of ctx.
func (l *listing[K, V]) lock(ctx context.Context) error {
	select {
	case l.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *listing[K, V]) unlock() { <-l.busy }

// get returns one object from a listing that is not older than maxAge; a caller that finds it older lists again, and
// all others wait for that.
func (l *listing[K, V]) get(ctx context.Context, key K, maxAge time.Duration) (v V, ok bool, err error) {
	if err := l.lock(ctx); err != nil {
		return v, false, err
	}
	defer l.unlock()
	if now := time.Now(); l.read.IsZero() || now.Sub(l.read) > maxAge {
		items, err := l.load(ctx)
		if err != nil {
			return v, false, err
		}
		l.items, l.read = items, now
	}
	v, ok = l.items[key]
	return v, ok, nil
}

// put records what the operator has just made, so that the next look does not find the older state. It does
// nothing while nothing was listed.
func (l *listing[K, V]) put(ctx context.Context, key K, v V) {
	if l.lock(ctx) != nil {
		return
	}
	defer l.unlock()
	if l.items != nil {
		l.items[key] = v
	}
}

// remove is put for what was deleted.
func (l *listing[K, V]) remove(ctx context.Context, key K) {
	if l.lock(ctx) != nil {
		return
	}
	defer l.unlock()
	delete(l.items, key)
}
