package client

import (
	"context"
	"iter"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Vhost describes a vhost (VH-1, VH-3).
type Vhost struct {
	Name             string
	Description      string
	Tags             []string
	DefaultQueueType string // quorum (also if empty) or classic
	Protected        bool   // cannot be deleted
	MergePolicies    bool   // all policies that match count
	ImportDeaths     bool   // death headers of a published message count as its deaths (G-11)
	DelayedPublish   bool   // the header x-delay of a message says for how many milliseconds it waits (DLY-1)
	RefuseUnknown    bool   // what would be made with an unknown argument is refused, and not only told (C-9)
	Limits           VhostLimits
}

// VhostLimits bound what a vhost holds, and what clients do in it; nil is no limit (VH-4, VH-14).
type VhostLimits struct {
	MaxConnections, MaxQueues *int64
	MaxChannels, MaxConsumers *int64
	MaxMessageRate            *int64 // messages published per second
	MaxByteRate               *int64 // bytes of their bodies per second
	MaxStoredBytes            *int64 // of the bodies that its queues hold
}

// UserLimits bound what a user opens and does; nil is no limit (VH-4, VH-14).
type UserLimits struct {
	MaxConnections, MaxChannels *int64
	MaxConsumers                *int64
	MaxMessageRate              *int64 // messages published per second
	MaxByteRate                 *int64 // bytes of their bodies per second
}

// User describes a user. With neither Password nor Hash it cannot log in by password.
type User struct {
	Name     string
	Password string // the broker keeps a hash of it
	// Hash and Algorithm are stored as they are: argon2id, rabbit_password_hashing_sha256
	// or rabbit_password_hashing_sha512.
	Hash, Algorithm string
	Tags            []string // such as administrator, policymaker, monitoring
}

// UserChange is what of a user changes; the rest stays (VH-10).
type UserChange struct {
	Name   string
	Create bool     // a missing user is made, with what is here; else it is NotFound
	Tags   []string // nil: they stay; empty: none
	// Password, or Hash and Algorithm, are as in User; with neither the password stays, unless
	// NoPassword takes it away.
	Password, Hash, Algorithm string
	NoPassword                bool
}

// Permission says by Perl-style patterns what a user may do in a vhost, "" for "/" (VH-6).
// An empty pattern matches nothing.
type Permission struct{ User, Vhost, Configure, Write, Read string }

// TopicPermission bounds by patterns the routing keys of a user at a topic exchange (VH-8).
type TopicPermission struct{ User, Vhost, Exchange, Write, Read string }

func (l VhostLimits) proto() *brokerv1.VhostLimits {
	return &brokerv1.VhostLimits{
		MaxConnections: l.MaxConnections, MaxQueues: l.MaxQueues,
		MaxChannels: l.MaxChannels, MaxConsumers: l.MaxConsumers,
		MaxMessageRate: l.MaxMessageRate, MaxByteRate: l.MaxByteRate,
		MaxStoredBytes: l.MaxStoredBytes,
	}
}

// PutVhost makes a vhost, or replaces the settings of the one that exists, and tells
// whether it is new. Limits count only for a new one.
func (c *Client) PutVhost(ctx context.Context, h Vhost) (created bool, err error) {
	unknown := brokerv1.UnknownArguments_UNKNOWN_ARGUMENTS_WARN
	if h.RefuseUnknown {
		unknown = brokerv1.UnknownArguments_UNKNOWN_ARGUMENTS_REFUSE
	}
	r := &brokerv1.PutVhostRequest{Vhost: &brokerv1.Vhost{
		Name: h.Name, Description: h.Description, Tags: h.Tags, DefaultQueueType: h.DefaultQueueType,
		ProtectedFromDeletion: h.Protected, MergePolicies: h.MergePolicies, DelayedPublish: h.DelayedPublish, ImportDeaths: h.ImportDeaths, Limits: h.Limits.proto(),
		UnknownArguments: unknown,
	}}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.PutVhostRequest) (*brokerv1.PutVhostResponse, error) {
		return n.access.PutVhost(ctx, r)
	})
	return out.GetCreated(), err
}

// DeleteVhost removes a vhost with all that is in it, and tells whether there was one.
func (c *Client) DeleteVhost(ctx context.Context, name string) (deleted bool, err error) {
	r := &brokerv1.DeleteVhostRequest{Name: name}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.DeleteVhostRequest) (*brokerv1.DeleteVhostResponse, error) {
		return n.access.DeleteVhost(ctx, r)
	})
	return out.GetDeleted(), err
}

// Vhosts lists all vhosts.
func (c *Client) Vhosts(ctx context.Context) iter.Seq2[*brokerv1.Vhost, error] {
	return pages(func(string) ([]*brokerv1.Vhost, string, error) {
		out, err := do(ctx, c, &brokerv1.ListVhostsRequest{}, func(ctx context.Context, n *node, r *brokerv1.ListVhostsRequest) (*brokerv1.ListVhostsResponse, error) {
			return n.access.ListVhosts(ctx, r)
		})
		return out.GetVhosts(), "", err
	})
}

// SetVhostLimits replaces the limits of a vhost.
func (c *Client) SetVhostLimits(ctx context.Context, name string, l VhostLimits) error {
	r := &brokerv1.SetVhostLimitsRequest{Name: name, Limits: l.proto()}
	_, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.SetVhostLimitsRequest) (*brokerv1.SetVhostLimitsResponse, error) {
		return n.access.SetVhostLimits(ctx, r)
	})
	return err
}

// PutUser makes a user, or replaces all but the limits of the one that exists, and tells
// whether it is new.
func (c *Client) PutUser(ctx context.Context, u User) (created bool, err error) {
	r := &brokerv1.PutUserRequest{
		Name: u.Name, Password: u.Password, PasswordHash: u.Hash, HashingAlgorithm: u.Algorithm, Tags: u.Tags,
	}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.PutUserRequest) (*brokerv1.PutUserResponse, error) {
		return n.access.PutUser(ctx, r)
	})
	return out.GetCreated(), err
}

// ChangeUser changes a user in part, and tells whether it is new.
func (c *Client) ChangeUser(ctx context.Context, u UserChange) (created bool, err error) {
	r := &brokerv1.ChangeUserRequest{Name: u.Name, Create: u.Create}
	if u.Tags != nil {
		r.Tags = &brokerv1.UserTags{Tags: u.Tags}
	}
	if u.NoPassword || u.Password != "" || u.Hash != "" {
		r.Password = &brokerv1.UserPassword{Password: u.Password, PasswordHash: u.Hash, HashingAlgorithm: u.Algorithm}
	}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ChangeUserRequest) (*brokerv1.ChangeUserResponse, error) {
		return n.access.ChangeUser(ctx, r)
	})
	return out.GetCreated(), err
}

// DeleteUser removes a user with its permissions, and tells whether there was one.
func (c *Client) DeleteUser(ctx context.Context, name string) (deleted bool, err error) {
	r := &brokerv1.DeleteUserRequest{Name: name}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.DeleteUserRequest) (*brokerv1.DeleteUserResponse, error) {
		return n.access.DeleteUser(ctx, r)
	})
	return out.GetDeleted(), err
}

// Users lists all users.
func (c *Client) Users(ctx context.Context) iter.Seq2[*brokerv1.User, error] {
	return pages(func(string) ([]*brokerv1.User, string, error) {
		out, err := do(ctx, c, &brokerv1.ListUsersRequest{}, func(ctx context.Context, n *node, r *brokerv1.ListUsersRequest) (*brokerv1.ListUsersResponse, error) {
			return n.access.ListUsers(ctx, r)
		})
		return out.GetUsers(), "", err
	})
}

// SetUserLimits replaces the limits of a user.
func (c *Client) SetUserLimits(ctx context.Context, name string, l UserLimits) error {
	r := &brokerv1.SetUserLimitsRequest{
		Name: name, Limits: &brokerv1.UserLimits{
			MaxConnections: l.MaxConnections, MaxChannels: l.MaxChannels,
			MaxConsumers: l.MaxConsumers, MaxMessageRate: l.MaxMessageRate,
			MaxByteRate: l.MaxByteRate,
		},
	}
	_, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.SetUserLimitsRequest) (*brokerv1.SetUserLimitsResponse, error) {
		return n.access.SetUserLimits(ctx, r)
	})
	return err
}

// LimitsOfVhost returns the limits of a vhost, "" for "/", with what is used of each.
func (c *Client) LimitsOfVhost(ctx context.Context, name string) ([]*brokerv1.Limit, error) {
	return c.limits(ctx, &brokerv1.ListLimitsRequest{Of: &brokerv1.ListLimitsRequest_Vhost{Vhost: name}})
}

// LimitsOfUser returns the limits of a user with what is used of each.
func (c *Client) LimitsOfUser(ctx context.Context, name string) ([]*brokerv1.Limit, error) {
	return c.limits(ctx, &brokerv1.ListLimitsRequest{Of: &brokerv1.ListLimitsRequest_User{User: name}})
}

func (c *Client) limits(ctx context.Context, r *brokerv1.ListLimitsRequest) ([]*brokerv1.Limit, error) {
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ListLimitsRequest) (*brokerv1.ListLimitsResponse, error) {
		return n.access.ListLimits(ctx, r)
	})
	return out.GetLimits(), err
}

// SetPermission sets what a user may do in a vhost, and tells whether it had no permission
// there.
func (c *Client) SetPermission(ctx context.Context, p Permission) (created bool, err error) {
	r := &brokerv1.SetPermissionRequest{Permission: &brokerv1.Permission{
		User: p.User, Vhost: p.Vhost, Configure: p.Configure, Write: p.Write, Read: p.Read,
	}}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.SetPermissionRequest) (*brokerv1.SetPermissionResponse, error) {
		return n.access.SetPermission(ctx, r)
	})
	return out.GetCreated(), err
}

// ClearPermission takes from a user all that it may do in a vhost, and tells whether it
// had a permission.
func (c *Client) ClearPermission(ctx context.Context, vhost, user string) (deleted bool, err error) {
	r := &brokerv1.ClearPermissionRequest{User: user, Vhost: vhost}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ClearPermissionRequest) (*brokerv1.ClearPermissionResponse, error) {
		return n.access.ClearPermission(ctx, r)
	})
	return out.GetDeleted(), err
}

// Permissions lists the permissions of a vhost, of all if it is empty, and of a
// user, of all if it is empty.
func (c *Client) Permissions(ctx context.Context, vhost, user string) iter.Seq2[*brokerv1.Permission, error] {
	return pages(func(string) ([]*brokerv1.Permission, string, error) {
		r := &brokerv1.ListPermissionsRequest{Vhost: vhost, User: user}
		out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ListPermissionsRequest) (*brokerv1.ListPermissionsResponse, error) {
			return n.access.ListPermissions(ctx, r)
		})
		return out.GetPermissions(), "", err
	})
}

// SetTopicPermission bounds the routing keys of a user at a topic exchange, and tells
// whether there was no bound.
func (c *Client) SetTopicPermission(ctx context.Context, p TopicPermission) (created bool, err error) {
	r := &brokerv1.SetTopicPermissionRequest{Permission: &brokerv1.TopicPermission{
		User: p.User, Vhost: p.Vhost, Exchange: p.Exchange, Write: p.Write, Read: p.Read,
	}}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.SetTopicPermissionRequest) (*brokerv1.SetTopicPermissionResponse, error) {
		return n.access.SetTopicPermission(ctx, r)
	})
	return out.GetCreated(), err
}

// ClearTopicPermission takes away the bounds of a user at an exchange, "" for all of the
// vhost, and tells whether there was one.
func (c *Client) ClearTopicPermission(ctx context.Context, vhost, user, exchange string) (deleted bool, err error) {
	r := &brokerv1.ClearTopicPermissionRequest{User: user, Vhost: vhost, Exchange: exchange}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ClearTopicPermissionRequest) (*brokerv1.ClearTopicPermissionResponse, error) {
		return n.access.ClearTopicPermission(ctx, r)
	})
	return out.GetDeleted(), err
}

// TopicPermissions lists the topic permissions of a vhost, of all if it is empty,
// and of a user, of all if it is empty.
func (c *Client) TopicPermissions(ctx context.Context, vhost, user string) iter.Seq2[*brokerv1.TopicPermission, error] {
	return pages(func(string) ([]*brokerv1.TopicPermission, string, error) {
		r := &brokerv1.ListTopicPermissionsRequest{Vhost: vhost, User: user}
		out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ListTopicPermissionsRequest) (*brokerv1.ListTopicPermissionsResponse, error) {
			return n.access.ListTopicPermissions(ctx, r)
		})
		return out.GetPermissions(), "", err
	})
}
