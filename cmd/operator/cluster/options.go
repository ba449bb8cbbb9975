package cluster

import "sigs.k8s.io/controller-runtime/pkg/controller"

// options of the controller.
func options() controller.Options { return controller.Options{MaxConcurrentReconciles: parallel} }

// String names an action in CamelCase, as reasons of events are written.
func (a Action) String() string {
	names := [...]string{
		"Nothing", "Wait", "Ask", "CreateSet", "ChangeSet", "OrphanSet", "SetReplicas", "TakePod", "GrowClaim", "GiveUpClaim", "UnmarkClaim", "DeleteClaim",
		"MarkLeaving", "RemoveNode", "CancelRemoval", "Undrain", "ForgetNode", "ReplaceNode",
	}
	if a < 0 || int(a) >= len(names) {
		return "Unknown"
	}
	return names[a]
}
