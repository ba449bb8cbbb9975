package client

import (
	"context"
	"iter"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// VHost describes a vhost (VH-1, VH-3).
type VHost struct {
	Name             string   `api:"name"`
	Description      string   `api:"description"`
	Tags             []string `api:"tags"`
	DefaultQueueType string   `api:"default_queue_type"`      // quorum (also if empty) or classic
	Protected        bool     `api:"protected_from_deletion"` // cannot be deleted
	MergePolicies    bool     `api:"merge_policies"`          // all policies that match count
	ImportDeaths     bool     `api:"import_deaths"`           // death headers of a published message count as its deaths (G-11)
	// DelayedPublish delays messages in their queues by the milliseconds in their header x-delay
	// (DLY-1).
	DelayedPublish bool `api:"delayed_publish"`
	// UnknownArguments is what the vhost does about declarations with unknown arguments (C-9).
	UnknownArguments UnknownArguments `api:"unknown_arguments"`
	Limits           VHostLimits      `api:"limits"`
	Queues           uint64           `api:"queues"` // number of its queues; only from VHosts
}

// UnknownArguments is what a vhost does about declarations with unknown arguments.
type UnknownArguments string

// The values of UnknownArguments.
const (
	UnknownWarn   UnknownArguments = "warn" // accept with a warning; also if empty
	UnknownRefuse UnknownArguments = "refuse"
)

// VHostLimits limit what a vhost holds, and what clients do in it; nil is no limit (VH-4, VH-14).
type VHostLimits struct {
	MaxConnections *int64 `api:"max_connections"`
	MaxQueues      *int64 `api:"max_queues"`
	MaxChannels    *int64 `api:"max_channels"`
	MaxConsumers   *int64 `api:"max_consumers"`
	MaxMessageRate *int64 `api:"max_message_rate"` // messages published per second
	MaxByteRate    *int64 `api:"max_byte_rate"`    // bytes of their bodies per second
	MaxStoredBytes *int64 `api:"max_stored_bytes"` // of the bodies that its queues hold
}

// UserLimits limit what a user opens, does and declares; nil is no limit (VH-4, VH-14, VH-17).
type UserLimits struct {
	MaxConnections *int64 `api:"max_connections"`
	MaxChannels    *int64 `api:"max_channels"`
	MaxConsumers   *int64 `api:"max_consumers"`
	MaxMessageRate *int64 `api:"max_message_rate"` // messages published per second
	MaxByteRate    *int64 `api:"max_byte_rate"`    // bytes of their bodies per second
	MaxQueues      *int64 `api:"max_queues"`       // number of queues that it has declared
	MaxStoredBytes *int64 `api:"max_stored_bytes"` // bytes of the bodies in these queues
}

// User describes a user. With neither Password nor Hash it cannot log in by password.
type User struct {
	Name     string `api:"name"`
	Password string `api:"password"` // the broker stores only a hash of it
	// Hash and Algorithm are stored unchanged: argon2id, rabbit_password_hashing_sha256 or
	// rabbit_password_hashing_sha512.
	Hash      string   `api:"password_hash"`
	Algorithm string   `api:"hashing_algorithm"`
	Tags      []string `api:"tags"` // such as administrator, policymaker, monitoring
}

// UserChange is a partial change of a user; everything else stays (VH-10).
type UserChange struct {
	Name   string
	Create bool     // create a missing user with these values; otherwise a missing user is NotFound
	Tags   []string // nil: the tags stay; empty: no tags
	// Password, or Hash and Algorithm, are as in User. With neither the password stays, unless
	// NoPassword removes it.
	Password, Hash, Algorithm string
	NoPassword                bool
}

// Permission grants a user rights in a vhost by Perl-style patterns (VH-6). VHost "" is "/". An
// empty pattern matches nothing.
type Permission struct {
	User      string `api:"user"`
	VHost     string `api:"vhost"`
	Configure string `api:"configure"`
	Write     string `api:"write"`
	Read      string `api:"read"`
}

// TopicPermission restricts the routing keys of a user at a topic exchange by patterns (VH-8).
type TopicPermission struct {
	User     string `api:"user"`
	VHost    string `api:"vhost"`
	Exchange string `api:"exchange"`
	Write    string `api:"write"`
	Read     string `api:"read"`
}

// PermissionRef names the permission of a user in a vhost, "" for "/".
type PermissionRef struct {
	VHost string `api:"vhost"`
	User  string `api:"user"`
}

// TopicPermissionRef names the topic permission of a user at an exchange, "" for all of the vhost.
type TopicPermissionRef struct {
	VHost    string `api:"vhost"`
	User     string `api:"user"`
	Exchange string `api:"exchange"`
}

// ListPermissionsRequest selects permissions; an empty field selects all.
type ListPermissionsRequest struct {
	VHost string `api:"vhost"`
	User  string `api:"user"`
}

// SetVHostLimitsRequest names a vhost and its limits.
type SetVHostLimitsRequest struct {
	Name   string      `api:"name"`
	Limits VHostLimits `api:"limits"`
}

// SetUserLimitsRequest names a user and its limits.
type SetUserLimitsRequest struct {
	Name   string     `api:"name"`
	Limits UserLimits `api:"limits"`
}

// PutVHost creates a vhost, or replaces the settings of an existing one, and reports whether it is
// new. Limits apply only to a new one.
func (c *Client) PutVHost(ctx context.Context, h VHost) (isNew bool, err error) {
	type request struct {
		VHost VHost `api:"vhost"`
	}
	if h.UnknownArguments == "" {
		h.UnknownArguments = UnknownWarn
	}
	out, err := ask[created](ctx, c, request{h}, access, brokerv1.AccessClient.PutVhost)
	return out.Yes, err
}

// DeleteVHost deletes a vhost with everything in it, and reports whether it existed.
func (c *Client) DeleteVHost(ctx context.Context, name string) (existed bool, err error) {
	out, err := ask[deleted](ctx, c, ofName{name}, access, brokerv1.AccessClient.DeleteVhost)
	return out.Yes, err
}

// VHosts lists all vhosts.
func (c *Client) VHosts(ctx context.Context) iter.Seq2[VHost, error] {
	type answer struct {
		VHosts []VHost `api:"vhosts"`
	}
	return pages(func(string) ([]VHost, string, error) {
		out, err := ask[answer](ctx, c, nothing{}, access, brokerv1.AccessClient.ListVhosts)
		return out.VHosts, "", err
	})
}

// SetVHostLimits replaces the limits of a vhost.
func (c *Client) SetVHostLimits(ctx context.Context, r SetVHostLimitsRequest) error {
	_, err := ask[nothing](ctx, c, r, access, brokerv1.AccessClient.SetVhostLimits)
	return err
}

// PutUser creates a user, or replaces everything but the limits of an existing one, and reports
// whether it is new.
func (c *Client) PutUser(ctx context.Context, u User) (isNew bool, err error) {
	out, err := ask[created](ctx, c, u, access, brokerv1.AccessClient.PutUser)
	return out.Yes, err
}

// ChangeUser changes a user in part, and reports whether it is new.
func (c *Client) ChangeUser(ctx context.Context, u UserChange) (isNew bool, err error) {
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

// DeleteUser deletes a user with its permissions, and reports whether it existed.
func (c *Client) DeleteUser(ctx context.Context, name string) (existed bool, err error) {
	out, err := ask[deleted](ctx, c, ofName{name}, access, brokerv1.AccessClient.DeleteUser)
	return out.Yes, err
}

// Users lists all users.
func (c *Client) Users(ctx context.Context) iter.Seq2[UserInfo, error] {
	type answer struct {
		Users []UserInfo `api:"users"`
	}
	return pages(func(string) ([]UserInfo, string, error) {
		out, err := ask[answer](ctx, c, nothing{}, access, brokerv1.AccessClient.ListUsers)
		return out.Users, "", err
	})
}

// SetUserLimits replaces the limits of a user.
func (c *Client) SetUserLimits(ctx context.Context, r SetUserLimitsRequest) error {
	_, err := ask[nothing](ctx, c, r, access, brokerv1.AccessClient.SetUserLimits)
	return err
}

// LimitsOfVHost lists the limits of a vhost, "" for "/", with the current use of each.
func (c *Client) LimitsOfVHost(ctx context.Context, name string) iter.Seq2[Limit, error] {
	if name == "" {
		name = "/"
	}
	return c.limits(ctx, limitsOf{VHost: name})
}

// LimitsOfUser lists the limits of a user with the current use of each.
func (c *Client) LimitsOfUser(ctx context.Context, name string) iter.Seq2[Limit, error] {
	return c.limits(ctx, limitsOf{User: name})
}

// limitsOf names a vhost or a user.
type limitsOf struct {
	VHost string `api:"vhost"`
	User  string `api:"user"`
}

// limits turns the one answer into a sequence, like all lists of the client.
func (c *Client) limits(ctx context.Context, of limitsOf) iter.Seq2[Limit, error] {
	type answer struct {
		Limits []Limit `api:"limits"`
	}
	return pages(func(string) ([]Limit, string, error) {
		out, err := ask[answer](ctx, c, of, access, brokerv1.AccessClient.ListLimits)
		return out.Limits, "", err
	})
}

// SetPermission sets what a user may do in a vhost, and reports whether it had no permission
// there.
func (c *Client) SetPermission(ctx context.Context, p Permission) (isNew bool, err error) {
	type request struct {
		Permission Permission `api:"permission"`
	}
	out, err := ask[created](ctx, c, request{p}, access, brokerv1.AccessClient.SetPermission)
	return out.Yes, err
}

// ClearPermission removes a user's permission in a vhost, and reports whether there was one.
func (c *Client) ClearPermission(ctx context.Context, r PermissionRef) (existed bool, err error) {
	out, err := ask[deleted](ctx, c, r, access, brokerv1.AccessClient.ClearPermission)
	return out.Yes, err
}

// Permissions lists permissions.
func (c *Client) Permissions(ctx context.Context, r ListPermissionsRequest) iter.Seq2[Permission, error] {
	type answer struct {
		Permissions []Permission `api:"permissions"`
	}
	return pages(func(string) ([]Permission, string, error) {
		out, err := ask[answer](ctx, c, r, access, brokerv1.AccessClient.ListPermissions)
		return out.Permissions, "", err
	})
}

// SetTopicPermission restricts the routing keys of a user at a topic exchange, and reports whether
// this is a new restriction.
func (c *Client) SetTopicPermission(ctx context.Context, p TopicPermission) (isNew bool, err error) {
	type request struct {
		Permission TopicPermission `api:"permission"`
	}
	out, err := ask[created](ctx, c, request{p}, access, brokerv1.AccessClient.SetTopicPermission)
	return out.Yes, err
}

// ClearTopicPermission removes the restrictions of a user at an exchange, or at all exchanges of
// the vhost, and reports whether there were any.
func (c *Client) ClearTopicPermission(ctx context.Context, r TopicPermissionRef) (existed bool, err error) {
	out, err := ask[deleted](ctx, c, r, access, brokerv1.AccessClient.ClearTopicPermission)
	return out.Yes, err
}

// TopicPermissions lists topic permissions.
func (c *Client) TopicPermissions(ctx context.Context, r ListPermissionsRequest) iter.Seq2[TopicPermission, error] {
	type answer struct {
		Permissions []TopicPermission `api:"permissions"`
	}
	return pages(func(string) ([]TopicPermission, string, error) {
		out, err := ask[answer](ctx, c, r, access, brokerv1.AccessClient.ListTopicPermissions)
		return out.Permissions, "", err
	})
}
