package main

import (
	"os"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	served "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/cmd/operator/chart"
	"github.com/quorate/quorate/cmd/operator/cluster"
	"github.com/quorate/quorate/cmd/operator/metrics"
)

// namespaceVariable has the namespace of the operator's pod.
const namespaceVariable = "POD_NAMESPACE"

// newManager makes a manager with its probes, and without controllers.
func newManager(config *rest.Config, s settings) (manager.Manager, error) {
	scheme, err := scheme()
	if err != nil {
		return nil, err
	}
	m, err := ctrl.NewManager(config, options(s, scheme))
	if err != nil {
		return nil, err
	}
	return m, addProbes(m)
}

// addMetrics puts the operator's own metrics beside those of controller-runtime.
func addMetrics(m manager.Manager) (*metrics.Metrics, error) {
	own := metrics.New(m.GetClient(), m.Elected())
	return own, served.Registry.Register(own)
}

// addControllers adds the controllers of all kinds.
func addControllers(m manager.Manager, pool *broker.Pool, own *metrics.Metrics) error {
	c, err := chart.Load()
	if err != nil {
		return err
	}
	clusters := &cluster.Reconciler{
		Client: m.GetClient(), Pool: pool, Chart: c, Metrics: own, Events: m.GetEventRecorder("quorate-operator"), Namespace: os.Getenv(namespaceVariable),
	}
	return clusters.SetupWithManager(m)
}
