package amqp

import (
	"math/rand/v2"
	"testing"

	"github.com/quorate/quorate/amqp/wire"
)

// Whatever is delivered, got, settled and put back, unsettled knows how many of its messages get has taken.
func TestUnsettledCountsGets(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var u unsettled
	var back []open // settled in a transaction
	x := &consumer{}
	for tag := uint64(1); tag <= 20_000; tag++ {
		o := open{tag: tag}
		if rnd.IntN(3) > 0 {
			o.x = x
		}
		u.add(o)
		switch rnd.IntN(8) {
		case 0, 1, 2:
			u.take(nil, 1+rnd.Uint64N(tag), false)
		case 3:
			back, _ = u.take(back, max(1, tag-rnd.Uint64N(40)), rnd.IntN(2) == 0)
		case 4:
			u.putBack(back)
			back = nil
		case 5:
			if rnd.IntN(100) == 0 {
				u.takeAll()
			}
		}
		want := 0
		for _, o := range u.all {
			if o.x == nil && !o.gone {
				want++
			}
		}
		if u.got != want {
			t.Fatalf("at tag %d: %d were got, counted %d", tag, want, u.got)
		}
	}
}

// A transaction keeps nothing for settlements of nothing, which a client may send without end.
func TestTransactionKeepsNoEmptySettlement(t *testing.T) {
	t.Parallel()
	ch := &channel{c: &conn{}}
	tx := ch.c.begin()
	for range 1000 {
		if err := tx.settle(ch, 0, true, settle{method: wire.BasicAckID}); err != nil {
			t.Fatal(err)
		}
	}
	ch.unsettled.add(open{tag: 1, x: &consumer{}})
	if err := tx.settle(ch, 1, false, settle{method: wire.BasicAckID}); err != nil || len(tx.settles) != 1 {
		t.Errorf("%d settlements are kept, want one; %v", len(tx.settles), err)
	}
}
