// Package mailbox does what groups leave for later off their apply paths: each has a Box, and a node's Workers run the
// boxes. Posting never blocks; who posts bounds what waits.
package mailbox

import "sync"

// Workers is a node's pool of goroutines that act on effects. Only one worker at a time runs a
// mailbox, so its tasks are done in order.
type Workers struct {
	mu      sync.Mutex
	wake    *sync.Cond
	ready   []steps
	closed  bool
	running sync.WaitGroup
}

// Start starts n goroutines, which run until Close.
func Start(n int) *Workers {
	w := &Workers{}
	w.wake = sync.NewCond(&w.mu)
	for range n {
		w.running.Go(w.run)
	}
	return w
}

// steps is a Box: one step does what has gathered in it, and returns true if there is more.
type steps interface{ step() bool }

// schedule puts a mailbox in line. It must not be in line already, because then two workers would
// run it.
func (w *Workers) schedule(m steps) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready = append(w.ready, m)
	w.wake.Signal()
}

// run does a bounded part of each mailbox in turn, so that no queue starves another.
func (w *Workers) run() {
	for {
		w.mu.Lock()
		for len(w.ready) == 0 && !w.closed {
			w.wake.Wait()
		}
		if len(w.ready) == 0 {
			w.mu.Unlock()
			return
		}
		m := w.ready[0]
		w.ready = w.ready[1:]
		w.mu.Unlock()
		if m.step() {
			w.schedule(m)
		}
	}
}

// Close waits until everything that is scheduled is done. The mailboxes must be closed before.
func (w *Workers) Close() {
	w.mu.Lock()
	w.closed = true
	w.wake.Broadcast()
	w.mu.Unlock()
	w.running.Wait()
}

// Box holds what the workers have to do for one group: tasks, and effects of type E. Any goroutine may post, and none
// is blocked. mu guards all fields below it.
type Box[E any] struct {
	workers *Workers
	act     func(*E)

	mu        sync.Mutex
	tasks     []task[E]
	spare     []task[E]
	waiting   int  // deliveries in tasks
	scheduled bool // in line at the workers, or being run
	open      bool // until then, tasks only gather
	closed    bool
}

// task has either effects or do.
type task[E any] struct {
	effects *E
	do      func()
}

// New returns a mailbox whose tasks gather until Start. A worker calls act with effects.
func New[E any](w *Workers, act func(*E)) *Box[E] { return &Box[E]{workers: w, act: act} }

// Post adds a task. It returns false if the mailbox is closed, and then does not do the task.
func (m *Box[E]) Post(do func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.tasks = append(m.tasks, task[E]{do: do})
	m.signal()
	return true
}

// Gather lets add put effects behind the tasks that are posted already. If the last task has
// effects too, they are combined. add gets the number of deliveries that wait.
func (m *Box[E]) Gather(add func(e *E, waiting int) (added int)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if n := len(m.tasks); n == 0 || m.tasks[n-1].effects == nil {
		m.tasks = append(m.tasks, task[E]{effects: new(E)})
	}
	m.waiting += add(m.tasks[len(m.tasks)-1].effects, m.waiting)
	m.signal()
}

// signal puts the mailbox in line, once, however much it gets; m.mu is held.
func (m *Box[E]) signal() {
	if m.open && !m.scheduled {
		m.scheduled = true
		m.workers.schedule(m)
	}
}

// Start lets workers run the tasks that have gathered.
func (m *Box[E]) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = true
	if len(m.tasks) > 0 {
		m.signal()
	}
}

// step does the tasks that have gathered. It returns true if there are more.
func (m *Box[E]) step() bool {
	m.mu.Lock()
	tasks := m.tasks
	m.tasks, m.spare, m.waiting = m.spare[:0], nil, 0
	m.mu.Unlock()
	for i := range tasks {
		if t := tasks[i]; t.effects != nil {
			m.act(t.effects)
		} else {
			t.do()
		}
	}
	clear(tasks)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spare = tasks[:0]
	m.scheduled = len(m.tasks) > 0
	return m.scheduled
}

// Close refuses further tasks; those in the mailbox are still done.
func (m *Box[E]) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}
