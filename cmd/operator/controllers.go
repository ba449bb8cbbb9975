package main

import (
	"os"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/cmd/operator/chart"
	"github.com/quorate/quorate/cmd/operator/cluster"
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

// addControllers adds the controllers of all kinds.
func addControllers(m manager.Manager, pool *broker.Pool) error {
	c, err := chart.Load()
	if err != nil {
		return err
	}
	clusters := &cluster.Reconciler{
		Client: m.GetClient(), Pool: pool, Chart: c, Events: m.GetEventRecorder("quorate-operator"), Namespace: os.Getenv(namespaceVariable),
	}
	return clusters.SetupWithManager(m)
}
