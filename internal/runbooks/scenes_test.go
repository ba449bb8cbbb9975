package runbooks

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/transcript"
)

// scene is the situation of a page.
type scene struct {
	settings  string // lines of node.yaml
	arguments string // of queue orders
	// before, if set, runs before the nodes' files are written into dir.
	before func(t *testing.T, dir string)
	// prepare makes the situation, of a cluster of three nodes that has messages in queue orders.
	prepare func(*world)
	// after looks whether it is mended.
	after func(*world)
}

// scenes returns the scene of each page by its name.
func scenes() map[string]scene {
	complete := func(w *world) { w.holds("orders", client.Config{}) }
	return map[string]scene{
		"lost-disk":            {prepare: loseDisk, after: complete},
		"lost-majority":        {prepare: loseMajority, after: complete},
		"full-disk":            {before: smallDisk, settings: smallDiskSettings, prepare: fillDisk, after: complete},
		"locked-out":           {prepare: lockOut, after: func(w *world) { w.holds("orders", client.Config{Username: "ops", Password: "a new password"}) }},
		"stuck-queue":          {prepare: holdMessages, after: complete},
		"waiting-dead-letters": {arguments: deadLettered, prepare: discard, after: func(w *world) { w.holds("failed", client.Config{}) }},
		"maintenance":          {prepare: func(*world) {}, after: complete},
		"remove-node":          {prepare: func(*world) {}, after: func(w *world) { complete(w); w.misses(0) }},
	}
}

// loseDisk gives node n3 an empty disk. It has members of so many queues that they are not all rebuilt by the time at
// which the page looks.
func loseDisk(w *world) {
	cl := w.dial(client.Config{})
	for i := range 30 {
		_, err := cl.DeclareQueue(w.ctx, client.Queue{Name: fmt.Sprint("other-", i)})
		w.must(err)
	}
	n := w.cluster.Node("n3")
	w.must(n.Kill())
	w.must(os.RemoveAll(n.DataDir()))
	w.must(n.Start())
}

// loseMajority ends n2 and n3 for good. The last one that leads has all that was confirmed.
func loseMajority(w *world) {
	w.sh("quoratectl queue transfer orders --to n1")
	for _, id := range []string{"n2", "n3"} {
		n := w.cluster.Node(id)
		w.must(n.Kill())
		w.must(os.RemoveAll(n.DataDir()))
	}
	w.env = append(w.env, "QUORATE_ADDRESSES="+w.cluster.Node("n1").Client)
}

// lockOut leaves a cluster whose only administrator has a password that nobody knows.
func lockOut(w *world) {
	w.sh("quoratectl user put ops --tag administrator --new-password 'nobody knows'")
	w.sh("quoratectl permission set ops '.*' '.*' '.*'")
	w.sh("QUORATE_USER=ops QUORATE_PASSWORD='nobody knows' quoratectl user delete guest")
}

// holdMessages lets a client take all messages and settle none. It does not come back when its
// connection is closed.
func holdMessages(w *world) {
	named := amqp.Table{"connection_name": "worker-7"}
	conn, err := amqp.DialConfig("amqp://guest:guest@"+w.cluster.Nodes[0].AMQP, amqp.Config{Properties: named})
	w.must(err)
	w.Cleanup(func() { _ = conn.Close() }) // the page has closed it
	ch, err := conn.Channel()
	w.must(err)
	deliveries, err := ch.ConsumeWithContext(w.ctx, "orders", "", false, false, false, false, nil)
	w.must(err)
	for range kept {
		<-deliveries
	}
}

const deadLettered = "-x x-dead-letter-exchange=orders.dead -x x-dead-letter-strategy=at-least-once -x x-overflow=reject-publish"

// discard dead-letters all messages to an exchange without bindings.
func discard(w *world) {
	w.sh("quoratectl exchange declare orders.dead topic")
	s, err := w.dial(client.Config{}).Consume(w.ctx, client.ConsumeConfig{Queue: "orders"})
	w.must(err)
	defer s.Close()
	for range kept {
		d, err := s.Receive(w.ctx)
		w.must(err)
		w.must(d.Discard())
	}
	w.must(s.Flush(w.ctx))
}

// The disk of n2 that fills up, and the settings of nodes with such a disk.
const (
	diskBytes         = 256 << 20
	smallDiskSettings = "storage:\n  disk_low: 67108864\n  disk_floor: 16777216\n"
	freeBytes         = 40 << 20 // that others leave
)

// fillDisk puts a file that is not the node's onto the disk of n2.
func fillDisk(w *world) {
	w.sh("quoratectl queue declare scratch")
	n := w.cluster.Node("n2")
	free, err := freeOn(n.Dir)
	w.must(err)
	w.must(os.WriteFile(n.DataDir()+"-other-files", bytes.Repeat([]byte{1}, int(free)-freeBytes), 0o600))
}

// smallDisk gives n2 a disk of its own.
func smallDisk(t *testing.T, dir string) {
	at := filepath.Join(dir, "n2")
	if err := os.MkdirAll(at, 0o750); err != nil {
		t.Fatal(err)
	}
	mount(t, at)
}

// misses waits until no node that runs misses more than so many others: alerts go by that.
func (w *world) misses(want int) {
	w.Helper()
	for _, node := range []string{"n1", "n2"} {
		w.do(transcript.Command{Where: node, Line: "curl -s http://localhost:7073/metrics", Want: []string{fmt.Sprintf("quorate_links_down %d", want)}})
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}
