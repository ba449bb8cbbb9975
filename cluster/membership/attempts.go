package membership

import (
	"time"

	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/id"
)

// Run carries out changes until stop is closed.
func (m *Changer) Run(stop <-chan struct{}) {
	defer m.work.Wait()
	for {
		changed := m.cfg.Views.Next()
		var again <-chan time.Time
		if m.start() {
			again = time.After(changeTick)
		}
		select {
		case <-again:
		case <-changed:
		case <-m.woken:
		case <-m.cfg.Members.Changes():
		case <-stop:
			return
		}
	}
}

// start begins an attempt at every change of a queue that this node leads, as far as
// there are slots. It reports whether there are such changes.
func (m *Changer) start() (some bool) {
	v := m.cfg.Views.View()
	pending := map[id.QueueUID]struct{}{}
	for _, q := range m.cfg.Members.Changing() {
		r, ok := v.QueueByUID(q.UID())
		if !ok || r.Change == nil || q.Led() == nil {
			continue
		}
		pending[q.UID()] = struct{}{}
		s := m.claim(q.UID(), r.Change.ID)
		if s == nil {
			continue
		}
		m.work.Go(func() {
			err := m.change(q.Life(), q, s)
			m.release(q.UID())
			if err == nil {
				m.wake()
			} else if q.Life().Err() == nil {
				m.cfg.Logger.Debug("a change of members waits", "queue", q.UID().String(), "error", err)
			}
		})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.waiting {
		if _, still := pending[uid]; !still {
			delete(m.waiting, uid)
		}
	}
	return len(pending) > 0
}

// claim takes a slot for a change, unless it has one or none is free, and returns what is remembered about it.
func (m *Changer) claim(q id.QueueUID, change uint64) *changeState {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, busy := m.running[q]; busy {
		return nil
	}
	select {
	case m.cfg.Slots <- struct{}{}:
	default:
		return nil
	}
	m.running[q] = struct{}{}
	s := m.waiting[q]
	if s == nil || s.id != change {
		s = &changeState{id: change, moved: time.Now(), progress: operation.Progress{Phase: PhaseWait}}
		m.waiting[q] = s
	}
	return s
}

// release gives the slot back that the change had taken.
func (m *Changer) release(q id.QueueUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, q)
	<-m.cfg.Slots
}
