package topology

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/inventory"
	"github.com/quorate/quorate/cmd/operator/scope"
	"github.com/quorate/quorate/cmd/operator/table"
)

// removal is what happens to something in the broker when its object is deleted.
type removal uint8

const (
	// keep leaves it.
	keep removal = iota
	// ifUnused deletes it if the broker finds it empty and unused at the moment of the delete.
	ifUnused
	// always deletes it.
	always
)

// subject is an object's specification as read: what it names in the broker, and what it wants of it.
type subject interface {
	// identity names it within its cluster and kind, so that two objects for one thing are noticed.
	identity() string
	// words name it in sentences, such as: queue "orders" in vhost "/".
	words() string
	// Demand is what it needs to be allowed to an object of another namespace.
	Demand() scope.Demand
	// compare returns what the broker has otherwise, from a listing that the inventory has; found is false if it
	// has nothing of that name.
	compare(ctx context.Context, s *session) (found bool, differences []table.Difference, err error)
	// apply makes it, or changes what is there into what is wanted, where the broker can do that, and reports
	// whether it is new. A repeat does nothing more.
	apply(ctx context.Context, s *session) (created bool, err error)
	// remove deletes it; what is not there is no error. With ifUnused the broker itself refuses while it is in use.
	remove(ctx context.Context, s *session, how removal) error
}

// object is what all kinds of objects have.
type object interface {
	kube.Object
	InCluster() v1alpha1.ClusterReference
	Common() *v1alpha1.TopologyStatus
}

// kind is what the kinds of objects differ in, beside their subjects.
type kind struct {
	// name is that of its objects, such as QuorateQueue.
	name string
	// object and list return new ones.
	object func() object
	list   func() kube.ObjectList
	// read reads the specification and finds its faults. It needs the object's name and specification alone.
	read func(object) (subject, field.ErrorList)
	// removal is what the specification wants when the object is deleted.
	removal func(object) removal
	// remedy is what to do about differences, which are then only shown; "": the broker can change what exists, and
	// the operator corrects them.
	remedy string
}

// kindOf makes a kind of objects O with lists L out of functions that are handed objects of this kind alone.
func kindOf[O, L any, P interface {
	*O
	object
}, Q interface {
	*L
	kube.ObjectList
}](read func(P) (subject, field.ErrorList), removes func(P) removal, remedy string) kind {
	return kind{
		name:    strings.TrimPrefix(fmt.Sprintf("%T", new(O)), "*v1alpha1."),
		object:  func() object { return P(new(O)) },
		list:    func() kube.ObjectList { return Q(new(L)) },
		read:    func(o object) (subject, field.ErrorList) { return read(as[P](o)) },
		removal: func(o object) removal { return removes(as[P](o)) },
		remedy:  remedy,
	}
}

// kinds are all kinds by the names of their controllers.
func kinds() map[string]kind {
	return map[string]kind{
		"queue":      kindOf[v1alpha1.QuorateQueue, v1alpha1.QuorateQueueList](readQueue, removalOfQueue, remedyOfQueue),
		"exchange":   kindOf[v1alpha1.QuorateExchange, v1alpha1.QuorateExchangeList](readExchange, removalOfExchange, remedyOfExchange),
		"binding":    kindOf[v1alpha1.QuorateBinding, v1alpha1.QuorateBindingList](readBinding, removalOfBinding, ""),
		"policy":     kindOf[v1alpha1.QuoratePolicy, v1alpha1.QuoratePolicyList](readPolicy, removalOfPolicy, ""),
		"user":       kindOf[v1alpha1.QuorateUser, v1alpha1.QuorateUserList](readUser, removalOfUser, ""),
		"permission": kindOf[v1alpha1.QuoratePermission, v1alpha1.QuoratePermissionList](readPermission, removalOfPermission, ""),
	}
}

// mends reports whether the operator mends differences of a kind.
func (k kind) mends() bool { return k.remedy == "" }

// removalOf returns what a kind without protection does when its object is deleted.
func removalOf(d v1alpha1.ObjectDeletion) removal {
	if d == v1alpha1.ObjectDeletionRetain {
		return keep
	}
	return always
}

// session is what one reconciliation works with.
type session struct {
	// object is the one that is reconciled; kinds write what they have seen into its status.
	object object
	// inventory of the cluster, maxAge the age up to which its listings are good enough.
	inventory *inventory.Inventory
	maxAge    age
	// dial returns the client of the cluster, own the user as whom that logs in.
	dial func(context.Context) (*client.Client, error)
	own  func(context.Context) (string, error)
	// kube reads and writes objects of Kubernetes; secrets does not cache; versions has the metadata of Secrets, cached.
	kube     kube.Client
	secrets  kube.Reader
	versions kube.Reader
}

// call makes one call to the broker, within the limits of the cluster.
func (s *session) call(ctx context.Context, f func(context.Context, *client.Client) error) error {
	return s.inventory.Call(ctx, func(ctx context.Context) error {
		c, err := s.dial(ctx)
		if err != nil {
			return err
		}
		return f(ctx, c)
	})
}

// notOwn refuses to manage the user as whom the operator itself logs in, and its permissions: a change of its password, tags
// or rights, or a removal, would lock the operator out. words name what is refused.
func (s *session) notOwn(ctx context.Context, user, words string) error {
	own, err := s.own(ctx)
	if err == nil && own == user {
		return &refusal{fmt.Errorf("the operator itself logs in as user %q: the %s is left alone; choose another user", user, words)}
	}
	return err
}

// left passes a removal's error unless it is a refusal: what the operator may not touch stays.
func left(err error) error {
	if _, refused := errors.AsType[*refusal](err); refused {
		return nil
	}
	return err
}

// missing reports that the broker has no such thing, which is what a removal wants.
func missing(err error) bool { return client.ClassOf(err) == client.NotFound }

// gone passes a removal's error unless it says that there is nothing to remove.
func gone(err error) error {
	if missing(err) {
		return nil
	}
	return err
}

// as returns an object as what it is known to be: each kind gets only its own objects, and a copy has the type of the
// original.
func as[T any](o any) T {
	return o.(T) //nolint:errcheck // anything else is a fault of this package, which must be loud
}
