package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
)

// EX-16: a node serves when its view was confirmed; left alone it continues, but does not answer that something does
// not exist; refused or without its catalog group it serves nobody.
func TestServes(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) { c.CatalogStaleness = 500 * time.Millisecond })
	n.start("a", "b", "c")
	poll(t, "views stay fresh without any change", func() error {
		for name, x := range n.nodes {
			if age, known := x.catalog.ViewAge(); !x.catalog.Serves() || !known || age > time.Minute || x.catalog.Hindrance() != nil {
				return errors.New(string(name) + " is not")
			}
		}
		return nil
	})
	poll(t, "at rest nothing is written for it", func() error {
		last := n.nodes["a"].catalog.Raft().Stats().LastIndex
		for _, x := range n.nodes {
			age, _ := x.catalog.ViewAge()
			poll(t, "another attempt", func() error {
				if now, _ := x.catalog.ViewAge(); now >= age {
					age = now
					return errors.New("not yet")
				}
				return nil
			})
		}
		if now := n.nodes["a"].catalog.Raft().Stats().LastIndex; now != last {
			return fmt.Errorf("the catalog's log went from %d to %d", last, now)
		}
		return nil
	})

	n.stop("b")
	n.stop("c")
	a := n.nodes["a"]
	poll(t, "a view goes stale", func() error {
		if a.catalog.Fresh() {
			return errors.New("it is fresh")
		}
		return nil
	})
	poll(t, "the reason", func() error {
		if err := a.catalog.AwaitFresh(t.Context()); err == nil || errors.Is(err, context.DeadlineExceeded) {
			return errors.New("is not told")
		}
		return nil
	})
	if !a.catalog.Serves() {
		t.Error("a node that was confirmed serves nobody because it is alone")
	}
	changed := a.catalog.ServesChanged()
	a.catalog.RefusedBy("b", "of another life")
	<-changed
	if why := a.catalog.Hindrance(); a.catalog.Serves() || why == nil || !strings.Contains(why.Error(), "of another life") {
		t.Errorf("a refused node serves: %v, %v", a.catalog.Serves(), why)
	}
}

// EX-16: a node that starts alone serves nobody, and begins when there is a majority.
func TestStartsAlone(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	for _, i := range []id.NodeID{"a", "b", "c"} {
		n.stop(i)
	}
	n.launch("a")
	a := n.nodes["a"]
	poll(t, "attempts fail", func() error {
		if err := a.catalog.AwaitFresh(t.Context()); err == nil || errors.Is(err, context.DeadlineExceeded) {
			return errors.New("none has")
		}
		return nil
	})
	if why := a.catalog.Hindrance(); a.catalog.Serves() || a.catalog.Fresh() || why == nil {
		t.Errorf("it serves: %v, is fresh: %v, %v", a.catalog.Serves(), a.catalog.Fresh(), why)
	}
	n.launch("b")
	poll(t, "it serves", a.catalog.Hindrance)
}
