package clients

import (
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// ExchangeCounts count what this node's clients publish to one exchange.
type ExchangeCounts struct {
	in, out atomic.Uint64
	_       [48]byte // so that those of two exchanges do not share a cache line
}

// Add counts a message and the queues that it was routed to.
func (c *ExchangeCounts) Add(queues int) {
	c.in.Add(1)
	if queues > 0 {
		c.out.Add(uint64(queues))
	}
}

// ExchangeFigures are the counts of an exchange on one node, since that node's start, or since the exchange was declared.
type ExchangeFigures struct {
	Node        id.NodeID
	VHost, Name string
	In, Out     uint64 // messages, and the queues that each was routed to
}

// dropEvery is after how many exchanges that are new those are dropped that are gone.
const dropEvery = 256

// exchanges are the counts of the exchanges that this node's clients have published to. They are found without a lock, since
// publishers look for them. The zero value is ready to use.
type exchanges struct {
	byExchange sync.Map // of *ExchangeCounts by *catalog.Exchange, which stays the same while the exchange exists
	seen       atomic.Uint64
}

// ExchangeCounts returns the counts of an exchange that view has, or had a moment ago. Callers may keep it for as long as
// they meet the same exchange.
func (e *exchanges) ExchangeCounts(x *catalog.Exchange, view func() *catalog.View) *ExchangeCounts {
	have, known := e.byExchange.Load(x)
	if !known {
		have, known = e.byExchange.LoadOrStore(x, &ExchangeCounts{})
		if !known && e.seen.Add(1)%dropEvery == 0 {
			e.eachExchange(view, func(*catalog.Exchange, *ExchangeCounts) {})
		}
	}
	c, _ := have.(*ExchangeCounts)
	return c
}

// ExchangeFigures returns the counts of the exchanges that the view has, in no order.
func (e *exchanges) ExchangeFigures(view func() *catalog.View) (all []ExchangeFigures) {
	e.eachExchange(view, func(x *catalog.Exchange, c *ExchangeCounts) {
		all = append(all, ExchangeFigures{VHost: x.VHost, Name: x.Name, In: c.in.Load(), Out: c.out.Load()})
	})
	return all
}

// eachExchange calls do for the exchanges that there are, and drops the others. It asks for the view after it has found an exchange:
// an older view might lack one that is new.
func (e *exchanges) eachExchange(view func() *catalog.View, do func(*catalog.Exchange, *ExchangeCounts)) {
	e.byExchange.Range(func(key, value any) bool {
		x, _ := key.(*catalog.Exchange)
		c, _ := value.(*ExchangeCounts)
		if now, there := view().Exchange(x.VHost, x.Name); there && now == x {
			do(x, c)
		} else {
			e.byExchange.Delete(key)
		}
		return true
	})
}
