package grpcapi

import (
	"context"
	"net"
	"net/netip"

	"google.golang.org/grpc"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// maxCredentialBytes bounds the header with a credential: a token, or a name and a token in base64.
const maxCredentialBytes = 24 << 10

// login returns the context with the identity that the call's metadata proves.
func (s *Server) login(ctx context.Context) (context.Context, error) {
	if !s.b.Logins.Authenticates() {
		connectionOf(ctx).unauthenticated.admit()
		return ctx, nil
	}
	address, from := caller(ctx)
	conn := connectionOf(ctx)
	done := conn.unauthenticated.conn.Check()
	who, user, err := s.identify(ctx, from)
	if done(); err == nil {
		conn.unauthenticated.admit()
	}
	checked(ctx)
	if err != nil {
		s.b.Audit.LoginRefused(ctx, audit.LoginTry{From: audit.Origin{Protocol: protocol, Address: address}, User: user}, err)
		return ctx, err
	}
	return identity.WithIdentity(ctx, who), nil
}

// caller returns the address that a call comes from.
func caller(ctx context.Context) (address string, from netip.Addr) {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return "", from
	}
	if tcp, ok := p.Addr.(*net.TCPAddr); ok {
		return tcp.String(), tcp.AddrPort().Addr()
	}
	return p.Addr.String(), from
}

// identify returns the identity of the caller, and the user name that a caller with a password
// gave.
func (s *Server) identify(ctx context.Context, from netip.Addr) (who *identity.Identity, user string, err error) {
	c, err := parseCredential(grpcmetadata.ValueFromIncomingContext(ctx, "authorization"))
	if err != nil {
		return nil, "", err
	}
	if c.bearer {
		who, err = s.b.Logins.LoginToken(ctx, c.token, from)
		return who, "", err
	}
	who, err = s.b.Logins.Login(ctx, c.user, c.password, from)
	return who, c.user, err
}

func notLoggedIn(reason string) error {
	return &failure.Error{Class: failure.AccessRefused, Kind: "login", Reason: reason, Unauthenticated: true}
}

// loggedIn is a stream whose context has the identity.
type loggedIn struct {
	grpc.ServerStream
	ctx      context.Context
	receiver *receiver
}

// RecvMsg reads the next request.
func (l *loggedIn) RecvMsg(m any) error { return l.receiver.next(l.ctx, m) }

// Context returns the stream's context.
func (l *loggedIn) Context() context.Context { return l.ctx }

// always returns the methods that a node answers even while it serves no clients (EX-16). They
// report what is wrong with the node or the cluster, and read nothing else.
func always() map[string]bool {
	return map[string]bool{
		brokerv1.Admin_ClusterStatus_FullMethodName:         true,
		brokerv1.Admin_ListOperations_FullMethodName:        true,
		brokerv1.Admin_GetOperation_FullMethodName:          true,
		brokerv1.Connections_ListConnections_FullMethodName: true,
		brokerv1.Access_WhoAmI_FullMethodName:               true,
		brokerv1.Logs_TailLog_FullMethodName:                true,
		brokerv1.Logs_GetLogLevel_FullMethodName:            true,
		brokerv1.Logs_SetLogLevel_FullMethodName:            true,
	}
}

// rule is what a method needs besides a login. The broker checks rights on queues and exchanges
// (VH-6) and what a user may see of a vhost (VH-12).
type rule func(ctx context.Context, b *broker.Broker, req any) error

func anybody(context.Context, *broker.Broker, any) error { return nil }

func tagged(tag string) rule {
	return func(ctx context.Context, b *broker.Broker, _ any) error { return b.Logins.Require(ctx, tag) }
}

// putsPolicy requires the tag that the kind of policy needs; operator policies need more than others.
func putsPolicy(ctx context.Context, b *broker.Broker, req any) error {
	r, _ := req.(*brokerv1.PutPolicyRequest)
	return b.Permissions.RequirePolicies(ctx, vhostOf(r.GetPolicy().GetVhost()), r.GetPolicy().GetOperator())
}

func deletesPolicy(ctx context.Context, b *broker.Broker, req any) error {
	r, _ := req.(*brokerv1.DeletePolicyRequest)
	return b.Permissions.RequirePolicies(ctx, vhostOf(r.GetVhost()), r.GetOperator())
}

// clusterStatus lets everybody read the status, because clients learn the nodes' addresses from it.
// The details need the tag monitoring.
func clusterStatus(ctx context.Context, b *broker.Broker, req any) error {
	if r, _ := req.(*brokerv1.ClusterStatusRequest); !r.GetDetails() {
		return nil
	}
	return b.Logins.Require(ctx, identity.TagMonitoring)
}

// rules returns the rule of every method. A method without a rule is refused.
func rules() map[string]rule {
	out := map[string]rule{}
	add := func(service string, r rule, methods ...string) {
		for _, m := range methods {
			out["/"+service+"/"+m] = r
		}
	}
	administrator, monitoring := tagged(identity.TagAdministrator), tagged(identity.TagMonitoring)
	name := brokerv1.Broker_ServiceDesc.ServiceName
	add(name, anybody, "Publish", "PublishOne", "Consume", "Get", "Settle", "Connect")
	name = brokerv1.Admin_ServiceDesc.ServiceName
	add(name, anybody, "DeclareQueue", "DeleteQueue", "PurgeQueue", "RetryDelayed", "GetQueue", "DeclareExchange", "DeleteExchange", "Bind", "Unbind",
		"ListQueues", "ListExchanges", "ListBindings")
	add(name, clusterStatus, "ClusterStatus")
	add(name, monitoring, "ListQueueMembers", "ListOperations", "GetOperation", "WatchOperation")
	add(name, administrator, "TransferLeadership", "Drain", "Undrain", "CancelOperation", "GrowQueues", "ShrinkNode", "RebalanceQueues",
		"RebalanceLeaders", "PlanRebalance",
		"AddMember", "RemoveMember", "ReplaceMember", "ForgetNode", "RemoveNode", "ReplaceNode", "FinalizeVersion")
	name = brokerv1.Policies_ServiceDesc.ServiceName
	add(name, putsPolicy, "PutPolicy")
	add(name, deletesPolicy, "DeletePolicy")
	add(name, anybody, "ListPolicies")
	name = brokerv1.Definitions_ServiceDesc.ServiceName
	add(name, administrator, "ExportDefinitions", "ImportDefinitions")
	name = brokerv1.Backups_ServiceDesc.ServiceName
	add(name, administrator, "ExportQueue", "RestoreQueue", "FollowJob")
	name = brokerv1.Messages_ServiceDesc.ServiceName
	add(name, anybody, "Peek", "DeleteMessages", "MoveMessages", "RedriveMessages", "ExplainDeadLetter", "ExplainRouting")
	name = brokerv1.Events_ServiceDesc.ServiceName
	add(name, anybody, "WatchEvents")
	add(name, administrator, "TailAudit")
	name = brokerv1.Logs_ServiceDesc.ServiceName
	add(name, administrator, "TailLog", "GetLogLevel", "SetLogLevel")
	name = brokerv1.Figures_ServiceDesc.ServiceName
	add(name, monitoring, "WatchCluster")
	name = brokerv1.Transactions_ServiceDesc.ServiceName
	add(name, anybody, "SettleAndPublish")
	name = brokerv1.Connections_ServiceDesc.ServiceName
	add(name, anybody, "ListConnections", "ListConsumers")
	add(name, administrator, "CloseConnection")
	name = brokerv1.Access_ServiceDesc.ServiceName
	add(name, administrator, "PutVhost", "DeleteVhost", "SetVhostLimits", "PutUser", "ChangeUser", "DeleteUser", "ListUsers", "SetUserLimits",
		"SetPermission", "ClearPermission", "ListPermissions", "SetTopicPermission", "ClearTopicPermission", "ListTopicPermissions")
	add(name, anybody, "ListVhosts", "ListLimits", "WhoAmI", "MintToken", "RevokeToken")
	add("grpc.reflection.v1.ServerReflection", anybody, "ServerReflectionInfo")
	add("grpc.reflection.v1alpha.ServerReflection", anybody, "ServerReflectionInfo")
	return out
}

// admit logs the caller in and lets the call enter its connection; the call must leave when it
// ends. It reads nothing of the request. Methods that need no login do not count as calls of the
// connection.
func (s *Server) admit(ctx context.Context, method string) (with context.Context, leave func(), err error) {
	if err := refusedEarly(ctx); err != nil {
		return ctx, nil, err
	}
	if isOpen(method) {
		if conn := connectionOf(ctx); !conn.unauthenticated.known() && len(grpcmetadata.ValueFromIncomingContext(ctx, "authorization")) > 0 {
			_, _ = s.login(ctx) // it is answered in any case
		}
		return ctx, func() {}, nil
	}
	if !s.always[method] {
		if err := s.serves(); err != nil {
			checked(ctx)
			return ctx, nil, err
		}
	}
	conn := connectionOf(ctx)
	if err := conn.enter(); err != nil {
		checked(ctx)
		return ctx, nil, err
	}
	if with, err = s.enterUser(ctx); err != nil {
		conn.leave()
		return ctx, nil, err
	}
	return with, conn.leave, nil
}

// enterUser logs the caller in, on its connection.
func (s *Server) enterUser(ctx context.Context) (context.Context, error) {
	ctx, err := s.login(ctx)
	if err != nil {
		return ctx, err
	}
	if ctx, err = withConnection(ctx); err != nil {
		return ctx, err
	}
	switch first, err := s.b.Connections.EnterUser(ctx); {
	case err != nil:
		s.b.Audit.LoginRefused(ctx, audit.LoginTry{From: originOf(ctx)}, err)
		return ctx, err
	case first:
		s.b.Audit.LoggedIn(ctx, originOf(ctx), "")
	}
	return ctx, nil
}

// permit checks that the caller has what the method needs. req is nil for streams.
func (s *Server) permit(ctx context.Context, method string, req any) error {
	if isOpen(method) {
		return nil
	}
	r, known := s.rules[method]
	if !known {
		return &failure.Error{Class: failure.NotAllowed, Kind: "method", Name: method, Reason: "nobody may call it"}
	}
	if err := r(ctx, s.b, req); err != nil {
		return err
	}
	if vhost := vhostOfRequest(req); vhost != "" {
		_, err := s.b.Connections.EnterVHost(ctx, vhost)
		return err
	}
	return nil
}
