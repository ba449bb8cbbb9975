package replica

import "sync"

// workers is a node's pool of goroutines that act on effects. Only one worker at a time runs a
// mailbox, so its tasks are done in order.
type workers struct {
	mu      sync.Mutex
	wake    *sync.Cond
	ready   []*mailbox
	closed  bool
	running sync.WaitGroup
}

// startWorkers starts n goroutines, which run until close.
func startWorkers(n int) *workers {
	w := &workers{}
	w.wake = sync.NewCond(&w.mu)
	for range n {
		w.running.Go(w.run)
	}
	return w
}

// schedule puts a mailbox in line. It must not be in line already, because then two workers would
// run it.
func (w *workers) schedule(m *mailbox) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready = append(w.ready, m)
	w.wake.Signal()
}

// run does a bounded part of each mailbox in turn, so that no queue starves another.
func (w *workers) run() {
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

// close waits until everything that is scheduled is done. The mailboxes must be closed before.
func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	w.wake.Broadcast()
	w.mu.Unlock()
	w.running.Wait()
}

// mailbox holds what the workers have to do for one group. Any goroutine may post, and none is
// blocked. mu guards all fields below it.
type mailbox struct {
	workers *workers
	act     func(*effects)

	mu        sync.Mutex
	tasks     []task
	spare     []task
	waiting   int  // deliveries in tasks
	scheduled bool // in line at the workers, or being run
	open      bool // until then, tasks only gather
	closed    bool
}

// task has either effects or do.
type task struct {
	effects *effects
	do      func()
}

// post adds a task. It returns false if the mailbox is closed, and then does not do the task.
func (m *mailbox) post(do func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.tasks = append(m.tasks, task{do: do})
	m.signal()
	return true
}

// gather lets add put effects behind the tasks that are posted already. If the last task has
// effects too, they are combined. add gets the number of deliveries that wait.
func (m *mailbox) gather(add func(e *effects, waiting int) (added int)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if n := len(m.tasks); n == 0 || m.tasks[n-1].effects == nil {
		m.tasks = append(m.tasks, task{effects: &effects{}})
	}
	m.waiting += add(m.tasks[len(m.tasks)-1].effects, m.waiting)
	m.signal()
}

// signal puts the mailbox in line, once, however much it gets; m.mu is held.
func (m *mailbox) signal() {
	if m.open && !m.scheduled {
		m.scheduled = true
		m.workers.schedule(m)
	}
}

// start lets workers run the tasks that have gathered.
func (m *mailbox) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = true
	if len(m.tasks) > 0 {
		m.signal()
	}
}

// step does the tasks that have gathered. It returns true if there are more.
func (m *mailbox) step() bool {
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

// close refuses further tasks; those in the mailbox are still done.
func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}
