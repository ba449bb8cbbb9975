package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// maxReturned limits the messages that one command of GiveBack returns.
const maxReturned = 10_000

// holder is a consumer of Gets, with its queue.
type holder struct {
	queue    id.QueueUID
	consumer quorumq.ConsumerKey
}

// GiveBack returns messages that Get took to their queues, as failed deliveries and in the order of
// their delivery, with one command for each session that took some. It waits for the answers, but no
// longer than ctx; a queue without a leader gets the command when it has one. The errors are those of
// DecideToken.
func (g *Gateway) GiveBack(ctx context.Context, ts []ConsumerToken) error {
	taken := map[holder][]quorumq.MsgID{}
	for i := range ts {
		h := holder{ts[i].Queue, ts[i].Consumer}
		taken[h] = append(taken[h], ts[i].MsgID)
	}
	var waiting []<-chan error
	var errs []error
	for h, ids := range taken {
		q, err := g.Queue(h.queue)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		slices.Sort(ids)
		for some := range slices.Chunk(ids, maxReturned) {
			waiting = append(waiting, q.giveBack(h.consumer, some))
		}
	}
	for _, answer := range waiting {
		select {
		case err := <-answer:
			errs = append(errs, err)
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("messages that were taken are not returned yet: %w", ctx.Err()))
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}

// giveBack returns messages of one consumer, as failed deliveries. The channel gets the outcome.
func (q *Queue) giveBack(k quorumq.ConsumerKey, ids []quorumq.MsgID) <-chan error {
	outcome := make(chan error, 1)
	cmd := &quorumq.Requeue{Consumer: k, Ranges: rangesOf(ids), Failed: true}
	q.post(&op{header: quorumq.AppendCommand(nil, cmd), done: func(a opResult) {
		if a.err != nil {
			outcome <- a.err
			return
		}
		outcome <- q.decided(k, ids, a.reply.Code, a.repeated)
	}})
	return outcome
}
