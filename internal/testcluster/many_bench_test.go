//go:build linux

package testcluster_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// BenchmarkManyQueues measures what an operator waits for with many queues on three nodes of
// this process: an import of their definitions, an export, and a change of a policy until what
// it gives is in force in every queue that it matches. QUORATE_SCALE_GROUPS is how many
// queues there are. Allocations are those of all nodes and the client, for each queue.
func BenchmarkManyQueues(b *testing.B) {
	n := testcluster.ManyQueues(b)
	b.Run("awake", func(b *testing.B) {
		for range b.N {
			m := startMany(b, n, 0)
			m.definitions()
			m.policies()
		}
	})
	b.Run("hibernated", func(b *testing.B) {
		for range b.N {
			m := startMany(b, n, 5*time.Second)
			m.measure("import", func() { m.importAll(m.document()) })
			m.await("", 1)
			m.asleep()
			m.policies()
		}
	})
}

type many struct {
	*testing.B
	c      *testcluster.Cluster
	client *client.Client
	n      int
	idle   int // goroutines before there were queues
}

func startMany(b *testing.B, n int, hibernate time.Duration) *many {
	c := testcluster.StartMany(b, 3, hibernate)
	x, err := client.Dial(b.Context(), client.Config{Addresses: c.Addrs(), ProbeTimeout: time.Minute, CallTimeout: 10 * time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(x.Close)
	return &many{B: b, c: c, client: x, n: n, idle: runtime.NumGoroutine()}
}

// measure reports how long f takes, and its allocations for each queue.
func (m *many) measure(name string, f func()) {
	m.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin, computed := time.Now(), m.computed()
	f()
	took := time.Since(begin)
	cpu := (m.computed() - computed) / time.Duration(m.n)
	runtime.ReadMemStats(&after)
	allocs := float64(after.Mallocs-before.Mallocs) / float64(m.n)
	m.ReportMetric(took.Seconds(), name+"-s")
	m.ReportMetric(float64(cpu.Microseconds()), name+"-cpu-µs/queue")
	m.ReportMetric(allocs, name+"-allocs/queue")
	m.Logf("%s: %.2f s, %d µs of processor time and %.0f allocations a queue", name, took.Seconds(), cpu.Microseconds(), allocs)
}

// computed is the processor time of this process.
func (m *many) computed() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		m.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// queue names the queues so that one in 100 can be chosen by its end.
func queue(i int) string { return fmt.Sprintf("orders.%05d", i) }

// document describes the queues, and a binding for each.
func (m *many) document() []byte {
	type object = map[string]any
	var queues, bindings []object
	for i := range m.n {
		queues = append(queues, object{
			"name": queue(i), "vhost": "/", "durable": true, "auto_delete": false,
			"arguments": object{"x-queue-type": "quorum", "x-dead-letter-exchange": "amq.fanout"},
		})
		bindings = append(bindings, object{
			"source": "amq.topic", "vhost": "/", "destination": queue(i), "destination_type": "queue",
			"routing_key": queue(i) + ".#", "arguments": object{},
		})
	}
	doc, err := json.Marshal(object{"queues": queues, "bindings": bindings})
	if err != nil {
		m.Fatal(err)
	}
	return doc
}

// importAll repeats an import that lacks something, as an operator would: what has no time in a
// busy process fails.
func (m *many) importAll(doc []byte) {
	m.Helper()
	for range 10 {
		s, err := m.client.ImportDefinitions(m.Context(), client.ImportDefinitionsRequest{Document: doc})
		if err == nil && s.Failed+s.Different+s.Refused == 0 {
			return
		}
		m.Log(s, err)
	}
	m.Fatal("ten imports were not enough")
}

func (m *many) definitions() {
	m.measure("import", func() { m.importAll(m.document()) })
	m.measure("leaders", func() { m.await("", 1) })
	m.measure("import-again", func() { m.importAll(m.document()) })
	m.measure("export", func() {
		doc, err := m.client.ExportDefinitions(m.Context(), "")
		if err != nil {
			m.Fatal(err)
		}
		m.ReportMetric(float64(len(doc))/(1<<20), "export-MiB")
	})
}

// policies puts one that matches no queue, then one for one in 100, then one for all, which
// has the highest priority. Then that goes.
func (m *many) policies() {
	m.measure("look", func() { m.await("", 1) }) // what looking takes, which is part of the others
	for i, x := range []struct {
		name, pattern string
		every         int
	}{{"none", "^bills", 0}, {"one-in-100", "00$", 100}, {"all", "^orders", 1}} {
		m.measure("policy-"+x.name, func() {
			p := client.Policy{Name: x.name, Pattern: x.pattern, Priority: int64(i), Definition: client.Table{"max-length": int64(1000 + i)}}
			m.again(func() error { _, err := m.client.PutPolicy(m.Context(), p); return err })
			if x.every > 0 {
				m.await(x.name, x.every)
			}
		})
	}
	m.measure("policy-ends", func() {
		m.again(func() error { _, err := m.client.DeletePolicy(m.Context(), client.PolicyRef{Name: "all"}); return err })
		m.await("one-in-100", 100)
		m.await("", 3)
	})
}

// again repeats a call while nobody has time for it.
func (m *many) again(f func() error) {
	m.Helper()
	err := f()
	for range 10 {
		if client.ClassOf(err) != client.Unavailable {
			break
		}
		err = f()
	}
	if err != nil {
		m.Fatal(err)
	}
}

// await waits until the policy, "" for none, and all that it gives are in force in every
// queue whose number is divisible by every, as its leader says. Those of the policy for one in 100
// are left out when none is awaited for a part of the queues.
func (m *many) await(policy string, every int) {
	m.Helper()
	deadline := time.Now().Add(10 * time.Minute)
	var all sync.WaitGroup
	next := make(chan int)
	for range 32 { // a figure is asked of the queue's leader, which asks its followers first
		all.Go(func() {
			for i := range next {
				for err := m.settled(queue(i), policy); err != nil; err = m.settled(queue(i), policy) {
					if time.Now().After(deadline) {
						m.Error(err)
						break
					}
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for i := 0; i < m.n; i += every {
		if policy != "" || every == 1 || i%100 != 0 {
			next <- i
		}
	}
	close(next)
	all.Wait()
}

func (m *many) settled(name, policy string) error {
	q, ok := m.c.Cluster(0).View().Queue("/", name)
	if !ok {
		return fmt.Errorf("no queue %s", name)
	}
	node := 0
	for i := range 3 {
		if m.c.Cluster(i).Leads(q.UID) {
			node = i
		}
	}
	got, err := m.c.Broker(node).Queues.Get(identity.WithIdentity(m.Context(), identity.Itself()), "/", name)
	if err == nil && (got.Policy != policy || got.Stats == nil || got.SettingsPending) {
		err = fmt.Errorf("%s: policy %q, want %q, figures: %v, pending: %v, online: %v", name, got.Policy, policy, got.Stats != nil, got.SettingsPending, got.Online)
	}
	return err
}

// asleep waits until hardly a queue is open: members have goroutines, and closed ones none.
func (m *many) asleep() {
	m.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for runtime.NumGoroutine() > m.idle+m.n/10+100 {
		if time.Now().After(deadline) {
			m.Fatalf("%d goroutines, %d before there were queues", runtime.NumGoroutine(), m.idle)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
