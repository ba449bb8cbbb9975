package cases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/backup"
	"github.com/quorate/quorate/backup/archive"
	"github.com/quorate/quorate/backup/online"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/message"
)

// backUp copies queues and returns the backup.
func (k *kase) backUp(queues ...string) *archive.Reader {
	k.Helper()
	place := archive.Location{Name: k.TempDir()}
	store, err := place.Create(k.ctx)
	k.must(err)
	job := online.Create{Client: k.client.Client, Store: store, Queues: queues, Plan: archive.Manifest{Cluster: "cases", VHost: "/"}, Seen: func(online.Progress) {}}
	m, err := job.Run(k.ctx)
	k.must(err)
	k.same("unsteady", m.Unsteady, []string{})
	store, err = place.Open(k.ctx)
	k.must(err)
	r, err := archive.Open(k.ctx, store, nil)
	k.must(err)
	k.Cleanup(func() { k.must(r.Close()) })
	k.must(r.Verify(k.ctx, func(*archive.Queue) {}))
	return r
}

// restore stores what a backup has of a queue in a new one, and returns its name.
func (k *kase) restore(r *archive.Reader, from, to string, a args) string {
	k.Helper()
	to = k.queue(to, a)
	job := online.Restore{
		Client: k.client.Client, From: r, Run: to, VHost: "/", Queues: []string{from}, As: to, NoDefinitions: true, Imported: func(client.ImportSummary) {},
		Seen: func(q online.RestoredQueue) { k.same("refused", q.Refused, 0) },
	}
	k.must(job.Execute(k.ctx))
	return to
}

// copied counts the bodies in a backup.
func (k *kase) copied(r *archive.Reader) map[string]int {
	k.Helper()
	in := map[string]int{}
	for i := range r.Manifest.Queues {
		for next := r.Blocks(k.ctx, &r.Manifest.Queues[i]); ; {
			b, err := next()
			if errors.Is(err, io.EOF) {
				break
			}
			k.must(err)
			block, err := backup.Decode(b)
			k.must(err)
			for _, x := range block.Messages {
				m, err := message.Decode(x.Stored)
				k.must(err)
				in[string(m.Body)]++
			}
		}
	}
	return in
}

// numberedBodies returns so many bodies of their own.
func numberedBodies(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(prefix, i)
	}
	return out
}

// meanwhile does something again and again until the returned function is called.
func (k *kase) meanwhile(do func(ctx context.Context, n int) error) (stop func()) {
	ctx, cancel := context.WithCancel(k.ctx)
	var doing sync.WaitGroup
	doing.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if err := do(ctx, n); err != nil && ctx.Err() == nil {
				k.Error(err)
				return
			}
		}
	})
	return func() {
		cancel()
		doing.Wait()
	}
}

// BK-1.
func TestT360(t *testing.T) {
	k := begin(t, "a backup has all that was confirmed before and had not left, each once, while clients go on")
	q := k.queue("q", nil)
	before := numberedBodies("before ", 300)
	k.publish(q, before...)
	held := deliveredBodies(k.receive(k.consume(q, 20), 20))
	settled := k.queue("settled", nil)
	k.publish(settled, "settled before")
	k.settle(k.get(settled, false), ack)
	stop := k.meanwhile(func(_ context.Context, n int) error {
		_, err := k.try(q, fmt.Sprint("meanwhile ", n))
		return err
	})
	got := k.copied(k.backUp(q, settled))
	stop()
	for _, b := range before {
		k.same(b, got[b], 1)
	}
	k.same("held", len(held), 20)
	k.same("settled before", got["settled before"], 0)
	for b, n := range got {
		if n != 1 || !strings.HasPrefix(b, "before ") && !strings.HasPrefix(b, "meanwhile ") {
			k.Errorf("%q is in it %d times", b, n)
		}
	}
}

// BK-2.
func TestT361(t *testing.T) {
	k := begin(t, "a message that is dead-lettered while its queue is copied is in one copy or in both")
	dead := k.queue("dead", nil)
	q := k.queue("q", dlx(dead, alo()))
	bodies := numberedBodies("m", 500)
	k.publish(q, bodies...)
	s := k.consume(q, 50)
	stop := k.meanwhile(func(ctx context.Context, _ int) error {
		d, err := s.Receive(ctx)
		if err != nil {
			return err
		}
		return d.Discard()
	})
	k.eventually("some have moved", func() error {
		if k.stats(dead).Messages == 0 {
			return errNotYet
		}
		return nil
	})
	r := k.backUp(dead, q) // in whatever order they are named
	got := k.copied(r)
	stop()
	for _, b := range bodies {
		if n := got[b]; n != 1 && n != 2 {
			k.Errorf("%s is in %d copies", b, n)
		}
	}
	k.same("the source is copied first", r.Manifest.Queues[0].Name, q)
}

// BK-3, TTL-1, DEL-10.
func TestT362(t *testing.T) {
	k := begin(t, "a restored message is as it was: content, deaths, counts, priority, age and delay")
	dead := k.queue("dead", nil)
	q := k.queue("q", dlx(dead))
	k.publish(q, "died", "held", "failed")
	whole := client.Properties{
		ContentType: "text/plain", CorrelationID: "c", MessageID: "m", Type: "t", AppID: "a", Timestamp: time.Unix(1_700_000_000, 0), Priority: client.Priority(9),
		Headers: client.Table{"number": int64(-7), "list": []any{"a", true}},
	}
	_, err := k.try(q, "whole", func(m *client.Message) { m.Properties = whole })
	k.must(err)
	s := k.consume(q, 4)
	by := map[string]*delivery{}
	for _, d := range k.receive(s, 4) {
		by[string(d.Body)] = d
	}
	k.must(by["died"].decide(client.Decision{Kind: client.Discard, Failed: true, Annotations: args{"x-why": "of no use"}}))
	k.must(by["failed"].decide(client.Decision{Kind: client.Requeue, Failed: true, Annotations: args{"x-try": int64(1)}}))
	k.must(s.Flush(k.ctx))
	k.ready(dead, 1)
	// "failed" comes to the consumer again, which holds it with the others.
	k.receive(s, 1)
	later := k.queue("later", nil)
	due := time.Now().Add(longWait)
	_, err = k.try(later, "later", func(m *client.Message) { m.DeliverAt = due })
	k.must(err)
	old := k.queue("old", nil)
	enqueued := time.Now()
	const ttl = 10 * time.Second
	_, err = k.try(old, "old", func(m *client.Message) { m.Expiration = client.TTL(ttl) })
	k.must(err)
	r := k.backUp(q, dead, later, old)

	aged := k.restore(r, old, "old-again", dlx(k.queue("expired", nil)))
	k.ready(k.name("expired"), 1)
	if took := time.Since(enqueued); took < ttl-skew {
		k.Errorf("it expired %v after its first enqueue, its TTL is %v", took, ttl)
	}
	k.same("expired in", death(&k.get(k.name("expired"), true).Received, 0), fmt.Sprint(aged, " expired 1"))

	again := k.restore(r, q, "again", nil)
	counts := map[string][]uint32{}
	for range 3 {
		m := k.get(again, false)
		counts[string(m.Body)] = []uint32{m.DeliveryCount, m.AcquiredCount}
		k.same(string(m.Body)+" was delivered before", m.Redelivered, true)
		switch string(m.Body) {
		case "whole":
			got := m.Properties
			k.same("timestamp", got.Timestamp.Unix(), whole.Timestamp.Unix())
			k.same("priority", *got.Priority, *whole.Priority)
			got.Timestamp, got.Priority = whole.Timestamp, whole.Priority
			k.same("properties", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", whole))
		case "failed":
			k.same("annotations", m.Annotations, client.Table{"x-try": int64(1)})
		}
	}
	k.same("counts", counts, map[string][]uint32{"held": {0, 1}, "failed": {1, 2}, "whole": {0, 1}})

	m := k.get(k.restore(r, dead, "dead-again", nil), true)
	k.same("death", death(&m.Received, 0), q+" rejected 1")
	k.same("why", m.Annotations, client.Table{"x-why": "of no use"})
	k.same("a dead letter that nobody consumed is new", []any{m.Redelivered, m.DeliveryCount, m.AcquiredCount}, []any{false, 0, 0})

	waits := k.stats(k.restore(r, later, "later-again", nil))
	k.same("delayed", []uint64{waits.Messages, waits.MessagesReady, waits.MessagesDelayed}, []uint64{1, 0, 1})
	if d := waits.NextDelayedAt.Sub(due); d.Abs() > skew {
		k.Errorf("it is due %v after the time that it had", d)
	}
	k.same("left in the queue that was copied", k.stats(q).Messages, 3)
}
