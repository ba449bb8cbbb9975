// Package online makes backups of a running cluster and restores them, through a client.
package online

import (
	"cmp"
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
	// defaultPatience is that of Create and Restore: longer than an election, and than the restart of a node.
	defaultPatience = 2 * time.Minute
	// maxPatient limits the queues that this is waited for.
	maxPatient = 5
)

// ErrNothingCopied means that no queue could be copied. The error that wraps it has the reason of the last one.
var ErrNothingCopied = errors.New("no queue can be copied")

// Create is what to copy.
type Create struct {
	Client *client.Client
	// Plan names the cluster and the program in the manifest, and with VHost the only vhost.
	Plan archive.Manifest
	// Queues are the names of those that are copied, of VHost; none: all, with the definitions.
	Queues []string
	Store  archive.Store
	Keys   *archive.Keys
	// Seen is called often during the backup; it must not block.
	Seen func(Progress)
	// Patience is how long one queue is tried without progress; 0: two minutes. Then the backup continues without the
	// queue. After maxPatient such queues, others are tried once on each node that has a copy.
	Patience time.Duration

	senders  senders
	progress tally
	missing  []string // queues that could not be copied, with the reason
}

// Run makes the backup: the definitions, and each queue as it is at one moment after the call began. Whatever was
// confirmed before that and had not left the cluster is in it (BK-1, BK-2), except of queues that the manifest names as
// missing, such as those without a leader. It closes the store.
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

// copyAll copies what is asked for. The list of the queues comes first: all that are copied and not deleted meanwhile
// are in the definitions, so that a restore can create them. A queue that is deleted later is restored empty.
func (c *Create) copyAll(ctx context.Context, w *archive.Writer) error {
	queues, groups, err := c.plan(ctx)
	if err != nil {
		return err
	}
	status, err := c.Client.ClusterStatus(ctx)
	if err != nil {
		return err
	}
	c.senders = newSenders(&status)
	if len(c.Queues) == 0 {
		document, err := c.Client.ExportDefinitions(ctx, c.Plan.VHost)
		if err == nil {
			err = w.Definitions(ctx, document)
		}
		if err != nil {
			return err
		}
	}
	c.progress.begin(queues, c.Seen)
	for _, g := range groups {
		switch {
		case len(g) == 1:
			_, _, err = c.one(ctx, w, &queues[g[0]])
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
	if n := len(c.missing); n > 0 && n == len(queues) {
		return fmt.Errorf("%w: %s", ErrNothingCopied, c.missing[n-1])
	}
	return nil
}

// patience returns how long a queue is tried.
func (c *Create) patience(q *client.QueueInfo) client.Patience {
	p := client.Patience{For: cmp.Or(c.Patience, defaultPatience), Waiting: func(err error) { c.progress.waits(q, err) }}
	if len(c.missing) >= maxPatient {
		p.For = 1 // as soon as each node that has a copy has failed
	}
	return p
}

// request asks for the copy of a queue.
func (c *Create) request(q *client.QueueInfo) client.ExportQueueRequest {
	return client.ExportQueueRequest{VHost: q.VHost, Queue: q.Name, Nodes: c.senders.of(q), Patience: c.patience(q)}
}

// without reports whether the backup continues without a queue after an error: the queue is deleted, or could not be
// copied, which is recorded.
func (c *Create) without(w *archive.Writer, q *client.QueueInfo, err error) bool {
	switch {
	case client.ClassOf(err) == client.NotFound:
		return true
	case errors.Is(err, client.ErrNoProgress):
		c.missing = append(c.missing, fmt.Sprintf("%s: %v", described(q), err))
		w.Missing(c.missing[len(c.missing)-1])
		return true
	}
	return false
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

// one copies a queue, and returns how many messages had left its backlog. copied is false if the backup continues
// without the queue.
func (c *Create) one(ctx context.Context, w *archive.Writer, q *client.QueueInfo) (left uint64, copied bool, err error) {
	x := w.Copy()
	err = c.Client.ExportQueue(ctx, c.request(q), func() error {
		c.progress.forget(x)
		x.Begin()
		return nil
	}, func(b []byte) error { return c.progress.block(ctx, x, q, b) })
	if err == nil {
		err = x.End()
	}
	x.Abandon()
	switch {
	case err == nil:
		return x.Left(), true, nil
	case c.without(w, q, err):
		c.progress.forget(x)
		w.Drop(1)
		return 0, false, nil
	}
	return 0, false, fmt.Errorf("%s: %w", described(q), err)
}

// circle copies queues that dead-letter to each other. A message that goes from one whose copy is not begun to one
// whose copy is would be in neither, so all are begun together, and again if messages moved meanwhile.
func (c *Create) circle(ctx context.Context, w *archive.Writer, queues []client.QueueInfo, group []int) error {
	for try := 1; ; try++ {
		still, before, err := c.left(ctx, w, queues, group)
		if err != nil || len(still) == 0 {
			return err
		}
		group = still
		last := try == circleTries
		moved, gone, err := c.together(ctx, w, queues, group, before, last)
		switch {
		case err != nil:
			return err
		case len(gone) > 0: // the others have to begin together once more
			w.Drop(len(group))
			group = slices.DeleteFunc(group, func(i int) bool { return slices.Contains(gone, i) })
			try--
			continue
		case len(moved) == 0:
			return nil
		case last:
			w.Unsteady(moved...)
			return nil
		}
		w.Drop(len(group))
	}
}

// oneByOne copies a circle of too many queues, and only finds out whether messages moved meanwhile.
func (c *Create) oneByOne(ctx context.Context, w *archive.Writer, queues []client.QueueInfo, group []int) error {
	group, before, err := c.left(ctx, w, queues, group)
	if err != nil {
		return err
	}
	for k, i := range group {
		q := &queues[i]
		left, copied, err := c.one(ctx, w, q)
		if err != nil {
			return err
		}
		if copied && left != before[k] {
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

// left returns how many messages have left the backlog of each queue, and the queues with which the backup continues.
func (c *Create) left(ctx context.Context, w *archive.Writer, queues []client.QueueInfo, group []int) (still []int, left []uint64, err error) {
	for _, i := range group {
		q, n := &queues[i], uint64(0)
		r := c.request(q)
		r.HeadOnly = true
		err := c.Client.ExportQueue(ctx, r, func() error { return nil }, func(b []byte) error {
			x, err := backup.Decode(b)
			n = x.Head.Left
			return err
		})
		switch {
		case err == nil:
			still, left = append(still, i), append(left, n)
		case !c.without(w, q, err):
			return nil, nil, fmt.Errorf("%s: %w", described(q), err)
		}
	}
	return still, left, nil
}

// errMoved ends copies that are begun again.
var errMoved = errors.New("messages moved between the queues")

// together begins all copies, and compares what has left the queues with before. It completes the copies if that is the
// same, or regardless; it returns the queues where it is not, and those of the group without which the backup
// continues.
func (c *Create) together(
	ctx context.Context, w *archive.Writer, queues []client.QueueInfo, group []int, before []uint64, regardless bool,
) (moved []string, gone []int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([]*member, len(group))
	for k, i := range group {
		all[k] = newMember(w.Copy(), &queues[i], c.request(&queues[i]), &c.progress)
	}
	for _, m := range all {
		go m.run(ctx, c.Client)
	}
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
		if errs[k] = m.err; m.err != nil && c.without(w, m.queue, m.err) {
			gone = append(gone, group[k])
		}
	}
	if !again && len(gone) == 0 {
		return moved, nil, errors.Join(errs...)
	}
	for _, m := range all {
		c.progress.forget(m.copy)
	}
	return moved, gone, nil
}
