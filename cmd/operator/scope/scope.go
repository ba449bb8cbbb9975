// Package scope decides what objects of a namespace may describe in a cluster: spec.topology.allowedNamespaces of the
// QuorateCluster says it. The controllers refuse what is out of scope, and the webhook does so when it is written; both
// ask this package.
//
// The package only computes; all functions may be called concurrently.
package scope

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// everyNamespace is the entry for namespaces without one of their own.
const everyNamespace = "*"

// The reasons of refusals, for conditions.
const (
	NamespaceNotAllowed = "NamespaceNotAllowed" // the cluster has no entry for the namespace
	VHostNotAllowed     = "VHostNotAllowed"
	UserNotAllowed      = "UserNotAllowed"
	TagNotAllowed       = "TagNotAllowed"
	AdministratorOnly   = "AdministratorOnly" // in the broker, too, only an administrator does that
)

// Demand is what an object needs to be allowed.
type Demand struct {
	// VHost that the object is in; "": in none.
	VHost string
	// User whose password, tags and limits it sets; "": nobody's.
	User string
	// Tags that it gives the user.
	Tags []string
	// OperatorPolicy: it is an operator policy, which overrides what the policies of the vhost say.
	OperatorPolicy bool
	// Rebalance: it moves queues of the whole cluster.
	Rebalance bool
}

// Refusal is one part of a demand that is out of scope.
type Refusal struct {
	// Reason is one of this package's, in CamelCase.
	Reason string
	// Field of the object that demands it.
	Field *field.Path
	// Message is what is not allowed, and the remedy.
	Message string
}

// Check returns what of a demand by an object of a namespace is out of scope; nil: it is allowed. Objects of the cluster's
// own namespace may demand everything, unless the cluster has an entry for that.
func Check(c *v1alpha1.QuorateCluster, namespace string, d Demand) []Refusal {
	entry := entryOf(c, namespace)
	if entry == nil && namespace == c.Namespace {
		return nil
	}
	x := &check{cluster: c, namespace: namespace, entry: entry}
	if entry == nil {
		x.refuse(NamespaceNotAllowed, field.NewPath("spec", "cluster"), "does not allow objects of namespace %q: name it", namespace)
		return x.refusals
	}
	if d.VHost != "" && !names(entry.VHosts, d.VHost) {
		x.refuse(VHostNotAllowed, field.NewPath("spec", "vhost"), "does not allow objects of namespace %q to be in vhost %q: add it to vhosts", namespace, d.VHost)
	}
	if d.User != "" && !names(entry.Users, d.User) {
		x.refuse(UserNotAllowed, field.NewPath("spec", "name"), "does not allow objects of namespace %q to be user %q: add it to users", namespace, d.User)
	}
	for _, tag := range d.Tags {
		if !slices.Contains(entry.Tags, tag) {
			x.refuse(TagNotAllowed, field.NewPath("spec", "tags"), "does not allow objects of namespace %q to give tag %q: take it away, or add it to tags", namespace, tag)
		}
	}
	x.administration(d)
	return x.refusals
}

// check is one Check under way.
type check struct {
	cluster   *v1alpha1.QuorateCluster
	namespace string
	entry     *v1alpha1.NamespaceScope
	refusals  []Refusal
}

// administration refuses what only administrators of a broker do, where a namespace could not make an administrator either.
func (x *check) administration(d Demand) {
	if slices.Contains(x.entry.Tags, catalog.TagAdministrator) {
		return
	}
	if d.OperatorPolicy {
		x.refuse(AdministratorOnly, field.NewPath("spec", "operator"), "does not allow objects of namespace %q to be operator policies, which are for administrators: "+
			"add %q to tags", x.namespace, catalog.TagAdministrator)
	}
	if d.Rebalance {
		elsewhere := ""
		if x.namespace != x.cluster.Namespace {
			elsewhere = fmt.Sprintf("make the QuorateRebalance in namespace %q, or ", x.cluster.Namespace)
		}
		x.refuse(AdministratorOnly, field.NewPath("spec", "cluster"), "does not allow objects of namespace %q to rebalance queues, which is for administrators: "+
			"%sadd %q to tags", x.namespace, elsewhere, catalog.TagAdministrator)
	}
}

// refuse adds a refusal; the message ends where the remedy is to be done.
func (x *check) refuse(reason string, at *field.Path, format string, args ...any) {
	x.refusals = append(x.refusals, Refusal{reason, at, fmt.Sprintf("the QuorateCluster \"%s/%s\" ", x.cluster.Namespace, x.cluster.Name) +
		fmt.Sprintf(format, args...) + " in its spec.topology.allowedNamespaces"})
}

// entryOf returns the entry for a namespace, or nil. The entry for all does not apply to the cluster's own namespace.
func entryOf(c *v1alpha1.QuorateCluster, namespace string) *v1alpha1.NamespaceScope {
	var all *v1alpha1.NamespaceScope
	for i := range c.Spec.Topology.AllowedNamespaces {
		switch e := &c.Spec.Topology.AllowedNamespaces[i]; e.Namespace {
		case namespace:
			return e
		case everyNamespace:
			all = e
		}
	}
	if namespace == c.Namespace {
		return nil
	}
	return all
}

// names reports whether a list has a name, or a beginning of it that ends with *.
func names(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool {
		beginning, open := strings.CutSuffix(s, "*")
		return s == name || open && strings.HasPrefix(name, beginning)
	})
}

// Text joins the messages of refusals for a condition.
func Text(all []Refusal) string {
	var out []string
	for _, r := range all {
		out = append(out, r.Message)
	}
	return strings.Join(out, "; ")
}

// Faults are refusals as errors of fields.
func Faults(all []Refusal) field.ErrorList {
	var out field.ErrorList
	for _, r := range all {
		out = append(out, field.Forbidden(r.Field, r.Message))
	}
	return out
}
