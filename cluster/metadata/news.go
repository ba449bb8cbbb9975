package metadata

import "sync"

// memberNews wakes all that wait for a change of the wanted members.
type memberNews struct {
	mu      sync.Mutex
	changed chan struct{} // closed at the next change
}

func newMemberNews() *memberNews { return &memberNews{changed: make(chan struct{})} }

// notify wakes all who wait.
func (m *memberNews) notify() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memberNews) next() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}
