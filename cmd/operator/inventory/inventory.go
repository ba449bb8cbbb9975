// Package inventory knows what a cluster has: it lists all objects of a kind in pages, at most once in a
// resync, so that comparing ten thousand objects costs a few calls instead of ten thousand. It also bounds
// what the operator asks of one cluster: the rate of calls, and the calls to a cluster that does not answer.
package inventory

import (
	"context"
	"iter"
	"time"

	"golang.org/x/time/rate"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/table"
	"github.com/quorate/quorate/message"
)

// Limits of what the operator asks of one cluster.
const (
	// CallsPerSecond bounds the calls to one cluster; CallsBurst may follow one another at once.
	CallsPerSecond = 200
	CallsBurst     = 50
	// CallTimeout bounds one call that changes or reads a single object.
	CallTimeout = 10 * time.Second
	// ListTimeout bounds the listing of all objects of a kind.
	ListTimeout = 60 * time.Second
)

// Name names an object in a vhost.
type Name struct{ VHost, Name string }

// Queue is a queue as the broker has it.
type Queue struct {
	Type                  string // "": that of the vhost, which only the next listing says
	Durable, AutoDelete   bool
	Exclusive             bool
	Arguments             message.Table
	Leader                string
	Members               []string
	Policy, OperatorState string
}

// Exchange is an exchange as the broker has it.
type Exchange struct {
	Type                          string
	Durable, AutoDelete, Internal bool
	Arguments                     message.Table
}

// Binding names a binding: all of it is its name. Arguments is the table.Key of its arguments.
type Binding struct {
	VHost, Source, Destination string
	ToExchange                 bool
	RoutingKey, Arguments      string
}

// PolicyName names a policy; those of operators have names of their own.
type PolicyName struct {
	VHost, Name string
	Operator    bool
}

// Policy is a policy as the broker has it.
type Policy struct {
	Pattern, ApplyTo string
	Priority         int64
	Definition       message.Table
}

// User is a user as the broker has it.
type User struct {
	Tags        []string
	HasPassword bool
	Limits      client.UserLimits
}

// Rights are what a user may do in a vhost. Granted reports whether there is a permission; Topics are by
// exchange.
type Rights struct {
	Granted                bool
	Configure, Write, Read string
	Topics                 map[string]Topic
}

// Topic restricts the routing keys at one exchange.
type Topic struct{ Write, Read string }

// PermissionName names what a user may do in a vhost.
type PermissionName struct{ VHost, User string }

// Inventory is what one cluster has. All methods may be called concurrently.
type Inventory struct {
	Breaker *Breaker
	calls   *rate.Limiter

	queues    *listing[Name, Queue]
	exchanges *listing[Name, Exchange]
	bindings  *listing[Binding, struct{}]
	policies  *listing[PolicyName, Policy]
	users     *listing[string, User]
	rights    *listing[PermissionName, Rights]
}

// New returns the inventory of the cluster that dial reaches; dial is called for each listing.
func New(dial func(context.Context) (*client.Client, error)) *Inventory {
	i := &Inventory{Breaker: NewBreaker(), calls: rate.NewLimiter(CallsPerSecond, CallsBurst)}
	i.queues = newListing(listed(i, dial, listQueues))
	i.exchanges = newListing(listed(i, dial, listExchanges))
	i.bindings = newListing(listed(i, dial, listBindings))
	i.policies = newListing(listed(i, dial, listPolicies))
	i.users = newListing(listed(i, dial, listUsers))
	i.rights = newListing(listed(i, dial, listRights))
	return i
}

// listed makes the load of a listing out of a function that lists with a client.
func listed[K comparable, V any](
	i *Inventory, dial func(context.Context) (*client.Client, error), list func(context.Context, *client.Client) (map[K]V, error),
) func(context.Context) (map[K]V, error) {
	return func(ctx context.Context) (map[K]V, error) {
		ctx, cancel := context.WithTimeout(ctx, ListTimeout)
		defer cancel()
		var items map[K]V
		err := i.Breaker.Do(func() error {
			c, err := dial(ctx)
			if err != nil {
				return err
			}
			items, err = list(ctx, c)
			return err
		})
		return items, err
	}
}

// Call makes one call that changes an object, when the rate and the breaker permit.
func (i *Inventory) Call(ctx context.Context, call func(context.Context) error) error {
	if err := i.Breaker.Ready(); err != nil {
		return err
	}
	if err := i.calls.Wait(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	return i.Breaker.Do(func() error { return call(ctx) })
}

// gather ranges over a listing of package client.
func gather[T any, K comparable, V any](all iter.Seq2[T, error], entry func(T) (K, V)) (map[K]V, error) {
	out := map[K]V{}
	for x, err := range all {
		if err != nil {
			return nil, err
		}
		k, v := entry(x)
		out[k] = v
	}
	return out, nil
}

func listQueues(ctx context.Context, c *client.Client) (map[Name]Queue, error) {
	return gather(c.Queues(ctx, client.ListQueuesRequest{}), func(q client.QueueInfo) (Name, Queue) {
		return Name{q.VHost, q.Name}, Queue{
			Type: q.Type, Durable: q.Durable, AutoDelete: q.AutoDelete, Exclusive: q.Exclusive,
			Arguments: table.FromClient(q.Arguments), Leader: q.Leader, Members: q.Members,
		}
	})
}

func listExchanges(ctx context.Context, c *client.Client) (map[Name]Exchange, error) {
	return gather(c.Exchanges(ctx, ""), func(x client.ExchangeInfo) (Name, Exchange) {
		return Name{x.VHost, x.Name}, Exchange{
			Type: x.Type, Durable: x.Durable, AutoDelete: x.AutoDelete, Internal: x.Internal, Arguments: table.FromClient(x.Arguments),
		}
	})
}

func listBindings(ctx context.Context, c *client.Client) (map[Binding]struct{}, error) {
	return gather(c.Bindings(ctx, ""), func(b client.Binding) (Binding, struct{}) {
		return Binding{
			VHost: b.VHost, Source: b.Source, Destination: b.Destination, ToExchange: b.ToExchange,
			RoutingKey: b.RoutingKey, Arguments: table.Key(table.FromClient(b.Arguments)),
		}, struct{}{}
	})
}

func listPolicies(ctx context.Context, c *client.Client) (map[PolicyName]Policy, error) {
	return gather(c.Policies(ctx, ""), func(p client.Policy) (PolicyName, Policy) {
		return PolicyName{p.VHost, p.Name, p.Operator}, Policy{p.Pattern, p.ApplyTo, p.Priority, table.FromClient(p.Definition)}
	})
}

func listUsers(ctx context.Context, c *client.Client) (map[string]User, error) {
	return gather(c.Users(ctx), func(u client.UserInfo) (string, User) {
		out := User{Tags: u.Tags, HasPassword: u.HashingAlgorithm != ""}
		if u.Limits != nil {
			out.Limits = *u.Limits
		}
		return u.Name, out
	})
}

// listRights joins permissions and topic permissions, which are one object of the operator.
func listRights(ctx context.Context, c *client.Client) (map[PermissionName]Rights, error) {
	out := map[PermissionName]Rights{}
	for p, err := range c.Permissions(ctx, client.ListPermissionsRequest{}) {
		if err != nil {
			return nil, err
		}
		out[PermissionName{p.VHost, p.User}] = Rights{Granted: true, Configure: p.Configure, Write: p.Write, Read: p.Read}
	}
	for p, err := range c.TopicPermissions(ctx, client.ListPermissionsRequest{}) {
		if err != nil {
			return nil, err
		}
		name := PermissionName{p.VHost, p.User}
		r := out[name]
		if r.Topics == nil {
			r.Topics = map[string]Topic{}
		}
		r.Topics[p.Exchange] = Topic{p.Write, p.Read}
		out[name] = r
	}
	return out, nil
}
