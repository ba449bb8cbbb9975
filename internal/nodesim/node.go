package nodesim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/loopback"
	"github.com/quorate/quorate/wal/vfs"
)

// members is how many nodes there are.
const members = 3

const (
	// staleness is how old a view may be for a node to answer that something does not exist: short, so that a run
	// sees it exceeded.
	staleness = time.Second
	// patience is how long commands and confirms are waited for, and with it how long a fault may hold up a client.
	patience = 3 * time.Second
	diskLow  = 1 << 20
)

// node is a process that is started and killed, its disk, and its machine's clock.
type node struct {
	id            id.NodeID
	dir           string // of all but the log of queues
	peers, gossip string // host:port, kept over restarts
	join          []string
	cluster       string
	log           *slog.Logger

	disk  *vfs.Mem // of the log of queues
	door  door
	clock steppedClock
	live  atomic.Pointer[cluster.Cluster] // nil while the node is down
}

// steppedClock is a machine's clocks, of which the wall clock can be set.
type steppedClock struct {
	nodeclock.Source
	by atomic.Int64 // ns
}

// Read implements nodeclock.Source.
func (c *steppedClock) Read() clock.Reading {
	r := c.Source.Read()
	r.Wall += time.Duration(c.by.Load())
	return r
}

// newNodes finds addresses for all nodes, because each must know the others'.
func newNodes(c Config, log slog.Handler) (nodes [members]*node, err error) {
	var gossip []string
	for i := range nodes {
		n := &node{
			id: id.NodeID("n" + strconv.Itoa(i)), disk: vfs.NewMem(), cluster: fmt.Sprintf("nodesim %s %d", filepath.Base(c.Dir), c.Seed),
			clock: steppedClock{Source: nodeclock.Machine()},
		}
		n.dir, n.log = filepath.Join(c.Dir, string(n.id)), slog.New(log).With("node", string(n.id))
		var errs [2]error
		n.peers, errs[0] = loopback.Address()
		n.gossip, errs[1] = loopback.Address()
		if err := errors.Join(errs[:]...); err != nil {
			return nodes, err
		}
		gossip = append(gossip, n.gossip)
		nodes[i] = n
	}
	for _, n := range nodes {
		n.join = gossip
	}
	return nodes, nil
}

// start starts the process on what its disk holds.
func (n *node) start(ctx context.Context) error {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", n.peers)
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Name: n.cluster, Node: n.id, DataDir: n.dir, Peers: guarded{l, &n.door}, PeerAddr: n.peers, ClientAddr: "127.0.0.1:1",
		GossipAddr: n.gossip, Join: n.join, Expect: members, Logger: n.log, Clock: &n.clock,
		LogDir:         func(string) (vfs.Dir, error) { return n.disk, nil },
		ConfirmTimeout: patience, CommandTimeout: patience, CatalogStaleness: staleness, DiskLow: diskLow, DiskFloor: diskLow / 4,
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	n.live.Store(c)
	return nil
}

// cut ends what the log of queues can still write: nothing of it is acknowledged from here on. stop
// has to follow.
func (n *node) cut(loss vfs.Loss, random *rand.Rand) { n.disk = n.disk.Crash(loss, random) }

// stop ends the process. After a cut its errors are those of a log that has lost its disk.
func (n *node) stop() {
	c := n.live.Swap(nil)
	if c == nil {
		return
	}
	n.door.open() // what waits there cannot be ended otherwise
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // it waits for nobody
	if err := c.Close(ctx); err != nil {
		n.log.Debug("closed", "error", err)
	}
}

// wipe takes all away that a node which is down has stored.
func (n *node) wipe() error {
	n.disk = vfs.NewMem()
	return os.RemoveAll(n.dir)
}
