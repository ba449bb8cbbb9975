package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// dials counts attempts to connect, and has the far ends of those that succeed. mu guards all fields.
type dials struct {
	mu     sync.Mutex
	begun  []time.Duration // since began
	began  time.Time
	theirs []net.Conn // the far ends of connections
}

// attempt notes one, and returns its number, from 1 on.
func (d *dials) attempt() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun = append(d.begun, time.Since(d.began))
	return len(d.begun)
}

// succeed returns one end of a connection.
func (d *dials) succeed() net.Conn {
	mine, theirs := net.Pipe()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.theirs = append(d.theirs, theirs)
	return mine
}

// open counts the connections that are.
func (d *dials) open(t *testing.T) (open int) {
	t.Helper()
	for _, far := range d.theirs {
		switch err := far.SetReadDeadline(time.Now().Add(time.Second)); {
		case err == nil:
			open++
		case !errors.Is(err, io.ErrClosedPipe): // as it is when the other end is closed
			t.Fatal(err)
		}
	}
	return open
}

// Attempts to connect begin one after another while none has ended; the first that succeeds counts, and one that
// succeeds besides is closed.
func TestConnect(t *testing.T) {
	t.Parallel()
	lost := func(ctx context.Context) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	refused := errors.New("refused")
	for _, c := range []struct {
		name  string
		open  func(ctx context.Context, d *dials, number int) (net.Conn, error)
		took  time.Duration
		tries int
		want  error
	}{
		{"at once", func(_ context.Context, d *dials, _ int) (net.Conn, error) { return d.succeed(), nil }, 0, 1, nil},
		{"far away", func(_ context.Context, d *dials, _ int) (net.Conn, error) {
			time.Sleep(600 * time.Millisecond)
			return d.succeed(), nil
		}, 1100 * time.Millisecond, 3, nil},
		{"the first is lost", func(ctx context.Context, d *dials, number int) (net.Conn, error) {
			if number == 1 {
				return lost(ctx)
			}
			return d.succeed(), nil
		}, 250 * time.Millisecond, 2, nil},
		{
			"all are lost", func(ctx context.Context, _ *dials, _ int) (net.Conn, error) { return lost(ctx) },
			2 * time.Second, maxConnects, context.DeadlineExceeded,
		},
		{"refused", func(context.Context, *dials, int) (net.Conn, error) { return nil, refused }, 0, 1, refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &dials{began: time.Now()}
				conn, err := connect(t.Context(), 2*time.Second, func(ctx context.Context) (net.Conn, error) {
					return c.open(ctx, d, d.attempt())
				})
				if took := time.Since(d.began); took != c.took || !errors.Is(err, c.want) || (err == nil) != (conn != nil) {
					t.Errorf("after %v: %v, %v; want %v after %v", took, conn, err, c.want, c.took)
				}
				if len(d.begun) != c.tries {
					t.Errorf("attempts began after %v; %d are wanted", d.begun, c.tries)
				}
				for i, at := range d.begun {
					if at != time.Duration(i)*connectEvery {
						t.Errorf("attempts began after %v, want one every %v", d.begun, connectEvery)
					}
				}
				if left, want := d.open(t), min(1, len(d.theirs)); left != want {
					t.Errorf("%d connections are open, want %d", left, want)
				}
			})
		})
	}
}

// Who asks for a connection and goes leaves none behind.
func TestConnectGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		d := &dials{began: time.Now()}
		time.AfterFunc(300*time.Millisecond, func() { cancel(gone) })
		conn, err := connect(ctx, time.Hour, func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			time.Sleep(time.Millisecond)
			return d.succeed(), nil // a moment too late
		})
		if conn != nil || !errors.Is(err, gone) || len(d.theirs) != 2 || d.open(t) > 0 {
			t.Errorf("%v, %v; %d connections were opened", conn, err, len(d.theirs))
		}
	})
}
