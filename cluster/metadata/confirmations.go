package metadata

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/wait"
)

// Confirmations gathers what waits for a confirmed view of the catalog: one that shows all that the
// catalog had committed when Add was called. A leader adds something after its Lead command was
// applied. What the leaders before have acted on was committed by then, so the view is not behind any
// of theirs. One question to the catalog's leader answers for all that was gathered before it.
type Confirmations struct {
	wake chan struct{} // of capacity 1

	mu    sync.Mutex // guards tasks
	tasks []func()
}

// NewConfirmations returns a set that has nothing.
func NewConfirmations() *Confirmations { return &Confirmations{wake: make(chan struct{}, 1)} }

// Add has a task called when the view is confirmed; the task must not block. Add does not block
// either. A leadership adds one task at most, so there are no more than queues that this node leads.
func (c *Confirmations) Add(task func()) {
	c.mu.Lock()
	c.tasks = append(c.tasks, task)
	c.mu.Unlock()
	wait.Wake(c.wake)
}

// take returns what was gathered, and begins anew.
func (c *Confirmations) take() []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	tasks := c.tasks
	c.tasks = nil
	return tasks
}

// confirmRetry is the wait before the catalog's leader is asked again. A question that nobody answers
// takes longer.
const confirmRetry = 100 * time.Millisecond

// Run asks until ctx ends. While the catalog has no leader it goes on asking.
func (c *Confirmations) Run(ctx context.Context, confirm func(context.Context) error) {
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return
		}
		tasks := c.take()
		for confirm(ctx) != nil {
			if wait.For(ctx, confirmRetry) != nil {
				return
			}
		}
		for _, task := range tasks {
			task()
		}
	}
}
