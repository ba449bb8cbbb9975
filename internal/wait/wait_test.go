package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		if err := For(ctx, time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := For(ctx, 0); err != nil {
			t.Error(err)
		}
		time.AfterFunc(time.Minute, cancel)
		began = time.Now()
		if err := For(ctx, time.Hour); !errors.Is(err, context.Canceled) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		for _, d := range []time.Duration{0, -time.Hour} {
			if err := For(ctx, d); !errors.Is(err, context.Canceled) {
				t.Errorf("%v: %v", d, err)
			}
		}
	})
}

func TestWake(t *testing.T) {
	c := make(chan struct{}, 1)
	Wake(c)
	Wake(c) // it does not block
	<-c
	select {
	case <-c:
		t.Error("who waits is woken twice")
	default:
	}
}

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := func(d time.Duration, after time.Duration, end func(ctx, life context.CancelFunc)) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			life, die := context.WithCancel(t.Context())
			defer cancel()
			defer die()
			got, release := Within(ctx, life, d)
			defer release()
			began := time.Now()
			time.AfterFunc(time.Minute, func() { end(cancel, die) })
			<-got.Done()
			if took := time.Since(began); took != after {
				t.Errorf("it ended after %v, want %v", took, after)
			}
		}
		nothing := func(_, _ context.CancelFunc) {}
		ends(time.Second, time.Second, nothing)
		ends(time.Hour, time.Minute, func(ctx, _ context.CancelFunc) { ctx() })
		ends(time.Hour, time.Minute, func(_, life context.CancelFunc) { life() })
		ends(0, time.Minute, func(_, life context.CancelFunc) { life() })
		ends(-1, time.Minute, func(ctx, _ context.CancelFunc) { ctx() })
	})
}
