package inventory

import (
	"context"
	"strconv"
	"time"
)

// String returns the restriction as texts, for differences.
func (t Topic) String() string {
	return "write " + strconv.Quote(t.Write) + ", read " + strconv.Quote(t.Read)
}

// Queue returns a queue from a listing that is not older than maxAge; a listing that is older is made again. The
// other kinds are alike.
func (i *Inventory) Queue(ctx context.Context, n Name, maxAge time.Duration) (Queue, bool, error) {
	return i.queues.get(ctx, n, maxAge)
}

// PutQueue records a queue that the operator has just made. The other kinds are alike.
func (i *Inventory) PutQueue(ctx context.Context, n Name, q Queue) { i.queues.put(ctx, n, q) }

// DropQueue records that a queue is deleted. The other kinds are alike.
func (i *Inventory) DropQueue(ctx context.Context, n Name) { i.queues.remove(ctx, n) }

// Exchange is Queue for exchanges.
func (i *Inventory) Exchange(ctx context.Context, n Name, maxAge time.Duration) (Exchange, bool, error) {
	return i.exchanges.get(ctx, n, maxAge)
}

// PutExchange is PutQueue for exchanges.
func (i *Inventory) PutExchange(ctx context.Context, n Name, x Exchange) { i.exchanges.put(ctx, n, x) }

// DropExchange is DropQueue for exchanges.
func (i *Inventory) DropExchange(ctx context.Context, n Name) { i.exchanges.remove(ctx, n) }

// HasBinding is Queue for bindings, which have nothing beside their names.
func (i *Inventory) HasBinding(ctx context.Context, b Binding, maxAge time.Duration) (bool, error) {
	_, ok, err := i.bindings.get(ctx, b, maxAge)
	return ok, err
}

// PutBinding is PutQueue for bindings.
func (i *Inventory) PutBinding(ctx context.Context, b Binding) { i.bindings.put(ctx, b, struct{}{}) }

// DropBinding is DropQueue for bindings.
func (i *Inventory) DropBinding(ctx context.Context, b Binding) { i.bindings.remove(ctx, b) }

// Policy is Queue for policies.
func (i *Inventory) Policy(ctx context.Context, n PolicyName, maxAge time.Duration) (Policy, bool, error) {
	return i.policies.get(ctx, n, maxAge)
}

// PutPolicy is PutQueue for policies.
func (i *Inventory) PutPolicy(ctx context.Context, n PolicyName, p Policy) { i.policies.put(ctx, n, p) }

// DropPolicy is DropQueue for policies.
func (i *Inventory) DropPolicy(ctx context.Context, n PolicyName) { i.policies.remove(ctx, n) }

// User is Queue for users.
func (i *Inventory) User(ctx context.Context, name string, maxAge time.Duration) (User, bool, error) {
	return i.users.get(ctx, name, maxAge)
}

// PutUser is PutQueue for users.
func (i *Inventory) PutUser(ctx context.Context, name string, u User) { i.users.put(ctx, name, u) }

// DropUser is DropQueue for users.
func (i *Inventory) DropUser(ctx context.Context, name string) { i.users.remove(ctx, name) }

// Rights is Queue for what users may do.
func (i *Inventory) Rights(ctx context.Context, n PermissionName, maxAge time.Duration) (Rights, bool, error) {
	return i.rights.get(ctx, n, maxAge)
}

// PutRights is PutQueue for what users may do.
func (i *Inventory) PutRights(ctx context.Context, n PermissionName, r Rights) {
	i.rights.put(ctx, n, r)
}

// DropRights is DropQueue for what users may do.
func (i *Inventory) DropRights(ctx context.Context, n PermissionName) { i.rights.remove(ctx, n) }
