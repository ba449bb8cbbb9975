package topology

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/cmd/operator/inventory"
	"github.com/quorate/quorate/cmd/operator/metrics"
)

// The reasons of the condition Ready, beside those of package scope.
const (
	reasonInBroker    = "InBroker"               // the broker has what is wanted
	reasonDrifted     = "Drifted"                // it has something else, which the operator cannot change
	reasonConflict    = "OwnedByOlder"           // an older object names the same thing
	reasonInvalid     = "Invalid"                // the specification has faults
	reasonRefused     = "Refused"                // the broker, or the operator for it, refuses
	reasonNoCluster   = "ClusterNotFound"        // there is no such QuorateCluster
	reasonNotReady    = "ClusterNotReady"        // it has no node that serves
	reasonUnavailable = "ClusterUnavailable"     // it does not answer
	reasonFailed      = metrics.ReasonKubernetes // an object of Kubernetes could not be read or written
)

// The reasons of the condition DeletionBlocked.
const (
	reasonInUse = "InUse" // the broker refuses the delete while there are messages, consumers or bindings
)

// refusal is an error that only a person can do something about.
type refusal struct{ cause error }

func (r *refusal) Error() string { return r.cause.Error() }
func (r *refusal) Unwrap() error { return r.cause }

// verdict is what a reconciliation ends with.
type verdict struct {
	ready   bool
	reason  string
	message string
	// drifted has the differences that are left, as a text; "": none.
	drifted string
	// after is when to reconcile again; 0: when something changes.
	after time.Duration
}

// put writes a verdict into the conditions.
func (v verdict) put(s *v1alpha1.TopologyStatus, generation int64) {
	s.ObservedGeneration = generation
	ready := metav1.ConditionFalse
	if v.ready {
		ready = metav1.ConditionTrue
	}
	set(s, generation, v1alpha1.ConditionReady, ready, v.reason, v.message)
	if v.drifted != "" {
		set(s, generation, v1alpha1.ConditionDrifted, metav1.ConditionTrue, reasonDrifted, v.drifted)
		return
	}
	if v.ready {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionDrifted)
	}
}

// set sets one condition.
func set(s *v1alpha1.TopologyStatus, generation int64, kind string, is metav1.ConditionStatus, reason, message string) {
	const most = 32 << 10 // the API server refuses longer messages
	if len(message) > most {
		message = message[:most]
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: is, Reason: reason, Message: message, ObservedGeneration: generation,
	})
}

// Waits between reconciliations of an object that is not as it should be.
const (
	shortestWait = 2 * time.Second
	longestWait  = 5 * time.Minute
)

// patience returns how long to wait before reconciling again what has been wrong since a time: a quarter of its age.
// So what has just failed is tried soon, what fails for hours seldom, and nothing has to be remembered.
func patience(since, now time.Time) time.Duration {
	if since.IsZero() {
		return shortestWait
	}
	return min(max(now.Sub(since)/4, shortestWait), longestWait)
}

// troubled returns the verdict about an error of the cluster or of the broker.
func troubled(err error, s *v1alpha1.TopologyStatus, now time.Time) verdict {
	v := verdict{reason: reasonRefused, message: err.Error()}
	var silent *inventory.UnavailableError
	var notReady *broker.NotReadyError
	switch {
	case errors.As(err, &notReady):
		v.reason, v.message = notReady.Reason, notReady.Message
	case errors.As(err, &silent):
		v.reason = reasonUnavailable
	}
	since := time.Time{}
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady); c != nil && c.Reason == v.reason {
		since = c.LastTransitionTime.Time
	}
	if v.after = patience(since, now); silent != nil {
		v.after = silent.Wait
		// The wait is not part of the message: a status that changes with every look would be written with every look.
		v.message = fmt.Sprintf("the cluster does not answer: %v", silent.Cause)
	}
	return v
}
