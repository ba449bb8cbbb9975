package online

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/backup"
	"github.com/quorate/quorate/backup/archive"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/clienttest"
	"github.com/quorate/quorate/internal/wait"
)

// deadline bounds what a test waits for.
const deadline = time.Minute

// cluster is a cluster of a test, with a client.
type cluster struct {
	*clienttest.Cluster

	t  *testing.T
	c  *client.Client
	at context.Context
}

func start(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*deadline)
	t.Cleanup(cancel)
	x := clienttest.Start(t, 3)
	return &cluster{Cluster: x, t: t, c: x.Client(), at: ctx}
}

func (x *cluster) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *cluster) declare(name string, arguments client.Table) {
	x.t.Helper()
	_, err := x.c.DeclareQueue(x.at, client.Queue{Name: name, Arguments: arguments})
	x.must(err)
}

func (x *cluster) publish(queue string, m client.Message) {
	x.t.Helper()
	m.RoutingKey = queue
	_, err := x.c.PublishOne(x.at, m)
	x.must(err)
}

// take returns n deliveries of a new consumer.
func (x *cluster) take(queue string, n int) []*client.Delivery {
	x.t.Helper()
	s, err := x.c.Consume(x.at, client.ConsumeConfig{Queue: queue, Prefetch: uint32(n)})
	x.must(err)
	var out []*client.Delivery
	for range n {
		d, err := s.Receive(x.at)
		x.must(err)
		out = append(out, d)
	}
	return out
}

// backup makes a backup, reads all of it, and returns its place.
func (x *cluster) backup(vhost string, queues ...string) archive.Location {
	x.t.Helper()
	l := archive.Location{Name: filepath.Join(x.t.TempDir(), "backup.tar")}
	store, err := l.Create(x.at)
	x.must(err)
	job := Create{Client: x.c, Queues: queues, Store: store, Plan: archive.Manifest{VHost: vhost}, Seen: func(Progress) {}}
	m, err := job.Run(x.at)
	x.must(err)
	if len(m.Unsteady) > 0 {
		x.t.Logf("unsteady: %v", m.Unsteady)
	}
	r := x.open(l)
	x.must(r.Verify(x.at, func(*archive.Queue) {}))
	x.must(r.Close())
	return l
}

func (x *cluster) open(l archive.Location) *archive.Reader {
	x.t.Helper()
	store, err := l.Open(x.at)
	x.must(err)
	r, err := archive.Open(x.at, store, nil)
	x.must(err)
	return r
}

// restore restores a backup, and returns the outcome.
func (x *cluster) restore(l archive.Location, how Restore) ([]RestoredQueue, error) {
	x.t.Helper()
	var out []RestoredQueue
	how.Client, how.From = x.c, x.open(l)
	how.Seen = func(q RestoredQueue) { out = append(out, q) }
	how.Imported, how.Progress = func(client.ImportSummary) {}, func(Progress) {}
	err := how.Execute(x.at)
	x.must(how.From.Close())
	return out, err
}

// messages shows all messages of a queue, in the order of delivery, as a restore must keep them.
func (x *cluster) messages(vhost, queue string) []string {
	x.t.Helper()
	var out []string
	for _, part := range []client.QueuePart{client.PartUnsettled, client.PartReady, client.PartDelayed, client.PartBacklog} {
		for token, more := "", true; more; more = token != "" {
			page, err := x.c.Peek(x.at, client.PeekRequest{VHost: vhost, Queue: queue, Part: part, Limit: 1000, WithBodies: true, PageToken: token})
			x.must(err)
			for i := range page.Messages {
				m := &page.Messages[i]
				acquired := m.AcquiredCount
				if part == client.PartUnsettled {
					acquired++ // it comes back
				}
				due := int64(0)
				if !m.State.Due.IsZero() {
					due = m.State.Due.UnixMilli()
				}
				out = append(out, fmt.Sprintf("%s id=%s failed=%d acquired=%d prio=%d at=%d due=%d deaths=%v annotations=%v",
					m.Body, m.MessageID, m.DeliveryCount, acquired, m.State.Priority, m.State.At.UnixMilli(), due, deaths(m.Deaths), m.Annotations))
			}
			token = page.Next
		}
	}
	return out
}

// deaths returns the deaths of a message.
func deaths(all []client.Death) []string {
	var out []string
	for _, d := range all {
		out = append(out, fmt.Sprintf("%s %s %d", d.Queue, d.Reason, d.Count))
	}
	return out
}

// fill brings queues into a state in which a backup has something of everything.
func (x *cluster) fill() {
	x.t.Helper()
	x.declare("dead", nil)
	x.declare("work", client.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
	x.declare("empty", nil)
	high := uint8(9)
	for i := range 300 {
		m := client.Message{Body: fmt.Appendf(nil, "%d", i), Properties: client.Properties{MessageID: fmt.Sprint("id ", i), Headers: client.Table{"n": i}}}
		if i%7 == 0 {
			m.Priority = &high
		}
		x.publish("work", m)
	}
	for i, d := range x.take("work", 20) {
		switch {
		case i < 5:
			x.must(d.Discard()) // to dead, with a death
		case i < 10:
			x.must(d.Requeue(true))
		case i < 12:
			x.must(d.Decide(client.Decision{Kind: client.Requeue, Annotations: client.Table{"x-why": "later"}}))
		case i < 14:
			x.must(d.RequeueAfter(true, time.Hour))
		} // the others stay with the consumer
	}
	x.publish("work", client.Message{Body: []byte("later"), Delay: time.Hour})
	x.publish("work", client.Message{Body: []byte("much later"), Properties: client.Properties{Expiration: "86400000"}})
	for { // until the decisions have come, and the consumer has as much as it may
		q, err := x.c.GetQueue(x.at, client.QueueRef{Name: "work"})
		x.must(err)
		f := q.Figures()
		if f.MessagesUnacknowledged == 20 && f.MessagesDelayed == 3 && f.MessagesDLX == 0 && len(x.messages("/", "dead")) == 5 {
			return
		}
		x.must(wait.For(x.at, 10*time.Millisecond))
	}
}

// BK-1, BK-3: a queue is restored as it was: into another vhost, under another name, twice with the same run, and in
// another cluster.
func TestRestored(t *testing.T) {
	x := start(t)
	x.fill()
	work, dead := x.messages("/", "work"), x.messages("/", "dead")
	if len(work) != 297 || len(dead) != 5 {
		t.Fatalf("%d and %d messages before the backup", len(work), len(dead))
	}
	l := x.backup("")

	_, err := x.c.PutVHost(x.at, client.VHost{Name: "copy"})
	x.must(err)
	_, err = x.restore(l, Restore{Into: "copy", DryRun: true})
	x.must(err)
	if _, err := x.c.GetQueue(x.at, client.QueueRef{VHost: "copy", Name: "work"}); client.ClassOf(err) != client.NotFound {
		t.Errorf("a dry run has made a queue: %v", err)
	}
	for range 2 { // the second one stores nothing
		got, err := x.restore(l, Restore{Into: "copy", Run: "one"})
		x.must(err)
		if len(got) != 3 {
			t.Errorf("restored: %+v", got)
		}
		same(t, "work in another vhost", x.messages("copy", "work"), work)
		same(t, "dead in another vhost", x.messages("copy", "dead"), dead)
	}
	got, err := x.restore(l, Restore{Queues: []string{"work"}, As: "again", Run: "two"})
	x.must(err)
	if len(got) != 1 || got[0] != (RestoredQueue{VHost: "/", Queue: "again", Messages: 297, Stored: 297}) {
		t.Errorf("restored: %+v", got)
	}
	same(t, "under another name", x.messages("/", "again"), work)

	other := start(t)
	_, err = other.restore(l, Restore{Run: "three"})
	other.must(err)
	same(t, "work in another cluster", other.messages("/", "work"), work)
	same(t, "dead in another cluster", other.messages("/", "dead"), dead)

	x.declare("small", client.Table{"x-max-length": 10, "x-overflow": "reject-publish"})
	got, err = x.restore(l, Restore{Queues: []string{"work"}, As: "small", NoDefinitions: true, Run: "four"})
	if err != nil || len(got) != 1 || got[0].Refused == 0 || got[0].Stored+got[0].Refused != 297 {
		t.Errorf("into a queue with a limit: %+v, %v", got, err)
	}
	if _, err := x.restore(l, Restore{Queues: []string{"nobody"}, Run: "five"}); err == nil {
		t.Error("a queue that is not in the backup is restored")
	}
}

// same compares what two queues have; the first difference is shown.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("%s: message %d is missing: %s", what, i, want[i])
		case i >= len(want):
			t.Fatalf("%s: message %d is too many: %s", what, i, got[i])
		case got[i] != want[i]:
			t.Fatalf("%s: message %d is\n%s\nwant\n%s", what, i, got[i], want[i])
		}
	}
}

// BK-1: while clients publish and nodes are killed, whatever was confirmed before a backup began is in it, and the restore
// continues through another node.
func TestBackupUnderLoad(t *testing.T) {
	x := start(t)
	x.declare("load", nil)
	p, err := x.c.Publisher(client.PublisherConfig{})
	x.must(err)
	var mu sync.Mutex
	confirmed := uint64(0)
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for i := uint64(1); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			body := binary.BigEndian.AppendUint64(make([]byte, 0, 1000), i)
			if _, err := p.Publish(x.at, client.Message{RoutingKey: "load", Body: body[:1000]}); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			confirmed = i
			mu.Unlock()
		}
	})
	now := func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return confirmed
	}
	for now() < 2000 {
		x.must(wait.For(x.at, time.Millisecond))
	}
	for node := range 3 {
		before := now()
		var killed sync.WaitGroup
		killed.Go(func() { x.Kill(node) })
		l := x.backup("", "load")
		killed.Wait()
		x.Restart(node)
		name := fmt.Sprint("copy", node)
		x.declare(name, nil)
		restored := make(chan error, 1)
		go func() {
			_, err := x.restore(l, Restore{Queues: []string{"load"}, As: name, NoDefinitions: true, Run: name})
			restored <- err
		}()
		next := (node + 1) % 3
		x.Kill(next)
		x.must(<-restored)
		x.Restart(next)
		seen := map[uint64]int{}
		for token, more := "", true; more; more = token != "" {
			page, err := x.c.Peek(x.at, client.PeekRequest{Queue: name, Limit: 1000, WithBodies: true, PageToken: token})
			x.must(err)
			for i := range page.Messages {
				seen[binary.BigEndian.Uint64(page.Messages[i].Body)]++
			}
			token = page.Next
		}
		for i := uint64(1); i <= before; i++ {
			if seen[i] != 1 {
				t.Fatalf("message %d of %d, confirmed before the backup, is there %d times", i, before, seen[i])
			}
		}
		for i, n := range seen {
			if n != 1 {
				t.Fatalf("message %d is there %d times", i, n)
			}
		}
	}
	close(stop)
	publishing.Wait()
}

// BK-2: of messages that go round in a circle of queues, a backup misses none, or says that it may.
func TestCircle(t *testing.T) {
	x := start(t)
	const queues, messages = 3, 60
	for i := range queues {
		x.declare(fmt.Sprint("c", i), client.Table{
			"x-message-ttl": 200 + 100*i, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": fmt.Sprint("c", (i+1)%queues),
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		})
	}
	x.declare("target", nil)
	x.declare("source", client.Table{
		"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "target", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	})
	for i := range messages {
		x.publish("c0", client.Message{Body: fmt.Appendf(nil, "%d", i)})
	}
	for try := range 5 {
		for i := range messages {
			x.publish("source", client.Message{Body: fmt.Appendf(nil, "%d %d", try, i)})
		}
		l := archive.Location{Name: filepath.Join(t.TempDir(), "circle")}
		store, err := l.Create(x.at)
		x.must(err)
		job := Create{Client: x.c, Store: store, Seen: func(Progress) {}}
		m, err := job.Run(x.at)
		x.must(err)
		in := map[string]map[string]int{}
		r := x.open(l)
		for i := range r.Manifest.Queues {
			q := &r.Manifest.Queues[i]
			group := strings.TrimRight(q.Name, "012")
			if in[group] == nil {
				in[group] = map[string]int{}
			}
			bodies(x.at, t, r, q, in[group])
		}
		x.must(r.Close())
		t.Logf("%d different messages of %d in the circle, unsteady: %v", len(in["c"]), messages, m.Unsteady)
		if len(in["c"]) != messages && len(m.Unsteady) == 0 {
			t.Fatalf("%d of %d messages are in the circle's copies, and the manifest says nothing", len(in["c"]), messages)
		}
		both := map[string]int{}
		for body := range in["source"] {
			both[body]++
		}
		for body := range in["target"] {
			both[body]++
		}
		if len(both) != messages*(try+1) {
			t.Fatalf("%d of %d messages are in the copies of source and target", len(both), messages*(try+1))
		}
	}
}

// A queue can be exported and restored through a node that has no member of it.
func TestThroughAnotherNode(t *testing.T) {
	x := start(t)
	stored := make([]byte, 100_000)
	elsewhere := 0
	for i := range 3 {
		name := fmt.Sprint("far", i)
		x.declare(name, client.Table{"x-quorum-initial-group-size": 1})
		for range 20 {
			x.publish(name, client.Message{Body: stored})
		}
		q, err := x.c.GetQueue(x.at, client.QueueRef{Name: name})
		x.must(err)
		for node, address := range x.Addresses() {
			if q.Leader != fmt.Sprint("node-", node) {
				elsewhere++
			}
			one, err := client.Dial(x.at, client.Config{Addresses: []string{address}, FixedAddresses: true})
			x.must(err)
			defer one.Close()
			messages := 0
			var copied [][]byte
			err = one.ExportQueue(x.at, client.ExportQueueRequest{Queue: name}, func() error { return nil }, func(b []byte) error {
				copied = append(copied, slices.Clone(b))
				block, err := backup.Decode(b)
				messages += len(block.Messages)
				return err
			})
			if err != nil || messages != 20 {
				t.Errorf("queue %s through node %d: %d messages, %v", name, node, messages, err)
			}
			got, err := one.RestoreQueue(x.at, client.RestoreQueueRequest{Queue: name, Run: [16]byte{byte(node)}, DryRun: true, Blocks: func() (func() ([]byte, error), error) {
				rest := copied
				return func() ([]byte, error) {
					if len(rest) == 0 {
						return nil, io.EOF
					}
					rest = rest[1:]
					return copied[len(copied)-len(rest)-1], nil
				}, nil
			}})
			if err != nil || got.Stored != 20 {
				t.Errorf("queue %s into node %d: %+v, %v", name, node, got, err)
			}
		}
	}
	if elsewhere < 6 {
		t.Errorf("only %d queues were elsewhere: the test shows nothing", elsewhere)
	}
}
