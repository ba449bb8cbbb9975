package grpcapi

import (
	"context"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/operators"
	"github.com/quorate/quorate/broker/queues"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// adminServer serves Admin over the broker; it keeps no state.
type adminServer struct {
	brokerv1.UnimplementedAdminServer
	b *broker.Broker
}

// durable reads the field of a declaration; an absent one means true.
func durable(v *bool) bool { return v == nil || *v }

// DeclareQueue makes a queue unless an equivalent one exists.
func (a *adminServer) DeclareQueue(ctx context.Context, req *brokerv1.DeclareQueueRequest) (*brokerv1.DeclareQueueResponse, error) {
	args, err := fromNames("arguments", req.GetArguments(), failure.Error{Kind: "queue", VHost: vhostOf(req.GetVhost()), Name: req.GetName()})
	if err != nil {
		return nil, err
	}
	d, err := a.b.DeclareQueue(ctx, broker.DeclareQueue{
		VHost: vhostOf(req.GetVhost()), Name: req.GetName(), Durable: durable(req.Durable), Exclusive: req.GetExclusive(),
		AutoDelete: req.GetAutoDelete(), Arguments: args, Passive: req.GetPassive(),
	})
	if err != nil {
		return nil, err
	}
	return &brokerv1.DeclareQueueResponse{
		Name: d.Name, Created: d.Created, Uid: d.UID, MessageCount: d.Ready, ConsumerCount: uint32(d.Consumers), Warnings: d.Warnings,
	}, nil
}

// DeleteQueue removes a queue and its messages.
func (a *adminServer) DeleteQueue(ctx context.Context, req *brokerv1.DeleteQueueRequest) (*brokerv1.DeleteQueueResponse, error) {
	d, err := a.b.DeleteQueue(ctx, vhostOf(req.GetVhost()), req.GetName(), broker.Deletion{
		IfUnused: req.GetIfUnused(), IfEmpty: req.GetIfEmpty(), Discard: req.GetDiscard(),
	})
	if err != nil {
		return nil, err
	}
	return &brokerv1.DeleteQueueResponse{Ready: d.Ready, Unsettled: d.Unsettled, Backlog: d.Backlog, Delayed: d.Delayed, DrainDeleting: d.DrainDeleting}, nil
}

// RetryDelayed makes delayed messages ready at once.
func (a *adminServer) RetryDelayed(ctx context.Context, req *brokerv1.RetryDelayedRequest) (*brokerv1.RetryDelayedResponse, error) {
	n, err := a.b.RetryDelayed(ctx, vhostOf(req.GetVhost()), req.GetName(), req.GetLimit())
	if err != nil {
		return nil, err
	}
	return &brokerv1.RetryDelayedResponse{Messages: n}, nil
}

// PurgeQueue removes ready and delayed messages and the dead-letter backlog.
func (a *adminServer) PurgeQueue(ctx context.Context, req *brokerv1.PurgeQueueRequest) (*brokerv1.PurgeQueueResponse, error) {
	n, err := a.b.PurgeQueue(ctx, vhostOf(req.GetVhost()), req.GetName())
	if err != nil {
		return nil, err
	}
	return &brokerv1.PurgeQueueResponse{Messages: n}, nil
}

// GetQueue returns a queue with the figures of its leader.
func (a *adminServer) GetQueue(ctx context.Context, req *brokerv1.GetQueueRequest) (*brokerv1.GetQueueResponse, error) {
	q, err := a.b.Queues.Get(ctx, vhostOf(req.GetVhost()), req.GetName())
	if err != nil {
		return nil, err
	}
	return &brokerv1.GetQueueResponse{Queue: toQueue(&q)}, nil
}

// ListQueues lists queues by name, a page at a time.
func (a *adminServer) ListQueues(ctx context.Context, req *brokerv1.ListQueuesRequest) (*brokerv1.ListQueuesResponse, error) {
	size := int(min(req.GetPageSize(), queues.MaxPageSize))
	queues, next, err := a.b.Queues.Page(ctx, req.GetVhost(), size, req.GetPageToken(), req.GetWithStats())
	if err != nil {
		return nil, err
	}
	out := &brokerv1.ListQueuesResponse{NextPageToken: next, Queues: make([]*brokerv1.Queue, len(queues))}
	for i := range queues {
		out.Queues[i] = toQueue(&queues[i])
	}
	return out, nil
}

// toQueue leaves the figures out where no leader gave them: absent and 0 are different answers.
func toQueue(q *queues.Queue) *brokerv1.Queue {
	out := &brokerv1.Queue{
		Vhost: q.VHost, Name: q.Name, Uid: q.UID, Type: q.Type, Durable: q.Durable, Exclusive: q.Exclusive, AutoDelete: q.AutoDelete,
		Arguments: toTable(q.Arguments),
		Policy:    q.Policy, OperatorPolicy: q.OperatorPolicy, EffectiveArguments: toTable(q.Effective),
		EffectivePolicyDefinition: toTable(q.EffectivePolicy),
		SettingsPending:           q.SettingsPending,
		DeclaredBy:                q.DeclaredBy, CountsForDeclarer: q.CountsForDeclarer,
		State: q.State, Leader: q.Leader, Members: q.Members, Online: q.Online,
	}
	if q.Stats != nil {
		out.Stats = toStats(q.Stats)
	}
	if r := q.Raft; r != nil {
		out.Raft = &brokerv1.RaftStats{
			Term: r.Term, CommitIndex: r.CommitIndex, AppliedIndex: r.AppliedIndex,
			SnapshotIndex: r.SnapshotIndex, LastIndex: r.LastIndex,
		}
	}
	return out
}

// toStats adds up the totals of the API. Priorities without ready messages are left out.
func toStats(s *queues.Stats) *brokerv1.QueueStats {
	out := &brokerv1.QueueStats{
		Messages:      s.Ready + s.Unsettled + s.Delayed + s.Backlog,
		MessagesReady: s.Ready, MessagesReadyReturned: s.Returned, MessagesUnacknowledged: s.Unsettled, MessagesDlx: s.Backlog,
		MessagesDelayed: s.Delayed, MessageBytesDelayed: s.DelayedBytes, NextDelayedAtMs: s.NextDelayedAtMs,
		MessageBytes:      s.ReadyBytes + s.UnsettledBytes + s.DelayedBytes + s.BacklogBytes,
		MessageBytesReady: s.ReadyBytes, MessageBytesUnacknowledged: s.UnsettledBytes, MessageBytesDlx: s.BacklogBytes,
		Consumers: uint32(s.Consumers), MessagesByPriority: make(map[uint32]uint64), OldestMessageAgeMs: s.OldestMessageAgeMs,
		Published: s.Enqueued, Rejected: s.Refused, Delivered: s.Delivered, Redelivered: s.Redelivered, Acked: s.Settled,
		Returned: s.ReturnedTotal, Expired: s.Expired, Dropped: s.Dropped, DeliveryLimitHits: s.DeliveryLimitHits,
		DeadLettered: s.DeadLettered, DeadLetterDedupHits: s.DedupHits,
		DeadLetterConfirmed: s.DeadLetterConfirmed, LastDeadLetterError: valid(s.LastDeadLetterError),
		Confirmed: s.Enqueued, Get: s.Gets, GetEmpty: s.EmptyGets, ReturnedFailed: s.ReturnedFailed, ConsumerTimeouts: s.TimedOut,
		DeliveryLimit: s.DeliveryLimit, DelayedRetry: s.DelayedRetry,
	}
	if s.Consumers > 0 {
		out.ConsumerCapacity = float64(s.ConsumersIdle) / float64(s.Consumers)
	}
	d := &s.DeadLetters
	out.DeadLettersWaiting, out.DeadLetterRetries, out.DeadLettersLost = d.Waiting, d.Retries, d.Lost
	out.OldestDeadLetterAgeMs, out.DeadLettersDropped, out.DeadLetterBytesDropped = s.OldestBacklogAgeMs, s.Abandoned, s.AbandonedBytes
	for _, x := range s.Discarded {
		out.Discarded = append(out.Discarded, &brokerv1.Discarded{Reason: x.Reason, Strategy: x.Strategy, Count: x.Count})
	}
	for level, n := range s.ReadyByPriority {
		if n > 0 {
			out.MessagesByPriority[uint32(level)] = n
		}
	}
	return out
}

// DeclareExchange makes an exchange unless an equivalent one exists.
func (a *adminServer) DeclareExchange(ctx context.Context, req *brokerv1.DeclareExchangeRequest) (*brokerv1.DeclareExchangeResponse, error) {
	args, err := fromNames("arguments", req.GetArguments(), failure.Error{Kind: "exchange", VHost: vhostOf(req.GetVhost()), Name: req.GetName()})
	if err != nil {
		return nil, err
	}
	d, err := a.b.DeclareExchange(ctx, broker.Exchange{
		VHost: vhostOf(req.GetVhost()), Name: req.GetName(), Type: req.GetType(), Durable: durable(req.Durable),
		AutoDelete: req.GetAutoDelete(), Internal: req.GetInternal(), Arguments: args,
	}, req.GetPassive())
	if err != nil {
		return nil, err
	}
	return &brokerv1.DeclareExchangeResponse{Created: d.Created, Warnings: d.Warnings}, nil
}

// DeleteExchange removes an exchange.
func (a *adminServer) DeleteExchange(ctx context.Context, req *brokerv1.DeleteExchangeRequest) (*brokerv1.DeleteExchangeResponse, error) {
	if err := a.b.DeleteExchange(ctx, vhostOf(req.GetVhost()), req.GetName(), req.GetIfUnused()); err != nil {
		return nil, err
	}
	return &brokerv1.DeleteExchangeResponse{}, nil
}

// ListExchanges lists exchanges by name.
func (a *adminServer) ListExchanges(ctx context.Context, req *brokerv1.ListExchangesRequest) (*brokerv1.ListExchangesResponse, error) {
	list, err := a.b.ListExchanges(ctx, req.GetVhost())
	if err != nil {
		return nil, err
	}
	out := &brokerv1.ListExchangesResponse{Exchanges: make([]*brokerv1.Exchange, len(list))}
	for i := range list {
		x := &list[i]
		out.Exchanges[i] = &brokerv1.Exchange{
			Vhost: x.VHost, Name: x.Name, Type: x.Type, Durable: x.Durable, AutoDelete: x.AutoDelete,
			Internal: x.Internal, Arguments: toTable(x.Arguments),
		}
	}
	return out, nil
}

// Bind routes from an exchange to a queue or an exchange.
func (a *adminServer) Bind(ctx context.Context, req *brokerv1.BindRequest) (*brokerv1.BindResponse, error) {
	x, err := fromBinding(req.GetBinding())
	if err == nil { // an existing binding may have such names, and must be removable
		err = namesOnce("arguments", x.Arguments, failure.Error{Kind: "binding", VHost: x.VHost})
	}
	if err != nil {
		return nil, err
	}
	warnings, err := a.b.Bind(ctx, x)
	if err != nil {
		return nil, err
	}
	return &brokerv1.BindResponse{Warnings: warnings}, nil
}

// Unbind removes a binding.
func (a *adminServer) Unbind(ctx context.Context, req *brokerv1.UnbindRequest) (*brokerv1.UnbindResponse, error) {
	x, err := fromBinding(req.GetBinding())
	if err != nil {
		return nil, err
	}
	if err := a.b.Unbind(ctx, x); err != nil {
		return nil, err
	}
	return &brokerv1.UnbindResponse{}, nil
}

// fromBinding reads a binding; its destination is a queue unless the request says otherwise.
func fromBinding(b *brokerv1.Binding) (broker.Binding, error) {
	if b == nil {
		return broker.Binding{}, invalid("binding", "binding", "", "is not set")
	}
	out := broker.Binding{
		VHost: vhostOf(b.GetVhost()), Source: b.GetSource(), Destination: b.GetDestination(), RoutingKey: b.GetRoutingKey(),
	}
	switch b.GetDestinationType() {
	case brokerv1.DestinationType_DESTINATION_TYPE_UNSPECIFIED, brokerv1.DestinationType_DESTINATION_TYPE_QUEUE:
	case brokerv1.DestinationType_DESTINATION_TYPE_EXCHANGE:
		out.ToExchange = true
	default:
		return out, invalid("binding", "destination_type", b.GetDestinationType().String(), "want queue or exchange")
	}
	var err error
	out.Arguments, err = fromTable("arguments", b.GetArguments())
	return out, err
}

// ListBindings lists the bindings of a vhost.
func (a *adminServer) ListBindings(ctx context.Context, req *brokerv1.ListBindingsRequest) (*brokerv1.ListBindingsResponse, error) {
	list, err := a.b.ListBindings(ctx, req.GetVhost())
	if err != nil {
		return nil, err
	}
	out := &brokerv1.ListBindingsResponse{Bindings: make([]*brokerv1.Binding, len(list))}
	for i := range list {
		x := &list[i]
		to := brokerv1.DestinationType_DESTINATION_TYPE_QUEUE
		if x.ToExchange {
			to = brokerv1.DestinationType_DESTINATION_TYPE_EXCHANGE
		}
		out.Bindings[i] = &brokerv1.Binding{
			Vhost: x.VHost, Source: x.Source, DestinationType: to, Destination: x.Destination,
			RoutingKey: x.RoutingKey, Arguments: toTable(x.Arguments),
		}
	}
	return out, nil
}

// ClusterStatus returns the nodes as this node sees them.
func (a *adminServer) ClusterStatus(ctx context.Context, req *brokerv1.ClusterStatusRequest) (*brokerv1.ClusterStatusResponse, error) {
	s, err := a.b.Operators.ClusterStatus(ctx, req.GetDetails())
	if err != nil {
		return nil, err
	}
	out := &brokerv1.ClusterStatusResponse{
		Cluster: s.Cluster, Node: s.Node, CatalogLeader: s.CatalogLeader, CatalogIndex: s.CatalogIndex,
		FinalizedVersion: uint32(s.Finalised),
		Nodes:            make([]*brokerv1.ClusterNode, len(s.Nodes)), Hindrance: valid(s.Hindrance),
	}
	if s.ViewAge >= 0 {
		age := uint64(s.ViewAge.Milliseconds())
		out.ViewAgeMs = &age
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		out.Nodes[i] = &brokerv1.ClusterNode{
			Id: n.ID, Epoch: n.Epoch, ClientAddress: n.ClientAddress, Version: n.Version, Alive: n.Alive,
			Connected: n.Connected, Refused: valid(n.Refused), Replicas: uint32(n.Replicas), Leaders: uint32(n.Leaders), Draining: n.Draining,
			Disk: diskStatus(n.Disk), Clock: clockStatus(n.Clock),
		}
		if at := n.Start; n.Answers {
			out.Nodes[i].Counters, out.Nodes[i].ReadsVersion, out.Nodes[i].LostMembers = n.Counters, uint32(n.Reads), uint32(n.Lost)
			out.Nodes[i].Start = &brokerv1.StartProgress{Phase: string(at.Phase), Done: at.Done, Total: at.Total, Unit: at.Unit}
		}
	}
	return out, nil
}

// FinalizeVersion ends an upgrade, or returns what holds it back.
func (a *adminServer) FinalizeVersion(ctx context.Context, req *brokerv1.FinalizeVersionRequest) (*brokerv1.FinalizeVersionResponse, error) {
	before, now, held, err := a.b.Operators.Finalise(ctx, req.GetDryRun())
	if err != nil {
		return nil, err
	}
	out := &brokerv1.FinalizeVersionResponse{Before: uint32(before), Finalized: uint32(now)}
	for _, h := range held {
		out.Held = append(out.Held, &brokerv1.HeldVersion{
			Node: string(h.Node), Build: valid(h.Build), ReadsVersion: uint32(h.Reads), Reason: valid(h.Reason),
		})
	}
	return out, nil
}

// clockStatus converts the clock of a node; nil where the node did not report it.
func clockStatus(c *operators.Clock) *brokerv1.ClockStatus {
	if c == nil {
		return nil
	}
	return &brokerv1.ClockStatus{
		OffsetUs: c.Offset.Microseconds(), ErrorUs: uint64(c.Error.Microseconds()), Grade: c.Grade, Off: c.Off,
	}
}

// diskStatus converts the disk of a node; nil where the node did not report it.
func diskStatus(d *operators.Disk) *brokerv1.DiskStatus {
	if d == nil {
		return nil
	}
	return &brokerv1.DiskStatus{
		Pressure: d.Pressure, Path: valid(d.Path), FreeBytes: d.Free, LowBytes: d.Low, FloorBytes: d.Floor,
		HangsMs: uint64(d.Hangs.Milliseconds()), Stopped: uint32(d.Stopped), Refused: d.Refused, Moved: d.Moved,
	}
}

// ListQueueMembers shows each member of a queue as it sees itself.
func (a *adminServer) ListQueueMembers(ctx context.Context, req *brokerv1.ListQueueMembersRequest) (*brokerv1.ListQueueMembersResponse, error) {
	members, err := a.b.Operators.QueueMembers(ctx, vhostOf(req.GetVhost()), req.GetQueue(), req.GetDigests())
	if err != nil {
		return nil, err
	}
	out := &brokerv1.ListQueueMembersResponse{Members: make([]*brokerv1.QueueMember, len(members))}
	for i := range members {
		m := &members[i]
		out.Members[i] = &brokerv1.QueueMember{Node: m.Node, State: m.State, Leader: m.Leader, Digest: m.Digest, Trouble: valid(m.Trouble)}
		if m.State != "" {
			out.Members[i].Raft = &brokerv1.RaftStats{
				Term: m.Term, CommitIndex: m.CommitIndex, AppliedIndex: m.AppliedIndex, SnapshotIndex: m.SnapshotIndex, LastIndex: m.LastIndex,
			}
		}
	}
	return out, nil
}

// TransferLeadership moves a queue's leadership to another of its members.
func (a *adminServer) TransferLeadership(ctx context.Context, req *brokerv1.TransferLeadershipRequest) (*brokerv1.TransferLeadershipResponse, error) {
	if err := a.b.Operators.TransferLeadership(ctx, vhostOf(req.GetVhost()), req.GetQueue(), req.GetNode()); err != nil {
		return nil, err
	}
	return &brokerv1.TransferLeadershipResponse{}, nil
}
