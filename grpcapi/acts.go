package grpcapi

import (
	"context"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/names"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// protocol is this listener's name in the audit.
const protocol = "grpc"

// actOf describes the change that a request is about to make. It returns false if the request
// changes nothing. req is nil for streams.
type actOf func(req any) (audit.Act, bool)

// actOf describes the change that a call is about to make, and where the call comes from.
func (s *Server) actOf(ctx context.Context, method string, req any) (audit.Act, bool) {
	f := s.acts[method]
	if f == nil {
		return audit.Act{}, false
	}
	act, changes := f(req)
	if changes {
		act.From = originOf(ctx)
	}
	return act, changes
}

// originOf returns where a call comes from.
func originOf(ctx context.Context) audit.Origin {
	address, _ := caller(ctx)
	conn := connectionOf(ctx)
	conn.mu.Lock()
	defer conn.mu.Unlock()
	client := conn.name
	if client == "" {
		client = conn.product
	}
	return audit.Origin{Protocol: protocol, Address: address, Client: client}
}

// object is the subject of a request.
type object struct{ vhost, kind, name string }

// of makes an actOf for an operation. about returns the subject of a request, and whether the
// request only asks.
func of[R any](op audit.Operation, about func(r R) (x object, asks bool)) actOf {
	return func(req any) (audit.Act, bool) {
		r, _ := req.(R) // nil for a stream: its getters return zero values
		x, asks := about(r)
		return audit.Act{Operation: op, VHost: x.vhost, Kind: x.kind, Name: x.name}, !asks
	}
}

// acts has every method that changes something.
func acts() map[string]actOf {
	out := map[string]actOf{
		brokerv1.Definitions_ImportDefinitions_FullMethodName: of(audit.OpDefinitionsImport, func(*brokerv1.ImportDefinitionsRequest) (object, bool) {
			return object{kind: "definitions"}, false
		}),
		brokerv1.Backups_ExportQueue_FullMethodName: of(audit.OpQueueExport, func(r *brokerv1.ExportQueueRequest) (object, bool) {
			return object{vhostOf(r.GetVhost()), "queue", r.GetQueue()}, r.GetHeadOnly()
		}),
		brokerv1.Backups_RestoreQueue_FullMethodName: of(audit.OpQueueRestore, func(*brokerv1.RestoreQueueRequest) (object, bool) {
			return object{kind: "queue"}, false
		}),
		brokerv1.Logs_SetLogLevel_FullMethodName: of(audit.OpLogLevel, func(*brokerv1.SetLogLevelRequest) (object, bool) {
			return object{kind: "log"}, false
		}),
		brokerv1.Connections_CloseConnection_FullMethodName: of(audit.OpConnectionClose, func(r *brokerv1.CloseConnectionRequest) (object, bool) {
			return object{kind: "connection", name: r.GetConnection()}, false
		}),
	}
	for _, more := range []map[string]actOf{topologyActs(), messageActs(), accessActs(), policyActs(), nodeActs(), memberActs()} {
		for method, f := range more {
			out[method] = f
		}
	}
	return out
}

// topologyActs names what calls on queues, exchanges and bindings change, for the audit (AU-1). A
// passive declare changes nothing.
func topologyActs() map[string]actOf {
	return map[string]actOf{
		brokerv1.Admin_DeclareQueue_FullMethodName: of(audit.OpQueueDeclare, func(r *brokerv1.DeclareQueueRequest) (object, bool) {
			return object{vhostOf(r.GetVhost()), "queue", r.GetName()}, r.GetPassive()
		}),
		brokerv1.Admin_DeleteQueue_FullMethodName: of(audit.OpQueueDelete, func(r *brokerv1.DeleteQueueRequest) (object, bool) {
			return object{vhostOf(r.GetVhost()), "queue", r.GetName()}, false
		}),
		brokerv1.Admin_PurgeQueue_FullMethodName: of(audit.OpQueuePurge, func(r *brokerv1.PurgeQueueRequest) (object, bool) {
			return object{vhostOf(r.GetVhost()), "queue", r.GetName()}, false
		}),
		brokerv1.Admin_RetryDelayed_FullMethodName: of(audit.OpQueueRetry, func(r *brokerv1.RetryDelayedRequest) (object, bool) {
			return object{vhostOf(r.GetVhost()), "queue", r.GetName()}, false
		}),
		brokerv1.Admin_DeclareExchange_FullMethodName: of(audit.OpExchangeDeclare, func(r *brokerv1.DeclareExchangeRequest) (object, bool) {
			return object{vhostOf(r.GetVhost()), "exchange", r.GetName()}, r.GetPassive()
		}),
		brokerv1.Admin_DeleteExchange_FullMethodName: of(audit.OpExchangeDelete, func(r *brokerv1.DeleteExchangeRequest) (object, bool) {
			return object{vhostOf(r.GetVhost()), "exchange", r.GetName()}, false
		}),
		brokerv1.Admin_Bind_FullMethodName: of(audit.OpBindingCreate, func(r *brokerv1.BindRequest) (object, bool) {
			return binding(r.GetBinding()), false
		}),
		brokerv1.Admin_Unbind_FullMethodName: of(audit.OpBindingDelete, func(r *brokerv1.UnbindRequest) (object, bool) {
			return binding(r.GetBinding()), false
		}),
	}
}

func binding(b *brokerv1.Binding) object {
	return object{vhostOf(b.GetVhost()), "binding", names.Binding(b.GetSource(), b.GetDestination())}
}

// messageActs names what jobs on messages change; a dry run changes nothing.
func messageActs() map[string]actOf {
	job := func(j *brokerv1.MessageJob) (object, bool) {
		return object{vhostOf(j.GetVhost()), "queue", j.GetQueue()}, j.GetDryRun()
	}
	return map[string]actOf{
		brokerv1.Messages_DeleteMessages_FullMethodName: of(audit.OpMessagesDelete, func(r *brokerv1.DeleteMessagesRequest) (object, bool) {
			return job(r.GetJob())
		}),
		brokerv1.Messages_MoveMessages_FullMethodName: of(audit.OpMessagesMove, func(r *brokerv1.MoveMessagesRequest) (object, bool) {
			return job(r.GetJob())
		}),
		brokerv1.Messages_RedriveMessages_FullMethodName: of(audit.OpMessagesRedrive, func(r *brokerv1.RedriveMessagesRequest) (object, bool) {
			return job(r.GetJob())
		}),
	}
}

// accessActs names what calls on vhosts, users and permissions change. The token that is minted has
// no id yet.
func accessActs() map[string]actOf {
	vhost := func(name string) (object, bool) { return object{name, "vhost", name}, false }
	user := func(name string) (object, bool) { return object{kind: "user", name: name}, false }
	token := func(id string) (object, bool) { return object{kind: "token", name: id}, false }
	permission := func(vhost, kind, user string) (object, bool) { return object{vhostOf(vhost), kind, user}, false }
	const topic = "topic permission"
	return map[string]actOf{
		brokerv1.Access_PutVhost_FullMethodName:       of(audit.OpVHostPut, func(r *brokerv1.PutVhostRequest) (object, bool) { return vhost(r.GetVhost().GetName()) }),
		brokerv1.Access_DeleteVhost_FullMethodName:    of(audit.OpVHostDelete, func(r *brokerv1.DeleteVhostRequest) (object, bool) { return vhost(r.GetName()) }),
		brokerv1.Access_SetVhostLimits_FullMethodName: of(audit.OpVHostLimits, func(r *brokerv1.SetVhostLimitsRequest) (object, bool) { return vhost(r.GetName()) }),
		brokerv1.Access_PutUser_FullMethodName:        of(audit.OpUserPut, func(r *brokerv1.PutUserRequest) (object, bool) { return user(r.GetName()) }),
		brokerv1.Access_ChangeUser_FullMethodName:     of(audit.OpUserChange, func(r *brokerv1.ChangeUserRequest) (object, bool) { return user(r.GetName()) }),
		brokerv1.Access_DeleteUser_FullMethodName:     of(audit.OpUserDelete, func(r *brokerv1.DeleteUserRequest) (object, bool) { return user(r.GetName()) }),
		brokerv1.Access_SetUserLimits_FullMethodName:  of(audit.OpUserLimits, func(r *brokerv1.SetUserLimitsRequest) (object, bool) { return user(r.GetName()) }),
		brokerv1.Access_MintToken_FullMethodName:      of(audit.OpTokenMint, func(*brokerv1.MintTokenRequest) (object, bool) { return token("") }),
		brokerv1.Access_RevokeToken_FullMethodName:    of(audit.OpTokenRevoke, func(r *brokerv1.RevokeTokenRequest) (object, bool) { return token(r.GetId()) }),
		brokerv1.Access_SetPermission_FullMethodName: of(audit.OpPermissionSet, func(r *brokerv1.SetPermissionRequest) (object, bool) {
			return permission(r.GetPermission().GetVhost(), "permission", r.GetPermission().GetUser())
		}),
		brokerv1.Access_ClearPermission_FullMethodName: of(audit.OpPermissionClear, func(r *brokerv1.ClearPermissionRequest) (object, bool) {
			return permission(r.GetVhost(), "permission", r.GetUser())
		}),
		brokerv1.Access_SetTopicPermission_FullMethodName: of(audit.OpTopicPermissionSet, func(r *brokerv1.SetTopicPermissionRequest) (object, bool) {
			return permission(r.GetPermission().GetVhost(), topic, r.GetPermission().GetUser())
		}),
		brokerv1.Access_ClearTopicPermission_FullMethodName: of(audit.OpTopicPermissionClear, func(r *brokerv1.ClearTopicPermissionRequest) (object, bool) {
			return permission(r.GetVhost(), topic, r.GetUser())
		}),
	}
}

// policyActs names what calls on policies change.
func policyActs() map[string]actOf {
	policy := func(vhost, name string, operator bool) (object, bool) {
		kind := "policy"
		if operator {
			kind = "operator policy"
		}
		return object{vhostOf(vhost), kind, name}, false
	}
	return map[string]actOf{
		brokerv1.Policies_PutPolicy_FullMethodName: of(audit.OpPolicyPut, func(r *brokerv1.PutPolicyRequest) (object, bool) {
			return policy(r.GetPolicy().GetVhost(), r.GetPolicy().GetName(), r.GetPolicy().GetOperator())
		}),
		brokerv1.Policies_DeletePolicy_FullMethodName: of(audit.OpPolicyDelete, func(r *brokerv1.DeletePolicyRequest) (object, bool) {
			return policy(r.GetVhost(), r.GetName(), r.GetOperator())
		}),
	}
}

// nodeActs names what calls on nodes change; a dry run changes nothing.
func nodeActs() map[string]actOf {
	node := func(name string, asks bool) (object, bool) { return object{kind: "node", name: name}, asks }
	return map[string]actOf{
		brokerv1.Admin_Undrain_FullMethodName:     of(audit.OpNodeUndrain, func(r *brokerv1.UndrainRequest) (object, bool) { return node(r.GetNode(), false) }),
		brokerv1.Admin_Drain_FullMethodName:       of(audit.OpNodeDrain, func(r *brokerv1.DrainRequest) (object, bool) { return node(r.GetNode(), false) }),
		brokerv1.Admin_ForgetNode_FullMethodName:  of(audit.OpNodeForget, func(r *brokerv1.ForgetNodeRequest) (object, bool) { return node(r.GetNode(), r.GetDryRun()) }),
		brokerv1.Admin_RemoveNode_FullMethodName:  of(audit.OpNodeRemove, func(r *brokerv1.RemoveNodeRequest) (object, bool) { return node(r.GetNode(), r.GetDryRun()) }),
		brokerv1.Admin_ReplaceNode_FullMethodName: of(audit.OpNodeReplace, func(r *brokerv1.ReplaceNodeRequest) (object, bool) { return node(r.GetNode(), r.GetDryRun()) }),
		brokerv1.Admin_GrowQueues_FullMethodName:  of(audit.OpQueuesGrow, func(r *brokerv1.GrowQueuesRequest) (object, bool) { return node(r.GetNode(), r.GetDryRun()) }),
		brokerv1.Admin_ShrinkNode_FullMethodName:  of(audit.OpQueuesShrink, func(r *brokerv1.ShrinkNodeRequest) (object, bool) { return node(r.GetNode(), r.GetDryRun()) }),
		brokerv1.Admin_FinalizeVersion_FullMethodName: of(audit.OpVersionFinalise, func(r *brokerv1.FinalizeVersionRequest) (object, bool) {
			return object{kind: "cluster"}, r.GetDryRun()
		}),
	}
}

// memberActs names what calls on members and operations change; a dry run changes nothing.
func memberActs() map[string]actOf {
	queue := func(vhost, name string, asks bool) (object, bool) { return object{vhostOf(vhost), "queue", name}, asks }
	queues := func(f *brokerv1.QueueFilter) object { return object{f.GetVhost(), "queues", f.GetPattern()} }
	return map[string]actOf{
		brokerv1.Admin_AddMember_FullMethodName: of(audit.OpMemberAdd, func(r *brokerv1.AddMemberRequest) (object, bool) {
			return queue(r.GetVhost(), r.GetQueue(), false)
		}),
		brokerv1.Admin_RemoveMember_FullMethodName: of(audit.OpMemberRemove, func(r *brokerv1.RemoveMemberRequest) (object, bool) {
			return queue(r.GetVhost(), r.GetQueue(), r.GetDryRun())
		}),
		brokerv1.Admin_ReplaceMember_FullMethodName: of(audit.OpMemberReplace, func(r *brokerv1.ReplaceMemberRequest) (object, bool) {
			return queue(r.GetVhost(), r.GetQueue(), r.GetDryRun())
		}),
		brokerv1.Admin_TransferLeadership_FullMethodName: of(audit.OpLeaderTransfer, func(r *brokerv1.TransferLeadershipRequest) (object, bool) {
			return queue(r.GetVhost(), r.GetQueue(), false)
		}),
		brokerv1.Admin_RebalanceQueues_FullMethodName: of(audit.OpQueuesRebalance, func(r *brokerv1.RebalanceQueuesRequest) (object, bool) {
			return queues(r.GetQueues()), false
		}),
		brokerv1.Admin_RebalanceLeaders_FullMethodName: of(audit.OpQueuesRebalance, func(r *brokerv1.RebalanceLeadersRequest) (object, bool) {
			return queues(r.GetQueues()), false
		}),
		brokerv1.Admin_CancelOperation_FullMethodName: of(audit.OpOperationCancel, func(r *brokerv1.CancelOperationRequest) (object, bool) {
			return object{kind: "operation", name: r.GetId()}, false
		}),
	}
}
