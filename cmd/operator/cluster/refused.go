package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

const (
	// applyTimeout bounds how long the API server may take to take an object: it waits for webhooks of others, and a pass
	// must have time left for the nodes.
	applyTimeout = 5 * time.Second
	// reasonObjectRefused is the reason of ConditionObjectsBlocked for what Kubernetes refuses.
	reasonObjectRefused = "ObjectRefused"
)

// Kinds of what a cluster is made of, as far as something depends on them.
const (
	kindSpecification = "QuorateCluster"
	kindSettings      = "settings" // the ConfigMap with the nodes' file
	kindSet           = "StatefulSet"
	kindSecret        = "Secret"
	kindService       = "Service"
	kindAccount       = "ServiceAccount"
	kindPolicy        = "NetworkPolicy"
	kindCertificate   = "Certificate"
	kindCronJob       = "CronJob"
)

// refusal is something that a cluster should have and that could not be made or changed. What is there serves on as it is.
type refusal struct {
	kind    string
	reason  string // of the condition
	message string
	// lacking: it does not exist, or is not the cluster's.
	lacking bool
}

// note notes that something of a kind could not be made; it does nothing without an error.
func (t *pass) note(kind string, lacking bool, err error) {
	if err == nil {
		return
	}
	r := refusal{kind, reasonObjectRefused, strings.TrimPrefix(err.Error(), "cluster: "), lacking}
	if o, is := errors.AsType[*obstacle](err); is {
		r.reason = o.reason
	}
	t.refusals = append(t.refusals, r)
}

// ensure applies an object. That it is refused is noted, and is no ground to leave the cluster alone.
func (t *pass) ensure(ctx context.Context, kind string, o kube.Object) {
	u, err := t.untyped(o)
	if err != nil {
		t.note(kind, true, err)
		return
	}
	there, err := t.own(ctx, u)
	switch {
	case err != nil:
	case slices.Contains(t.slow, kind):
		err = fmt.Errorf("cluster: %s %q is not tried: the one before it was not taken within %v", u.GetKind(), u.GetName(), applyTimeout)
	default:
		short, cancel := context.WithTimeout(ctx, applyTimeout)
		defer cancel()
		if err = t.send(short, u); short.Err() != nil {
			t.slow = append(t.slow, kind)
		}
	}
	t.note(kind, !there, err)
}

// lacks returns what is missing and a new pod could not start without; "": nothing. A new cluster is not opened to
// everybody because its NetworkPolicy is refused, and waits for its certificates too.
func (t *pass) lacks() string {
	fresh := t.fresh()
	for _, r := range t.refusals {
		vital := r.kind == kindSettings || r.kind == kindSecret || r.kind == kindService || r.kind == kindAccount
		if r.lacking && (vital || fresh && (r.kind == kindPolicy || r.kind == kindCertificate)) {
			return r.message
		}
	}
	return ""
}

// fresh reports whether there is nothing of the cluster yet.
func (t *pass) fresh() bool { return t.set == nil && len(t.seen.Pods) == 0 && len(t.seen.Claims) == 0 }

// refused is what the conditions say of all that was refused.
func (t *pass) refused() []Block {
	if len(t.refusals) == 0 {
		return nil
	}
	var all []string
	for _, r := range t.refusals {
		all = append(all, r.message)
	}
	return []Block{{v1alpha1.ConditionObjectsBlocked, t.refusals[0].reason, someOf(all)}}
}
