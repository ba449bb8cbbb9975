package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// refreshInterval is the interval at which the client asks for the nodes' addresses.
const refreshInterval = 10 * time.Second

// Client is a connection to a cluster, over all its nodes.
type Client struct {
	cfg        Config
	nodes      *nodes
	connection connection
	ctx        context.Context // ends at Close
	stop       context.CancelFunc
	done       sync.WaitGroup
	loggedIn   atomic.Bool // some node has accepted the login

	mu         sync.Mutex
	publishers map[*Publisher]struct{} // running goroutines
}

// New makes a client without contacting the cluster; see Dial.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if cfg.TLS != nil {
		var err error
		if cfg.Credentials, err = cfg.TLS.credentials(); err != nil {
			return nil, err
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{cfg: cfg, ctx: ctx, stop: stop, publishers: map[*Publisher]struct{}{}}
	c.nodes = newNodes(cfg, credential{login: cfg.login(), connection: &c.connection})
	c.done.Go(c.watch)
	return c, nil
}

// Dial makes a client and waits until a node answers or ctx ends.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if _, err := c.ClusterStatus(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends all streams and connections at once; publishers and consumers end with ErrClosed. To
// have all messages answered, close the publishers first.
func (c *Client) Close() {
	c.stop()
	c.done.Wait()
	c.nodes.close()
}

// Addresses returns the nodes that the client may use, including those learned from the cluster.
func (c *Client) Addresses() []string { return c.nodes.addresses() }

// watch guards the nodes in use, and learns addresses.
func (c *Client) watch() {
	look := time.NewTicker(min(guardEvery, c.cfg.ProbeInterval))
	defer look.Stop()
	refresh := time.NewTicker(refreshInterval)
	defer refresh.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case now := <-look.C:
			c.guard(now)
		case <-refresh.C:
			c.learn()
		}
	}
}

// learn asks for the cluster's nodes. It does not report a failure, because the next round or the
// next call will meet it again.
func (c *Client) learn() {
	if c.cfg.FixedAddresses {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.ProbeTimeout)
	defer cancel()
	if _, err := c.ClusterStatus(ctx); err != nil {
		c.cfg.Logger.Debug("cannot learn addresses", "error", err)
	}
}

// call runs f on a node. While the broker is unavailable, or has no room and asks to wait, call
// tries again until ctx ends, on another node if necessary. f must be safe to repeat.
func (c *Client) call(ctx context.Context, f func(context.Context, *node) error) error {
	if _, bounded := ctx.Deadline(); !bounded && c.cfg.CallTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.CallTimeout)
		defer cancel()
	}
	var last error
	for retry := (backoff{}); ; {
		err := c.try(ctx, f)
		if err == nil {
			return nil
		}
		if c.ctx.Err() != nil {
			return ErrClosed
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if ctx.Err() != nil {
			return gaveUp(ctx, last)
		}
		least := askedToWait(err)
		if least == 0 && !passing(err) || endsWithin(ctx, least) {
			return fromGRPC(err)
		}
		if !retry.wait(ctx, least) {
			return gaveUp(ctx, last)
		}
	}
}

// once runs f on a node. It repeats f only if a node refused it for lack of room and asked to wait.
// If ctx has no deadline, it gives up after CallTimeout.
func (c *Client) once(ctx context.Context, f func(context.Context, *node) error) error {
	began := time.Now()
	for retry := (backoff{}); ; {
		err := c.try(ctx, f)
		least := askedToWait(err)
		_, bounded := ctx.Deadline()
		if least == 0 || endsWithin(ctx, least) || !bounded && c.cfg.CallTimeout > 0 && time.Since(began)+least > c.cfg.CallTimeout {
			return fromGRPC(err)
		}
		if !retry.wait(ctx, least) {
			return gaveUp(ctx, err)
		}
	}
}

// endsWithin reports whether the context ends before a wait does. If it does, the node's answer
// says more than the context's error.
func endsWithin(ctx context.Context, wait time.Duration) bool {
	at, bounded := ctx.Deadline()
	return bounded && wait > 0 && time.Until(at) <= wait
}

// again waits before the retry of a call that continues until ctx ends. It returns nil to retry,
// and otherwise why not: err is permanent, the client is closed, or ctx has ended.
func (c *Client) again(ctx context.Context, retry *backoff, err error) error {
	switch {
	case c.ctx.Err() != nil:
		return ErrClosed
	case ctx.Err() != nil:
		return gaveUp(ctx, err)
	}
	least := askedToWait(err)
	switch {
	case err != nil && least == 0 && !passing(err), endsWithin(ctx, least):
		return fromGRPC(err)
	case !retry.wait(ctx, least):
		return gaveUp(ctx, err)
	}
	return nil
}

// receive passes everything from a stream to each until the stream ends; nil if the server ended
// it.
func receive[T any](stream interface{ Recv() (T, error) }, each func(T) error) error {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := each(r); err != nil {
			return err
		}
	}
}

// try makes one attempt on one node, and decides from the outcome whether that node is lost, to be
// avoided, or to be probed again. The caller decides about another attempt.
func (c *Client) try(ctx context.Context, f func(context.Context, *node) error) error {
	return c.tryFirst(ctx, nil, f)
}

// tryFirst is try, on the first of some addresses where a node accepts work, if there is one.
func (c *Client) tryFirst(ctx context.Context, addresses []string, f func(context.Context, *node) error) error {
	n, err := c.nodes.pickFirst(ctx, time.Now(), addresses)
	if err != nil {
		return err
	}
	use, release, err := n.use(ctx)
	if err != nil {
		return err
	}
	defer release()
	err = f(use, n)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(use), errNodeLost) {
		return status.Errorf(codes.Unavailable, "node %s does not answer", n.address) // it counts as lost already
	}
	switch status.Code(err) {
	case codes.Unavailable:
	case codes.Unauthenticated:
		n.avoid(time.Now()) // another node may know the user
		return err
	default:
		if err == nil || fromBroker(err) {
			c.loggedIn.Store(true)
		}
		return err
	}
	switch {
	case !fromBroker(err):
		c.nodes.lost(n, err)
	case ClassOf(fromGRPC(err)) == ConnectionForced:
		if n.avoid(time.Now()) {
			c.cfg.Logger.Warn("an operator closed the connection to a node", "address", n.address, "error", fromGRPC(err))
		}
	default:
		n.doubt() // it may be draining: check before the next try
	}
	return err
}

// fromBroker reports whether the broker itself answered, as opposed to the connection.
func fromBroker(err error) bool { return len(status.Convert(err).Details()) > 0 }

// gaveUp adds to the context's error why the last try failed. errors.Is still finds the context's
// error.
func gaveUp(ctx context.Context, last error) error {
	if last == nil || errors.Is(last, ctx.Err()) {
		return ctx.Err()
	}
	return fmt.Errorf("%w; the last try failed: %w", ctx.Err(), fromGRPC(last))
}

// ClusterStatus returns the cluster as one node sees it, and learns the nodes' addresses.
func (c *Client) ClusterStatus(ctx context.Context) (ClusterStatus, error) {
	return c.clusterStatus(ctx, false)
}

// ClusterDetails is ClusterStatus with what every node reports about itself.
func (c *Client) ClusterDetails(ctx context.Context) (ClusterStatus, error) {
	return c.clusterStatus(ctx, true)
}

// clusterStatus also learns the addresses of the nodes that are alive, unless the addresses are
// fixed.
func (c *Client) clusterStatus(ctx context.Context, details bool) (ClusterStatus, error) {
	type request struct {
		Details bool `api:"details"`
	}
	out, err := ask[ClusterStatus](ctx, c, request{details}, admin, brokerv1.AdminClient.ClusterStatus)
	if err != nil {
		return out, err
	}
	if !c.cfg.FixedAddresses {
		learned := make([]string, 0, len(out.Nodes))
		for _, n := range out.Nodes {
			if n.Alive && validAddress(n.ClientAddress) == nil {
				learned = append(learned, n.ClientAddress)
			}
		}
		c.nodes.learned(learned)
	}
	return out, nil
}
