// Package online makes backups of a running cluster and restores them, through a client.
package online

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/backup"
	"github.com/quorate/quorate/backup/archive"
	"github.com/quorate/quorate/client"
)

const (
	// maxCircle limits the queues that are copied from one moment on because they dead-letter to each other.
	maxCircle = 64
	// circleTries is how often that is tried again if messages moved between them meanwhile.
	circleTries = 10
)

// Create says what to copy.
type Create struct {
	Client *client.Client
	// Plan names the cluster and the program in the manifest, and with VHost the only vhost.
	Plan archive.Manifest
	// Queues are the names of those that are copied, of VHost; none: all, with the definitions.
	Queues []string
	Store  archive.Store
	Keys   *archive.Keys
	// Seen is called as the backup goes on, often; it must not block.
	Seen func(Progress)

	progress tally
}

// Run makes the backup: the definitions, and each queue as it is at one moment after the call began. Whatever was
// confirmed before that and had not left the cluster is in it (BK-1, BK-2). It closes the store.
func (c *Create) Run(ctx context.Context) (archive.Manifest, error) {
	w, err := archive.NewWriter(c.Store, c.Keys, c.Plan, time.Now())
	if err != nil {
		return archive.Manifest{}, errors.Join(err, c.Store.Abandon())
	}
	if err := c.copyAll(ctx, w); err != nil {
		return archive.Manifest{}, errors.Join(err, w.Abandon())
	}
	return w.Close(ctx, time.Now())
}

// copyAll copies what is asked for. The definitions come first: a queue that they name and that is deleted meanwhile
// is restored empty.
func (c *Create) copyAll(ctx context.Context, w *archive.Writer) error {
	if len(c.Queues) == 0 {
		document, err := c.Client.ExportDefinitions(ctx, c.Plan.VHost)
		if err == nil {
			err = w.Definitions(ctx, document)
		}
		if err != nil {
			return err
		}
	}
	queues, groups, err := c.plan(ctx)
	if err != nil {
		return err
	}
	c.progress.begin(queues, c.Seen)
	for _, g := range groups {
		switch {
		case len(g) == 1:
			_, err = c.one(ctx, w, &queues[g[0]])
		case len(g) > maxCircle:
			err = c.oneByOne(ctx, w, queues, g)
		default:
			err = c.circle(ctx, w, queues, g)
		}
		if err != nil {
			return err
		}
		c.progress.queues(len(g))
	}
	return nil
}

// plan returns the queues that are copied, and the order. Exclusive queues end with their connection and are left out.
func (c *Create) plan(ctx context.Context) ([]client.QueueInfo, [][]int, error) {
	all, err := client.Collect(c.Client.Queues(ctx, client.ListQueuesRequest{VHost: c.Plan.VHost}))
	if err != nil {
		return nil, nil, err
	}
	for _, n := range c.Queues {
		if !slices.ContainsFunc(all, func(q client.QueueInfo) bool { return q.Name == n }) {
			return nil, nil, fmt.Errorf("queue %q in vhost %q does not exist", n, c.Plan.VHost)
		}
	}
	all = slices.DeleteFunc(all, func(q client.QueueInfo) bool {
		return q.Exclusive || len(c.Queues) > 0 && !slices.Contains(c.Queues, q.Name)
	})
	var exchanges []client.ExchangeInfo
	var bindings []client.Binding
	vhosts := map[string]bool{}
	for _, q := range all {
		if vhosts[q.VHost] {
			continue
		}
		vhosts[q.VHost] = true
		xs, err := client.Collect(c.Client.Exchanges(ctx, q.VHost))
		if err != nil {
			return nil, nil, err
		}
		bs, err := client.Collect(c.Client.Bindings(ctx, q.VHost))
		if err != nil {
			return nil, nil, err
		}
		exchanges, bindings = append(exchanges, xs...), append(bindings, bs...)
	}
	return all, newTopology(all, exchanges, bindings).groups(all), nil
}

// one copies a queue, and returns how many messages had left its backlog. A queue that is gone meanwhile is left out.
func (c *Create) one(ctx context.Context, w *archive.Writer, q *client.QueueInfo) (left uint64, err error) {
	x := w.Copy()
	err = c.Client.ExportQueue(ctx, client.ExportQueueRequest{VHost: q.VHost, Queue: q.Name}, func() error {
		c.progress.forget(x)
		x.Begin()
		return nil
	}, func(b []byte) error { return c.progress.block(ctx, x, q, b) })
	if client.ClassOf(err) == client.NotFound {
		w.Drop(1)
		return 0, nil
	}
	if err == nil {
		err = x.End()
	}
	if err != nil {
		return 0, fmt.Errorf("queue %q in vhost %q: %w", q.Name, q.VHost, err)
	}
	return x.Left(), nil
}

// circle copies queues that dead-letter to each other. A message that goes from one whose copy is not begun to one
// whose copy is would be in neither, so all are begun together, and again if messages moved meanwhile.
func (c *Create) circle(ctx context.Context, w *archive.Writer, queues []client.QueueInfo, group []int) error {
	for try := 1; ; try++ {
		before, err := c.left(ctx, queues, group)
		if err != nil {
			return err
		}
		last := try == circleTries
		moved, err := c.together(ctx, w, queues, group, before, last)
		if err != nil || len(moved) == 0 {
			return err
		}
		if last {
			w.Unsteady(moved...)
			return nil
		}
		w.Drop(len(group))
	}
}

// oneByOne copies a circle of too many queues, and only finds out whether messages moved meanwhile.
func (c *Create) oneByOne(ctx context.Context, w *archive.Writer, queues []client.QueueInfo, group []int) error {
	before, err := c.left(ctx, queues, group)
	if err != nil {
		return err
	}
	for k, i := range group {
		q := &queues[i]
		left, err := c.one(ctx, w, q)
		if err != nil {
			return err
		}
		if left != before[k] {
			w.Unsteady(described(q))
		}
	}
	return nil
}

// described names a queue for people.
func described(q *client.QueueInfo) string {
	return describe(q.VHost, q.Name)
}

func describe(vhost, name string) string { return fmt.Sprintf("queue %q in vhost %q", name, vhost) }

// left returns how many messages have left each queue's backlog.
func (c *Create) left(ctx context.Context, queues []client.QueueInfo, group []int) ([]uint64, error) {
	out := make([]uint64, len(group))
	for k, i := range group {
		r := client.ExportQueueRequest{VHost: queues[i].VHost, Queue: queues[i].Name, HeadOnly: true}
		err := c.Client.ExportQueue(ctx, r, func() error { return nil }, func(b []byte) error {
			x, err := backup.Decode(b)
			out[k] = x.Head.Left
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("queue %q in vhost %q: %w", r.Queue, r.VHost, err)
		}
	}
	return out, nil
}

// errMoved ends copies that are begun again.
var errMoved = errors.New("messages moved between the queues")

// together begins all copies, and compares what has left the queues with before. It completes the copies if that is the
// same, or regardless; it returns the queues where it is not.
func (c *Create) together(ctx context.Context, w *archive.Writer, queues []client.QueueInfo, group []int, before []uint64, regardless bool) ([]string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([]*member, len(group))
	for k, i := range group {
		all[k] = newMember(w.Copy(), &queues[i], &c.progress)
	}
	for _, m := range all {
		go m.run(ctx, c.Client)
	}
	var moved []string
	for k, m := range all {
		if <-m.begun; m.copy.Left() != before[k] {
			moved = append(moved, described(m.queue))
		}
	}
	again := len(moved) > 0 && !regardless
	if again {
		cancel(errMoved)
	}
	errs := make([]error, len(all))
	for k, m := range all { // one after another: the archive takes one object at a time
		close(m.turn)
		<-m.done
		errs[k] = m.err
	}
	if again {
		for _, m := range all {
			c.progress.forget(m.copy)
		}
		return moved, nil
	}
	return moved, errors.Join(errs...)
}
