package gateway

import (
	"cmp"
	"context"
	"fmt"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/quorumq/session"
)

// Consume registers a consumer with the queue's leader.
func (q *Queue) Consume(ctx context.Context, cfg ConsumerConfig) (*Consumer, error) {
	key := quorumq.ConsumerKey{SessionKey: q.newSession(), Tag: traffic.ConsumerTag}
	c := &Consumer{
		q: q, cfg: cfg, key: key, limit: cfg.Limit, credited: cfg.Limit,
		tracker: session.NewConsumer(key, 0),
	}
	q.mu.Lock()
	if err := cmp.Or(q.ended, q.leaves); err != nil {
		q.mu.Unlock()
		return nil, err
	}
	q.consumers[key.Session] = c
	q.mu.Unlock()
	if _, err := c.checkout(ctx, cfg, cfg.Limit, op{opens: c}); err != nil {
		c.Close() // it may be registered even so
		return nil, err
	}
	return c, nil
}

// checkout registers the consumer with the settings in cfg. limit is the absolute limit of its
// credit.
func (c *Consumer) checkout(ctx context.Context, cfg ConsumerConfig, limit quorumq.MsgID, o op) (quorumq.Reply, error) {
	r, _, err := c.q.do(ctx, &quorumq.Checkout{
		Consumer: c.key, Prefetch: cfg.Prefetch, Credit: cfg.Credit, Limit: limit,
		AutoAck: cfg.AutoAck, Priority: cfg.Priority, Exclusive: cfg.Exclusive, HasTimeout: cfg.HasTimeout, TimeoutMs: cfg.TimeoutMs,
	}, o)
	switch {
	case err != nil:
	case r.Code == quorumq.CodeDrainDeleting:
		err = fmt.Errorf("queue %s: %w", c.q.uid, traffic.ErrDrainDeleting)
	case r.Code == quorumq.CodeExclusive:
		err = fmt.Errorf("queue %s: %w: another consumer is exclusive, or this one asks to be and is not alone", c.q.uid, traffic.ErrExclusive)
	case r.Code != quorumq.CodeOK:
		err = fmt.Errorf("queue %s: %w: the queue refused the consumer (code %d)", c.q.uid, traffic.ErrConsumerGone, r.Code)
	}
	return r, err
}

func (q *Queue) newSession() quorumq.SessionKey {
	return quorumq.SessionKey{Node: q.g.cfg.Node, Epoch: q.g.cfg.Epoch, Session: q.g.sessions.Add(1)}
}

// Again registers a cancelled consumer again, under the same key, so that messages still held by
// its client count towards the prefetch (CO-3). It takes the settings from cfg; the callbacks stay
// the same.
func (c *Consumer) Again(ctx context.Context, cfg ConsumerConfig) error {
	q := c.q
	q.mu.Lock()
	if err := cmp.Or(q.ended, q.leaves); err != nil || c.ended {
		q.mu.Unlock()
		return cmp.Or(err, fmt.Errorf("queue %s: %w", q.uid, traffic.ErrConsumerGone))
	}
	c.cfg.Prefetch, c.cfg.Credit, c.cfg.AutoAck = cfg.Prefetch, cfg.Credit, cfg.AutoAck
	c.limit, c.credited = cfg.Limit, cfg.Limit
	c.cancelled = false
	base := c.base
	q.mu.Unlock()
	r, err := c.checkout(ctx, cfg, base+cfg.Limit, op{after: c})
	if err != nil {
		return err
	}
	q.mu.Lock()
	ahead := r.LastMsgID - min(r.LastMsgID, c.tracker.Last())
	q.mu.Unlock()
	if cfg.Credit && ahead > 0 { // the queue's numbers continue from there, above what the limit allows
		c.Credit(cfg.Limit + ahead)
	}
	return nil
}
