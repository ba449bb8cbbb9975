package disk

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

const (
	// tellEvery is the time between two words to peers while nothing changes.
	tellEvery = 30 * time.Second
	// tellAgain is the wait after a word that did not reach all.
	tellAgain = 5 * time.Second
	// tellTimeout bounds one word to a peer.
	tellTimeout = 2 * time.Second
)

// Notify sends peers how this node's disk fares, until ctx ends.
func (w *Watch) Notify(ctx context.Context) {
	again := time.NewTimer(tellEvery)
	defer again.Stop()
	for {
		select {
		case <-w.Board.tells:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if w.notifyAll(ctx) {
			again.Reset(tellEvery)
		} else {
			again.Reset(tellAgain)
		}
	}
}

// notifyAll notifies every peer that has a connection, and waits for their answers; false: not all of
// them have answered.
func (w *Watch) notifyAll(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	b := w.Board
	b.mu.Lock()
	b.number++
	number := b.number
	b.mu.Unlock()
	told := &nodev1.TellDiskRequest{Number: number, Disk: b.Of(b.node).Wire()}
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
			if _, err := peer.TellDisk(ctx, told); err != nil {
				missed.Store(true)
				w.Logger.Debug("peer was not told of the disk, trying again later", "peer", string(n), "error", err)
			}
		})
	}
	asked.Wait()
	return !missed.Load()
}
