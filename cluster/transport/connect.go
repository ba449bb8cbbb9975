package transport

import (
	"context"
	"net"
	"sync"
	"time"
)

// A packet that opens a connection may be lost, and systems send it again only after a second. So another attempt
// begins every connectEvery until there are maxConnects, and the first one that succeeds counts: together they send a
// packet at that interval, and a peer far away still has all of the time.
const (
	connectEvery = 250 * time.Millisecond
	maxConnects  = 4
)

// connect opens a network connection within a time. When it returns, nothing that it began is still running.
func connect(ctx context.Context, patient time.Duration, open func(context.Context) (net.Conn, error)) (net.Conn, error) {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, stop := context.WithTimeout(ctx, patient)
	defer stop()
	type attempt struct {
		conn net.Conn
		err  error
	}
	ended := make(chan attempt)
	try := func() {
		conn, err := open(ctx)
		select {
		case ended <- attempt{conn, err}:
		case <-ctx.Done():
			if err == nil {
				_ = conn.Close() // another one was sooner
			}
		}
	}
	all.Go(try)
	again := time.NewTicker(connectEvery)
	defer again.Stop()
	for tries := 1; ; {
		select {
		case a := <-ended:
			return a.conn, a.err
		case <-again.C:
			if tries < maxConnects {
				tries++
				all.Go(try)
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
