package replica

import (
	"context"
	"sync"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// unused gathers queues that this node leads and that ask to be deleted (QX-1). If a deletion
// fails, the queue itself asks again, or its next leader does.
type unused struct {
	wake chan struct{} // of capacity 1

	mu   sync.Mutex // guards uids
	uids map[id.QueueUID]bool
}

func newUnused() *unused {
	return &unused{wake: make(chan struct{}, 1), uids: map[id.QueueUID]bool{}}
}

// add does not block.
func (u *unused) add(q id.QueueUID) {
	u.mu.Lock()
	u.uids[q] = true
	u.mu.Unlock()
	wait.Wake(u.wake)
}

// maxUnusedDeletes limits the queues that are deleted at the same time.
const maxUnusedDeletes = 16

// run deletes queues until ctx ends.
func (u *unused) run(ctx context.Context, remove func(context.Context, id.QueueUID)) {
	var work sync.WaitGroup
	defer work.Wait()
	slots := make(chan struct{}, maxUnusedDeletes)
	for {
		select {
		case <-u.wake:
		case <-ctx.Done():
			return
		}
		u.mu.Lock()
		uids := u.uids
		u.uids = map[id.QueueUID]bool{}
		u.mu.Unlock()
		for q := range uids {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			work.Go(func() {
				defer func() { <-slots }()
				remove(ctx, q)
			})
		}
	}
}
