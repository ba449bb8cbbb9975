package testcluster

import (
	"context"
	"sync"
	"testing"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/access/oauth2"
	"github.com/quorate/quorate/broker"
)

// StartTokens is Start of nodes that also accept the issuer's tokens for the audience quorate. It allows
// no leeway, because issuer and nodes share one clock.
func StartTokens(t testing.TB, n int, issuer string) *Cluster {
	t.Helper()
	b := oauth2.New(oauth2.Config{Issuer: issuer, ResourceServer: "quorate", Leeway: -1})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	return StartWith(t, n, broker.Config{
		Backends: func(own access.Backend) []access.Backend { return []access.Backend{own, access.Guard(b, 0, 0)} },
	})
}
