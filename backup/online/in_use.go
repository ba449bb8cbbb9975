package online

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/quorate/quorate/client"
)

// InUse describes the queues in which the restore would store messages although they hold some or have consumers, or
// although that is unknown because they have no leader: what was copied and is still there, or was consumed since,
// would be there twice. It changes nothing.
func (r *Restore) InUse(ctx context.Context) (found []string, err error) {
	chosen, err := r.choose()
	if err != nil {
		return nil, err
	}
	takes := map[string]bool{} // by describe
	for _, q := range chosen {
		if q.Messages > 0 {
			takes[describe(r.target(q))] = true
		}
	}
	if len(takes) == 0 {
		return nil, nil
	}
	for q, err := range r.Client.Queues(ctx, client.ListQueuesRequest{VHost: cmp.Or(r.Into, r.VHost), WithStats: true}) {
		switch {
		case client.ClassOf(err) == client.NotFound: // the vhost
			return nil, nil
		case err != nil:
			return nil, err
		case !takes[described(&q)]:
			continue
		}
		if use := useOf(&q); use != "" {
			found = append(found, described(&q)+" "+use)
		}
	}
	return found, nil
}

// useOf returns how a queue is in use; "" if it is not.
func useOf(q *client.QueueInfo) string {
	if q.Stats == nil {
		return "has no leader that says what it holds"
	}
	var uses []string
	if n := q.Stats.Messages; n > 0 {
		uses = append(uses, fmt.Sprintf("holds %d messages", n))
	}
	if n := q.Stats.Consumers; n > 0 {
		uses = append(uses, fmt.Sprintf("has %d consumers", n))
	}
	return strings.Join(uses, " and ")
}
