package stats

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/broker"
)

// Exchanges are the counts of all exchanges that something was published to, at one time. They are read only, since all that
// ask share them.
type Exchanges struct {
	At     time.Time
	Of     map[ExchangeName]*Exchange
	Silent []string // nodes that did not answer: what was published through them is missing

	counts map[exchangeOn][2]uint64 // in and out
}

// ExchangeName names an exchange.
type ExchangeName struct{ VHost, Name string }

// Exchange adds up what the nodes have counted of an exchange, each since its start, or since the exchange was declared.
type Exchange struct {
	In, Out         uint64  // messages, and the queues that each was routed to
	InRate, OutRate float64 // each second
}

// exchangeOn is an exchange on a node.
type exchangeOn struct {
	node string
	of   ExchangeName
}

// collectExchanges asks for the counts of all exchanges.
func (c *Collector) collectExchanges(ctx context.Context) (*Exchanges, error) {
	before := c.exchanges.newest()
	all, silent, err := c.Broker.AllExchangeCounts(ctx)
	if err != nil {
		c.Logger.Debug("the counts of the exchanges could not be had", "error", err)
		return nil, err
	}
	return newExchanges(before, all, time.Now(), silent), nil
}

// newExchanges adds up counts, and compares them with those before; nil: there are none.
func newExchanges(before *Exchanges, all []broker.ExchangeCounts, at time.Time, silent []string) *Exchanges {
	out := &Exchanges{At: at, Of: make(map[ExchangeName]*Exchange, len(all)), Silent: silent, counts: make(map[exchangeOn][2]uint64, len(all))}
	for i := range all {
		x := &all[i]
		on := exchangeOn{string(x.Node), ExchangeName{x.VHost, x.Name}}
		sum := out.Of[on.of]
		if sum == nil {
			sum = &Exchange{}
			out.Of[on.of] = sum
		}
		now := [2]uint64{x.In, x.Out}
		out.counts[on] = now
		in, outward := before.rates(on, now, at)
		sum.In, sum.Out, sum.InRate, sum.OutRate = sum.In+x.In, sum.Out+x.Out, sum.InRate+in, sum.OutRate+outward
	}
	return out
}

// rates are how fast the counts of an exchange on a node have gone up since e, which may be nil. An exchange of which a node
// had counted nothing then begins at 0. If one count went back, both have started over, and nothing is known.
func (e *Exchanges) rates(on exchangeOn, now [2]uint64, at time.Time) (in, out float64) {
	if e == nil || slices.Contains(e.Silent, on.node) {
		return 0, 0
	}
	was, elapsed := e.counts[on], at.Sub(e.At)
	if now[0] < was[0] || now[1] < was[1] {
		return 0, 0
	}
	return perSecond(was[0], now[0], elapsed), perSecond(was[1], now[1], elapsed)
}
