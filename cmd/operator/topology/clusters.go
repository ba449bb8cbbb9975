package topology

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/inventory"
)

// Brokers connects to clusters.
type Brokers interface {
	// Of returns a client of a cluster, which stays the Brokers' own and may be used for some seconds. An error that
	// only time or a person mends is a *broker.NotReadyError.
	Of(ctx context.Context, c *v1alpha1.QuorateCluster) (*client.Client, error)
}

// clientAge is how long a client is used before the Brokers are asked for it again, which costs calls to the API
// server.
const clientAge = 5 * time.Second

// clusters has what the controllers of all kinds share about each cluster.
type clusters struct {
	brokers Brokers

	mu   sync.Mutex // guards what follows
	each map[types.NamespacedName]*connected
}

// connected is one cluster: its inventory, and the client that was used last.
type connected struct {
	inventory *inventory.Inventory
	brokers   Brokers

	mu      sync.Mutex // guards what follows
	cluster *v1alpha1.QuorateCluster
	client  *client.Client
	got     time.Time
	self    string // the user as whom a client of the operator logs in
	selfOf  *client.Client
}

func newClusters(b Brokers) *clusters {
	return &clusters{brokers: b, each: map[types.NamespacedName]*connected{}}
}

// of returns what is shared about a cluster. One that was made again under its name starts over.
func (cs *clusters) of(c *v1alpha1.QuorateCluster) *connected {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	name := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	x := cs.each[name]
	if x == nil || x.uid() != c.UID {
		x = &connected{brokers: cs.brokers}
		x.inventory = inventory.New(x.dial)
		cs.each[name] = x
	}
	x.seen(c)
	return x
}

// forget drops a cluster that is gone.
func (cs *clusters) forget(name types.NamespacedName) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.each, name)
}

func (x *connected) uid() types.UID {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cluster.UID
}

func (x *connected) seen(c *v1alpha1.QuorateCluster) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cluster = c
}

// dial returns a client that is not older than clientAge.
func (x *connected) dial(ctx context.Context) (*client.Client, error) {
	x.mu.Lock()
	c, cluster, fresh := x.client, x.cluster, time.Since(x.got) < clientAge
	x.mu.Unlock()
	if c != nil && fresh {
		return c, nil
	}
	c, err := x.brokers.Of(ctx, cluster)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.client, x.got = c, time.Now()
	return c, nil
}

// own returns the user as whom the operator logs in. Each client is asked once: its credentials do not change.
func (x *connected) own(ctx context.Context) (string, error) {
	if err := x.inventory.Breaker.Ready(); err != nil {
		return "", err
	}
	c, err := x.dial(ctx)
	if err != nil {
		return "", err
	}
	x.mu.Lock()
	self, known := x.self, x.selfOf == c
	x.mu.Unlock()
	if known {
		return self, nil
	}
	err = x.inventory.Call(ctx, func(ctx context.Context) error {
		who, err := c.WhoAmI(ctx)
		self = who.User
		return err
	})
	if err != nil {
		return "", err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.self, x.selfOf = self, c
	return self, nil
}
