package online

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/backup/archive"
	"github.com/quorate/quorate/client"
)

// names returns the queues that a backup has, sorted.
func names(m *archive.Manifest) (out []string) {
	for _, q := range m.Queues {
		out = append(out, q.Name)
	}
	slices.Sort(out)
	return out
}

// job returns a backup into a new directory, and its place.
func (x *cluster) job(seen func(Progress)) (Create, archive.Location) {
	x.t.Helper()
	l := archive.Location{Name: filepath.Join(x.t.TempDir(), "b")}
	store, err := l.Create(x.at)
	x.must(err)
	return Create{Client: x.c, Store: store, Seen: seen}, l
}

// A queue without a leader, alone or in a circle, is named and left out, and all others are copied. What it waits for is
// shown meanwhile. A backup that would have nothing is none, and a restore continues with the next queue, too.
func TestQueueWithoutLeader(t *testing.T) {
	x := start(t)
	for name, arguments := range map[string]client.Table{
		"fine": nil, "other": nil, "lone": {"x-quorum-initial-group-size": 1}, "round": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "lost"},
	} {
		x.declare(name, arguments)
		x.publish(name, client.Message{Body: []byte(name)})
	}
	q, err := x.c.GetQueue(x.at, client.QueueRef{Name: "lone"})
	x.must(err)
	node := slices.Index([]string{"node-0", "node-1", "node-2"}, q.Members[0])
	one, err := client.Dial(x.at, client.Config{Addresses: x.Addresses()[node : node+1], FixedAddresses: true})
	x.must(err)
	_, err = one.DeclareQueue(x.at, client.Queue{Name: "lost", Arguments: client.Table{ // on the same node
		"x-quorum-initial-group-size": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "round",
	}})
	x.must(err)
	one.Close()
	whole := x.backup("")
	x.Kill(node)

	waits := map[string]string{}
	job, l := x.job(func(p Progress) {
		if p.Waits != nil {
			waits[p.Queue] = p.Waits.Error()
		}
	})
	job.Patience = 12 * time.Second // more than one try takes
	m, err := job.Run(x.at)
	x.must(err)
	if got := names(&m); !slices.Equal(got, []string{"fine", "other", "round"}) {
		t.Errorf("the backup has %q", got)
	}
	if text := strings.Join(m.Missing, "\n"); len(m.Missing) != 2 || !strings.Contains(text, `queue "lone" in vhost "/": `) || !strings.Contains(text, `queue "lost" in vhost "/": `) {
		t.Errorf("missing: %q", m.Missing)
	}
	if waits[`queue "lone" in vhost "/"`] == "" {
		t.Errorf("it waited without a word: %q", waits)
	}
	r := x.open(l)
	x.must(r.Verify(x.at, func(*archive.Queue) {}))
	x.must(r.Close())

	job, _ = x.job(func(Progress) {})
	job.Patience, job.Queues, job.Plan.VHost = time.Second, []string{"lone"}, "/"
	if _, err := job.Run(x.at); !errors.Is(err, ErrNothingCopied) || !strings.Contains(err.Error(), `"lone"`) {
		t.Errorf("a backup of nothing: %v", err)
	}

	got, err := x.restore(whole, Restore{Run: "one", Patience: time.Second})
	x.must(err)
	for _, q := range got {
		if lost := q.Queue == "lone" || q.Queue == "lost" && q.Messages > 0; lost != (q.Problem != "" && q.Messages > 0) || !lost && q.Stored != q.Messages {
			t.Errorf("restored: %+v", q)
		}
	}
	if len(got) != 5 {
		t.Errorf("restored: %+v", got)
	}
}

// A queue that the definitions do not create hinders no other queue of a restore, before which a dry run names it; its
// messages can be restored under another name.
func TestRestoreWithoutQueue(t *testing.T) {
	x := start(t)
	for _, name := range []string{"a", "z"} {
		x.declare(name, nil)
		x.publish(name, client.Message{Body: []byte(name)})
	}
	c, err := amqp091.Dial(x.AMQP(0))
	x.must(err)
	defer c.Close() //nolint:errcheck // the test ends
	ch, err := c.Channel()
	x.must(err)
	own, err := ch.QueueDeclare("", true, false, false, false, nil)
	x.must(err)
	x.publish(own.Name, client.Message{Body: []byte("own")})
	l, chosen := x.backup(""), x.backup("/", "a")

	other := start(t)
	for _, dry := range []bool{true, false} {
		got, err := other.restore(l, Restore{Run: "one", DryRun: dry})
		other.must(err)
		if len(got) != 3 {
			t.Fatalf("dry run %v: %+v", dry, got)
		}
		for _, q := range got {
			if lost := q.Queue == own.Name; lost != strings.Contains(q.Problem, "--as") || lost != (q.Stored == 0) {
				t.Errorf("dry run %v: %+v", dry, q)
			}
		}
	}
	for _, q := range []string{"a", "z"} {
		if got := other.messages("/", q); len(got) != 1 {
			t.Errorf("queue %s has %q", q, got)
		}
	}
	got, err := other.restore(l, Restore{Run: "two", Queues: []string{own.Name}, As: "rescued"})
	if err != nil || len(got) != 1 || got[0].Stored != 1 {
		t.Errorf("under another name: %+v, %v", got, err)
	}
	for _, dry := range []bool{true, false} {
		if got, err := other.restore(chosen, Restore{Run: "three", DryRun: dry, As: "nobody"}); err == nil {
			t.Errorf("dry run %v of a queue that nothing creates: %+v", dry, got)
		}
	}
}

// A queue of a circle that is deleted during the backup is left out, whether the circle is copied together or is too
// large for that.
func TestDeletedOfCircle(t *testing.T) {
	x := start(t)
	for _, size := range []int{3, maxCircle + 2} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			in := func(i int) string { return fmt.Sprintf("c%d-%d", size, i%size) }
			to := func(name string) client.Table {
				return client.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name}
			}
			source := fmt.Sprint("source", size)
			x.declare(source, to(in(0))) // it is copied before what it dead-letters to
			x.publish(source, client.Message{})
			for i := range size {
				x.declare(in(i), to(in(i+1)))
				x.publish(in(i), client.Message{})
			}
			deleted := false
			job, _ := x.job(func(p Progress) {
				if deleted || p.Queue != fmt.Sprintf("queue %q in vhost %q", source, "/") {
					return
				}
				deleted = true
				_, err := x.c.DeleteQueue(x.at, client.DeleteQueueRequest{Name: in(1)})
				if err != nil {
					t.Error(err)
				}
			})
			m, err := job.Run(x.at)
			if err != nil || !deleted || len(m.Missing) > 0 {
				t.Fatalf("deleted %v, missing %q, %v", deleted, m.Missing, err)
			}
			if got := names(&m); slices.Contains(got, in(1)) || !slices.Contains(got, in(0)) || !slices.Contains(got, in(2)) {
				t.Errorf("the backup has %q", got)
			}
		})
	}
}
