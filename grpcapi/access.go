package grpcapi

import (
	"context"
	"strconv"
	"time"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/limits"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// accessServer serves Access over the broker; it keeps no state.
type accessServer struct {
	brokerv1.UnimplementedAccessServer
	b *broker.Broker
}

// limit reads a limit; an absent one is no limit.
func limit(n *int64) int64 {
	if n == nil {
		return administration.Unlimited
	}
	return *n
}

// fromVhostLimits reads limits; an absent one is no limit.
func fromVhostLimits(l *brokerv1.VhostLimits) administration.VHostLimits {
	if l == nil {
		l = &brokerv1.VhostLimits{}
	}
	return administration.VHostLimits{
		MaxConnections: limit(l.MaxConnections), MaxQueues: limit(l.MaxQueues),
		MaxChannels: limit(l.MaxChannels), MaxConsumers: limit(l.MaxConsumers),
		MaxMessageRate: limit(l.MaxMessageRate), MaxByteRate: limit(l.MaxByteRate),
		MaxStoredBytes: limit(l.MaxStoredBytes),
	}
}

// fromUserLimits reads limits; an absent one is no limit.
func fromUserLimits(l *brokerv1.UserLimits) administration.UserLimits {
	if l == nil {
		l = &brokerv1.UserLimits{}
	}
	return administration.UserLimits{
		MaxConnections: limit(l.MaxConnections), MaxChannels: limit(l.MaxChannels),
		MaxConsumers: limit(l.MaxConsumers), MaxMessageRate: limit(l.MaxMessageRate),
		MaxByteRate: limit(l.MaxByteRate),
		MaxQueues:   limit(l.MaxQueues), MaxStoredBytes: limit(l.MaxStoredBytes),
	}
}

// toVhostLimits leaves limits that are not set out of the answer.
func toVhostLimits(l *administration.VHostLimits) *brokerv1.VhostLimits {
	return &brokerv1.VhostLimits{
		MaxConnections: toLimit(l.MaxConnections), MaxQueues: toLimit(l.MaxQueues),
		MaxChannels: toLimit(l.MaxChannels), MaxConsumers: toLimit(l.MaxConsumers),
		MaxMessageRate: toLimit(l.MaxMessageRate), MaxByteRate: toLimit(l.MaxByteRate),
		MaxStoredBytes: toLimit(l.MaxStoredBytes),
	}
}

// toUserLimits leaves limits that are not set out of the answer.
func toUserLimits(l *administration.UserLimits) *brokerv1.UserLimits {
	return &brokerv1.UserLimits{
		MaxConnections: toLimit(l.MaxConnections), MaxChannels: toLimit(l.MaxChannels),
		MaxConsumers: toLimit(l.MaxConsumers), MaxMessageRate: toLimit(l.MaxMessageRate),
		MaxByteRate: toLimit(l.MaxByteRate),
		MaxQueues:   toLimit(l.MaxQueues), MaxStoredBytes: toLimit(l.MaxStoredBytes),
	}
}

// toLimit leaves out a limit that is not set.
func toLimit(n int64) *int64 {
	if n == administration.Unlimited {
		return nil
	}
	return &n
}

// refusesUnknown reads what to do with unknown arguments (C-9).
func refusesUnknown(h *brokerv1.Vhost) (bool, error) {
	switch h.GetUnknownArguments() {
	case brokerv1.UnknownArguments_UNKNOWN_ARGUMENTS_UNSPECIFIED, brokerv1.UnknownArguments_UNKNOWN_ARGUMENTS_WARN:
		return false, nil
	case brokerv1.UnknownArguments_UNKNOWN_ARGUMENTS_REFUSE:
		return true, nil
	default:
		return false, &failure.Error{
			Class: failure.PreconditionFailed, Kind: "vhost", Name: h.GetName(), Arg: "unknown_arguments",
			Value: strconv.Itoa(int(h.GetUnknownArguments())), Reason: "want UNKNOWN_ARGUMENTS_WARN or UNKNOWN_ARGUMENTS_REFUSE",
		}
	}
}

// PutVhost makes or changes a vhost.
func (s *accessServer) PutVhost(ctx context.Context, req *brokerv1.PutVhostRequest) (*brokerv1.PutVhostResponse, error) {
	h := req.GetVhost()
	refuse, err := refusesUnknown(h)
	if err != nil {
		return nil, err
	}
	created, err := s.b.Administration.PutVHost(ctx, administration.VHost{
		Name: h.GetName(), Description: h.GetDescription(), Tags: h.GetTags(), Protected: h.GetProtectedFromDeletion(),
		MergePolicies: h.GetMergePolicies(), DelayedPublish: h.GetDelayedPublish(), ImportDeaths: h.GetImportDeaths(), VHostLimits: fromVhostLimits(h.GetLimits()),
		DefaultQueueType: administration.QueueType(h.GetDefaultQueueType()), RefuseUnknown: refuse,
	})
	if err != nil {
		return nil, err
	}
	return &brokerv1.PutVhostResponse{Created: created}, nil
}

// DeleteVhost removes a vhost with all that is in it.
func (s *accessServer) DeleteVhost(ctx context.Context, req *brokerv1.DeleteVhostRequest) (*brokerv1.DeleteVhostResponse, error) {
	deleted, err := s.b.Administration.DeleteVHost(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return &brokerv1.DeleteVhostResponse{Deleted: deleted}, nil
}

// ListVhosts lists vhosts by name.
func (s *accessServer) ListVhosts(ctx context.Context, _ *brokerv1.ListVhostsRequest) (*brokerv1.ListVhostsResponse, error) {
	list, err := s.b.Administration.ListVHosts(ctx)
	if err != nil {
		return nil, err
	}
	out := &brokerv1.ListVhostsResponse{Vhosts: make([]*brokerv1.Vhost, len(list))}
	for i := range list {
		h := &list[i]
		out.Vhosts[i] = &brokerv1.Vhost{
			Name: h.Name, Description: h.Description, Tags: h.Tags, DefaultQueueType: string(h.DefaultQueueType),
			ProtectedFromDeletion: h.Protected, MergePolicies: h.MergePolicies, DelayedPublish: h.DelayedPublish, ImportDeaths: h.ImportDeaths, Queues: uint64(h.Queues),
			Limits:           toVhostLimits(&h.VHostLimits),
			UnknownArguments: brokerv1.UnknownArguments_UNKNOWN_ARGUMENTS_WARN,
		}
		if h.RefuseUnknown {
			out.Vhosts[i].UnknownArguments = brokerv1.UnknownArguments_UNKNOWN_ARGUMENTS_REFUSE
		}
	}
	return out, nil
}

// SetVhostLimits replaces the limits of a vhost.
func (s *accessServer) SetVhostLimits(ctx context.Context, req *brokerv1.SetVhostLimitsRequest) (*brokerv1.SetVhostLimitsResponse, error) {
	if err := s.b.Administration.SetVHostLimits(ctx, req.GetName(), fromVhostLimits(req.GetLimits())); err != nil {
		return nil, err
	}
	return &brokerv1.SetVhostLimitsResponse{}, nil
}

// PutUser makes or changes a user.
func (s *accessServer) PutUser(ctx context.Context, req *brokerv1.PutUserRequest) (*brokerv1.PutUserResponse, error) {
	created, err := s.b.Administration.PutUser(ctx, administration.PutUser{
		Name: req.GetName(), Password: req.GetPassword(), Hash: req.GetPasswordHash(), Algorithm: req.GetHashingAlgorithm(),
		Tags: req.GetTags(),
	})
	if err != nil {
		return nil, err
	}
	return &brokerv1.PutUserResponse{Created: created}, nil
}

// ChangeUser changes a user in part.
func (s *accessServer) ChangeUser(ctx context.Context, req *brokerv1.ChangeUserRequest) (*brokerv1.ChangeUserResponse, error) {
	u := administration.UserChange{Name: req.GetName(), Create: req.GetCreate()}
	if t := req.GetTags(); t != nil {
		u.Tags = append([]string{}, t.GetTags()...) // not nil: nil would keep the tags
	}
	if p := req.GetPassword(); p != nil {
		u.Password, u.Hash, u.Algorithm = p.GetPassword(), p.GetPasswordHash(), p.GetHashingAlgorithm()
		u.NoPassword = u.Password == "" && u.Hash == ""
	}
	created, err := s.b.Administration.ChangeUser(ctx, u)
	if err != nil {
		return nil, err
	}
	return &brokerv1.ChangeUserResponse{Created: created}, nil
}

// DeleteUser removes a user with its permissions.
func (s *accessServer) DeleteUser(ctx context.Context, req *brokerv1.DeleteUserRequest) (*brokerv1.DeleteUserResponse, error) {
	deleted, err := s.b.Administration.DeleteUser(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return &brokerv1.DeleteUserResponse{Deleted: deleted}, nil
}

// ListLimits returns how much of the limits of a vhost or a user is used.
func (s *accessServer) ListLimits(ctx context.Context, req *brokerv1.ListLimitsRequest) (*brokerv1.ListLimitsResponse, error) {
	var all []limits.Usage
	var err error
	if user, ok := req.GetOf().(*brokerv1.ListLimitsRequest_User); ok {
		all, err = s.b.Limits.UserUsage(ctx, user.User)
	} else {
		all, err = s.b.Limits.VHostUsage(ctx, vhostOf(req.GetVhost()))
	}
	if err != nil {
		return nil, err
	}
	out := &brokerv1.ListLimitsResponse{Limits: make([]*brokerv1.Limit, len(all))}
	for i, l := range all {
		out.Limits[i] = &brokerv1.Limit{Name: l.Name, Limit: toLimit(l.Limit)}
		if l.Measured {
			out.Limits[i].Used = &l.Used
		}
	}
	return out, nil
}

// ListUsers lists users by name.
func (s *accessServer) ListUsers(context.Context, *brokerv1.ListUsersRequest) (*brokerv1.ListUsersResponse, error) {
	list, err := s.b.Administration.ListUsers()
	if err != nil {
		return nil, err
	}
	out := &brokerv1.ListUsersResponse{Users: make([]*brokerv1.User, len(list))}
	for i := range list {
		u := &list[i]
		out.Users[i] = &brokerv1.User{
			Name: u.Name, Tags: u.Tags, HashingAlgorithm: u.Algorithm,
			Limits: toUserLimits(&u.UserLimits),
		}
	}
	return out, nil
}

// SetUserLimits replaces the limits of a user.
func (s *accessServer) SetUserLimits(ctx context.Context, req *brokerv1.SetUserLimitsRequest) (*brokerv1.SetUserLimitsResponse, error) {
	if err := s.b.Administration.SetUserLimits(ctx, req.GetName(), fromUserLimits(req.GetLimits())); err != nil {
		return nil, err
	}
	return &brokerv1.SetUserLimitsResponse{}, nil
}

// SetPermission sets what a user may do in a vhost.
func (s *accessServer) SetPermission(ctx context.Context, req *brokerv1.SetPermissionRequest) (*brokerv1.SetPermissionResponse, error) {
	p := req.GetPermission()
	created, err := s.b.Administration.SetPermission(ctx, administration.Permission{
		User: p.GetUser(), VHost: vhostOf(p.GetVhost()), Configure: p.GetConfigure(), Write: p.GetWrite(), Read: p.GetRead(),
	})
	if err != nil {
		return nil, err
	}
	return &brokerv1.SetPermissionResponse{Created: created}, nil
}

// ClearPermission removes a user's permission in a vhost.
func (s *accessServer) ClearPermission(ctx context.Context, req *brokerv1.ClearPermissionRequest) (*brokerv1.ClearPermissionResponse, error) {
	deleted, err := s.b.Administration.ClearPermission(ctx, vhostOf(req.GetVhost()), req.GetUser())
	if err != nil {
		return nil, err
	}
	return &brokerv1.ClearPermissionResponse{Deleted: deleted}, nil
}

// ListPermissions lists permissions by vhost and user.
func (s *accessServer) ListPermissions(_ context.Context, req *brokerv1.ListPermissionsRequest) (*brokerv1.ListPermissionsResponse, error) {
	list, err := s.b.Administration.ListPermissions(req.GetVhost(), req.GetUser())
	if err != nil {
		return nil, err
	}
	out := &brokerv1.ListPermissionsResponse{Permissions: make([]*brokerv1.Permission, len(list))}
	for i := range list {
		p := &list[i]
		out.Permissions[i] = &brokerv1.Permission{User: p.User, Vhost: p.VHost, Configure: p.Configure, Write: p.Write, Read: p.Read}
	}
	return out, nil
}

// SetTopicPermission bounds the routing keys of a user at a topic exchange.
func (s *accessServer) SetTopicPermission(ctx context.Context, req *brokerv1.SetTopicPermissionRequest) (*brokerv1.SetTopicPermissionResponse, error) {
	p := req.GetPermission()
	created, err := s.b.Administration.SetTopicPermission(ctx, administration.TopicPermission{
		User: p.GetUser(), VHost: vhostOf(p.GetVhost()), Exchange: p.GetExchange(), Write: p.GetWrite(), Read: p.GetRead(),
	})
	if err != nil {
		return nil, err
	}
	return &brokerv1.SetTopicPermissionResponse{Created: created}, nil
}

// ClearTopicPermission removes topic permissions of a user.
func (s *accessServer) ClearTopicPermission(ctx context.Context, req *brokerv1.ClearTopicPermissionRequest) (*brokerv1.ClearTopicPermissionResponse, error) {
	deleted, err := s.b.Administration.ClearTopicPermission(ctx, vhostOf(req.GetVhost()), req.GetUser(), req.GetExchange())
	if err != nil {
		return nil, err
	}
	return &brokerv1.ClearTopicPermissionResponse{Deleted: deleted}, nil
}

// ListTopicPermissions lists topic permissions by vhost, user and exchange.
func (s *accessServer) ListTopicPermissions(_ context.Context, req *brokerv1.ListTopicPermissionsRequest) (*brokerv1.ListTopicPermissionsResponse, error) {
	list, err := s.b.Administration.ListTopicPermissions(req.GetVhost(), req.GetUser())
	if err != nil {
		return nil, err
	}
	out := &brokerv1.ListTopicPermissionsResponse{Permissions: make([]*brokerv1.TopicPermission, len(list))}
	for i := range list {
		p := &list[i]
		out.Permissions[i] = &brokerv1.TopicPermission{User: p.User, Vhost: p.VHost, Exchange: p.Exchange, Write: p.Write, Read: p.Read}
	}
	return out, nil
}

// WhoAmI returns the identity of the caller.
func (s *accessServer) WhoAmI(ctx context.Context, _ *brokerv1.WhoAmIRequest) (*brokerv1.WhoAmIResponse, error) {
	who, err := s.b.Logins.Who(ctx)
	if err != nil || who == nil {
		return &brokerv1.WhoAmIResponse{}, err
	}
	return &brokerv1.WhoAmIResponse{User: who.User(), Tags: who.Tags(), ExpiresMs: who.ExpiresMs()}, nil
}

// MintToken makes a token for the caller.
func (s *accessServer) MintToken(ctx context.Context, req *brokerv1.MintTokenRequest) (*brokerv1.MintTokenResponse, error) {
	ms := req.GetLifetimeMs()
	if most := identity.MaxTokenLifetime.Milliseconds(); ms < 0 || ms > most { // as a duration it could overflow
		return nil, invalid("token", "lifetime_ms", strconv.FormatInt(ms, 10), "want 0 (default) to "+strconv.FormatInt(most, 10))
	}
	t, err := s.b.Logins.MintToken(ctx, time.Duration(ms)*time.Millisecond)
	if err != nil {
		return nil, err
	}
	return &brokerv1.MintTokenResponse{Token: t.Text, Id: t.ID, ExpiresMs: t.ExpireMs}, nil
}

// RevokeToken ends a token.
func (s *accessServer) RevokeToken(ctx context.Context, req *brokerv1.RevokeTokenRequest) (*brokerv1.RevokeTokenResponse, error) {
	deleted, err := s.b.Logins.RevokeToken(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &brokerv1.RevokeTokenResponse{Deleted: deleted}, nil
}
