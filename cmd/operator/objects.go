package main

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/cmd/operator/metrics"
	"github.com/quorate/quorate/cmd/operator/rebalance"
	"github.com/quorate/quorate/cmd/operator/topology"
	objects "github.com/quorate/quorate/cmd/operator/webhook"
)

// webhookPort is where the API server asks the webhook.
const webhookPort = 9443

// addObjects adds the controllers of what is in clusters, and their webhook if there are certificates for it.
func addObjects(ctx context.Context, m manager.Manager, pool *broker.Pool, own *metrics.Metrics, s settings) error {
	if err := topology.Add(ctx, topology.Config{Manager: m, Brokers: pool, Metrics: own, Resync: s.resync}); err != nil {
		return err
	}
	if err := rebalance.Add(rebalance.Config{Manager: m, Brokers: pool, Metrics: own}); err != nil {
		return err
	}
	if s.webhook == "" {
		return nil
	}
	return objects.Add(m)
}

// webhookServer reads its certificate again when the files change.
func webhookServer(s settings) webhook.Server {
	return webhook.NewServer(webhook.Options{Port: webhookPort, CertDir: s.webhook})
}
