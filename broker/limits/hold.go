package limits

import (
	"strconv"
	"time"

	"github.com/quorate/quorate/broker/failure"
)

// Hold is why a sender's next message must wait.
type Hold struct {
	// For is how long to wait before checking again; at most 250 ms.
	For time.Duration
	// Stored reports that a vhost, or the queues of a user, hold too much. Such a wait usually takes longer than one
	// for a rate.
	Stored bool

	l     *Limits
	gate  *gate
	which int
}

// Waits counts the time that a publisher waits. It is called when the wait begins; ended must be called when the wait
// ends.
func (h Hold) Waits() (ended func()) {
	f, began := h.gate.figures, time.Now()
	f.waiting.Add(1)
	return func() {
		f.waiting.Add(-1)
		f.held[scopeOf(h.gate.of)][h.which].Add(int64(time.Since(began)))
	}
}

// Error returns an error with the quota that holds the sender back, and the remedy.
func (h Hold) Error() *failure.Error {
	e := &failure.Error{
		Class: failure.ResourceExhausted, Kind: scopeOf(h.gate.of).String(), Arg: quotaName(h.which), RetryAfter: failure.RetryAfter,
		Reason: "is reached: publish less at a time, or have the limit raised",
	}
	h.gate.mu.Lock()
	limit := h.gate.limits.stored
	if h.which < rates {
		limit = h.gate.limits.rates[h.which]
	}
	h.gate.mu.Unlock()
	e.Value = strconv.FormatInt(limit, 10)
	if h.which == storedQuota {
		e.Reason = "is reached: consume or purge messages, or have the limit raised"
	}
	switch of := h.gate.of; {
	case of.User != "":
		e.Name = of.User
	case of.VHost != "":
		e.Name, e.VHost = of.VHost, of.VHost
	default:
		if v := h.l.view(); v != nil {
			if r, ok := v.QueueByUID(of.Queue); ok {
				e.Name, e.VHost = r.Name, r.VHost
			}
		}
	}
	return e
}

// Full reports whether the stored bytes that held a sender back are still too many, as far as this node knows (VH-16,
// VH-17). It is false for the zero Hold. Any goroutine may call it.
func (h Hold) Full() bool {
	if h.gate == nil {
		return false
	}
	g := h.l.of(h.l.view(), h.gate.of)
	if g == nil {
		return false
	}
	d, _ := g.wait(h.l.now(), true)
	return d > 0
}
