package serving

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/quorate/quorate/cluster/clients"
)

// fakeServer serves or not, as the test decides.
type fakeServer struct {
	serves  bool
	changed chan struct{}
}

func (f *fakeServer) Serves() bool                     { return f.serves }
func (f *fakeServer) ServesChanged() <-chan struct{}   { return f.changed }
func (f *fakeServer) Fresh() bool                      { return true }
func (f *fakeServer) AwaitFresh(context.Context) error { return nil }
func (f *fakeServer) Hindrance() error {
	if f.serves {
		return nil
	}
	return errors.New("it was refused")
}

func (f *fakeServer) turn(serves bool) {
	f.serves = serves
	changed := f.changed
	f.changed = make(chan struct{})
	close(changed)
}

// EX-16: clients are sent away when the node ceases to serve: each time it
// does, and once each time.
func TestEndConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{changed: make(chan struct{})}
		r := clients.New()
		s := New(Config{Catalog: f, Clients: r, Log: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var reasons []string
		c := r.Connect()
		defer c.Close()
		c.Show(func() clients.ConnectionInfo { return clients.ConnectionInfo{} }, func(why clients.Closing) { reasons = append(reasons, why.Reason) })
		go s.EndConnections(ctx)
		for turn, serves := range []bool{false, true, true, false, false, true, false} {
			synctest.Wait()
			f.turn(serves)
			synctest.Wait()
			if want := []int{0, 0, 0, 1, 1, 1, 2}[turn]; len(reasons) != want {
				t.Fatalf("turn %d: the connection was ended %d times, want %d: %q", turn, len(reasons), want, reasons)
			}
		}
		if want := "this node serves no clients at present: it was refused; retry, or use another node"; reasons[0] != want {
			t.Errorf("the reason is %q, want %q", reasons[0], want)
		}
	})
}
