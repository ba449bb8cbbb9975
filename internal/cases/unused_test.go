package cases

import (
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// exists reports whether a queue is there, without using it (QX-2).
func (k *kase) exists(queue string) bool {
	k.Helper()
	_, err := k.client.GetQueue(k.ctx, client.QueueRef{Name: queue})
	var e *client.Error
	if errors.As(err, &e) && e.Class == client.NotFound {
		return false
	}
	k.must(err)
	return true
}

// gone waits until a queue is deleted.
func (k *kase) gone(queue string) {
	k.Helper()
	k.eventually(queue+" is deleted", func() error {
		if k.exists(queue) {
			return errors.New("it is there")
		}
		return nil
	})
}

// whileUsed fails if a queue is deleted while it is used every 500 ms for longer than its
// time.
func (k *kase) whileUsed(queue string, use func()) {
	k.Helper()
	for range 10 {
		use()
		time.Sleep(stays)
		if !k.exists(queue) {
			k.Fatalf("%s is deleted while it is used", queue)
		}
	}
}

var shortLived = args{"x-expires": 4000}

// QX-1, QX-3.
func TestT072(t *testing.T) {
	k := begin(t, "a queue that nobody uses is deleted, its messages are not dead-lettered")
	d := k.queue("d", nil)
	began := time.Now()
	idle, full := k.queue("idle", shortLived), k.queue("full", dlx(d, shortLived))
	k.publish(full, "m")
	for k.exists(idle) {
		time.Sleep(poll)
	}
	if after := time.Since(began); after < 4*time.Second || after > soon {
		k.Errorf("deleted after %v, want 4 s, and %v at most", after, soon)
	}
	k.gone(full)
	k.empty(d)
}

// QX-1, QX-2.
func TestT073(t *testing.T) {
	begin(t, "get, consumers and declares keep a queue")
	t.Run("get", func(t *testing.T) {
		k := begin(t, "get")
		q := k.queue("q", shortLived)
		k.whileUsed(q, func() {
			_, err := k.client.Get(k.ctx, "", q, true)
			k.must(err)
		})
		k.gone(q)
	})
	t.Run("declare", func(t *testing.T) {
		k := begin(t, "declare")
		q := k.queue("q", shortLived)
		k.whileUsed(q, func() { k.queue("q", shortLived) })
		k.gone(q)
	})
	t.Run("consumer", func(t *testing.T) {
		k := begin(t, "consumer")
		q := k.queue("q", shortLived)
		s := k.consume(q, 1)
		k.whileUsed(q, func() {})
		s.Close()
		k.gone(q)
	})
	t.Run("messages", func(t *testing.T) {
		k := begin(t, "messages, with x-expires-if-empty")
		q := k.queue("q", args{"x-expires": 4000, "x-expires-if-empty": true})
		k.publish(q, "m")
		time.Sleep(4500 * time.Millisecond)
		if !k.exists(q) {
			k.Fatal("deleted with a message in it")
		}
		k.same("message", k.bodies(q, 1), []string{"m"})
		k.gone(q)
	})
}
