// Package peer asks the other nodes: all at once and within a time, with those named that do not
// answer; about the jobs that run on them, what has happened there, and what their clients have
// open. It needs the catalog's view, which knows the nodes, and the connections to them. What others ask
// this node for is answered by the same types.
package peer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

const (
	// Timeout bounds a question to another node.
	Timeout = 2 * time.Second
	// awaitAtMost bounds how long a node keeps another one waiting for a change.
	awaitAtMost = 10 * time.Second
)

// ErrUnreachable means that another node was asked, and does not answer.
var ErrUnreachable = errors.New("cluster: node does not answer")

// unreachable returns the error of a question to one node, whose result is err; ctx is the caller's.
func unreachable(ctx context.Context, n id.NodeID, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w: node %q: %w", ErrUnreachable, n, err)
	}
	return nil
}

// Peers are the other nodes of the cluster. All methods may be called concurrently.
type Peers struct {
	Node id.NodeID // this one
	View func() *catalog.View
	// Client returns the calls of a node.
	Client func(id.NodeID) (nodev1.NodeClient, error)
	// Life ends when this node stops; what waits ends with it.
	Life context.Context
}

// Ask asks all other nodes of the catalog at once. What ask returns is run
// afterwards, one after another, as is silent for nodes that do not answer.
func (p *Peers) Ask(ctx context.Context, ask func(context.Context, id.NodeID, nodev1.NodeClient) (func() error, error), silent func(id.NodeID)) error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	for n := range p.View().Nodes() {
		if n.ID == p.Node {
			continue
		}
		wg.Go(func() {
			var take func() error
			node, err := p.Client(n.ID)
			if err == nil {
				take, err = ask(ctx, n.ID, node)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent(n.ID)
				return
			}
			errs = append(errs, take())
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Each asks all of the nodes at once, and returns those that say yes, in their order.
func Each(nodes []id.NodeID, ask func(id.NodeID) bool) []id.NodeID {
	yes := make([]bool, len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		asked.Go(func() { yes[i] = ask(n) })
	}
	asked.Wait()
	var those []id.NodeID
	for i, n := range nodes {
		if yes[i] {
			those = append(those, n)
		}
	}
	return those
}

// ofAll adds what other nodes have to this node's own, by node, and notes with each whose it is.
// The nodes that do not answer within Timeout are silent.
func ofAll[T any](
	ctx context.Context, p *Peers, own []T, ask func(context.Context, nodev1.NodeClient) ([]T, error), name func(*T, id.NodeID),
) (all []T, silent []id.NodeID, err error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	byNode := map[id.NodeID][]T{p.Node: own}
	err = p.Ask(ctx, func(ctx context.Context, n id.NodeID, node nodev1.NodeClient) (func() error, error) {
		theirs, err := ask(ctx, node)
		return func() error { byNode[n] = theirs; return nil }, err
	}, func(n id.NodeID) { silent = append(silent, n) })
	for _, n := range slices.Sorted(maps.Keys(byNode)) {
		for i := range byNode[n] {
			name(&byNode[n][i], n)
		}
		all = append(all, byNode[n]...)
	}
	slices.Sort(silent)
	return all, silent, err
}
