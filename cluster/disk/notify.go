package disk

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

const (
	// notifyEvery is the time between two reports to peers while nothing changes.
	notifyEvery = 30 * time.Second
	// notifyAgain is the wait after a report that did not reach all.
	notifyAgain = 5 * time.Second
	// notifyTimeout bounds one report to a peer.
	notifyTimeout = 2 * time.Second
)

// Notify sends the state of this node's disk to peers, until ctx ends.
func (w *Watch) Notify(ctx context.Context) {
	again := time.NewTimer(notifyEvery)
	defer again.Stop()
	for {
		select {
		case <-w.Board.notices:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if w.notifyAll(ctx) {
			again.Reset(notifyEvery)
		} else {
			again.Reset(notifyAgain)
		}
	}
}

// notifyAll notifies every peer that has a connection, and waits for their answers; false: not all of
// them have answered.
func (w *Watch) notifyAll(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	b := w.Board
	b.mu.Lock()
	b.number++
	number := b.number
	b.mu.Unlock()
	report := &nodev1.TellDiskRequest{Number: number, Disk: b.Of(b.node).Wire()}
	var asked sync.WaitGroup
	var missed atomic.Bool
	for _, n := range w.Alive() {
		if _, up := w.Transport.Connected(n); !up {
			continue
		}
		peer, err := w.Transport.Client(n)
		if err != nil {
			continue
		}
		asked.Go(func() {
			if _, err := peer.TellDisk(ctx, report); err != nil {
				missed.Store(true)
				w.Logger.Debug("the state of the disk did not reach a peer, trying again later", "peer", string(n), "error", err)
			}
		})
	}
	asked.Wait()
	return !missed.Load()
}
