package grpcapi

import (
	"context"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/explain"
	"github.com/quorate/quorate/broker/messages"
	"github.com/quorate/quorate/message"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// messagesServer serves Messages over the broker; it keeps no state.
type messagesServer struct {
	brokerv1.UnimplementedMessagesServer
	b *broker.Broker
}

// Peek returns a page of messages.
func (s *messagesServer) Peek(ctx context.Context, req *brokerv1.PeekRequest) (*brokerv1.PeekResponse, error) {
	f, err := fromMessageFilter(req.GetFilter())
	if err != nil {
		return nil, err
	}
	part, err := fromPart(req.GetPart())
	if err != nil {
		return nil, err
	}
	page, next, looked, err := s.b.Peek(ctx, broker.Peek{
		VHost: vhostOf(req.GetVhost()), Queue: req.GetQueue(), Part: part, Filter: f, Skip: req.GetSkip(), FromNumber: req.GetFromNumber(),
		Limit: int(min(req.GetLimit(), broker.MaxPeekLimit)), Bodies: req.GetWithBodies(), Token: req.GetPageToken(),
	})
	if err != nil {
		return nil, err
	}
	out := &brokerv1.PeekResponse{NextPageToken: next, Looked: uint64(looked), Messages: make([]*brokerv1.PeekedMessage, len(page))}
	for i := range page {
		out.Messages[i] = toPeeked(&page[i])
	}
	return out, nil
}

// toPeeked converts a peeked message, with the fields that only some parts of a queue have.
func toPeeked(p *broker.Peeked) *brokerv1.PeekedMessage {
	out := &brokerv1.PeekedMessage{
		Number: p.Number, Message: &brokerv1.Delivery{}, BodyBytes: uint64(p.BodyBytes), AtMs: p.AtMs, ExpiresMs: p.ExpiresMs,
		Priority: uint32(p.Priority), ConsumerNode: p.ConsumerNode, Reason: p.Reason, Destination: valid(p.Destination), DueMs: p.DueMs,
	}
	setDelivery(out.Message, &brokerv1.Properties{}, &p.Delivery)
	return out
}

// fromPart reads the part of a queue; unspecified is ready.
func fromPart(p brokerv1.QueuePart) (broker.Part, error) {
	switch p {
	case brokerv1.QueuePart_QUEUE_PART_UNSPECIFIED, brokerv1.QueuePart_QUEUE_PART_READY:
		return broker.PartReady, nil
	case brokerv1.QueuePart_QUEUE_PART_UNSETTLED:
		return broker.PartUnsettled, nil
	case brokerv1.QueuePart_QUEUE_PART_BACKLOG:
		return broker.PartBacklog, nil
	case brokerv1.QueuePart_QUEUE_PART_DELAYED:
		return broker.PartDelayed, nil
	}
	return 0, invalid("queue", "part", p.String(), "is not known; want ready, unsettled, backlog or delayed")
}

// fromMessageFilter reads which messages are chosen; an empty filter chooses all.
func fromMessageFilter(f *brokerv1.MessageFilter) (messages.Filter, error) {
	headers, err := fromTable("headers", f.GetHeaders())
	if err != nil {
		return messages.Filter{}, err
	}
	return messages.Filter{Numbers: f.GetNumbers(), Filter: message.Filter{
		MessageIDs: f.GetMessageIds(), Headers: headers, Dead: f.GetDead(),
		Death: message.DeathOrigin{Queue: f.GetDeathQueue(), Reason: f.GetDeathReason(), Exchange: f.GetDeathExchange()},
	}}, nil
}

// fromJob reads what jobs on messages have in common.
func fromJob(j *brokerv1.MessageJob) (messages.Job, error) {
	f, err := fromMessageFilter(j.GetFilter())
	return messages.Job{
		VHost: vhostOf(j.GetVhost()), Queue: j.GetQueue(), Filter: f, Limit: j.GetLimit(), Rate: j.GetRate(), DryRun: j.GetDryRun(),
	}, err
}

// DeleteMessages removes chosen messages from a queue.
func (s *messagesServer) DeleteMessages(ctx context.Context, req *brokerv1.DeleteMessagesRequest) (*brokerv1.StartOperationResponse, error) {
	j, err := fromJob(req.GetJob())
	if err != nil {
		return nil, err
	}
	return started(s.b.Messages.Delete(ctx, j))
}

// MoveMessages moves chosen messages.
func (s *messagesServer) MoveMessages(ctx context.Context, req *brokerv1.MoveMessagesRequest) (*brokerv1.StartOperationResponse, error) {
	j, err := fromJob(req.GetJob())
	switch {
	case err != nil:
		return nil, err
	case (req.GetToQueue() != "") == (req.ToExchange != nil):
		return nil, invalid("queue", "to_queue", req.GetToQueue(), "name either to_queue or to_exchange")
	case req.ToExchange == nil && req.RoutingKey != nil:
		return nil, invalid("queue", "routing_key", req.GetRoutingKey(), "applies to to_exchange only; a move to a queue keeps messages as they are")
	}
	return started(s.b.Messages.Move(ctx, j, messages.Target{
		Queue: req.GetToQueue(), Exchange: req.GetToExchange(), Key: req.GetRoutingKey(), HasKey: req.RoutingKey != nil,
	}))
}

// RedriveMessages moves chosen dead letters back.
func (s *messagesServer) RedriveMessages(ctx context.Context, req *brokerv1.RedriveMessagesRequest) (*brokerv1.StartOperationResponse, error) {
	j, err := fromJob(req.GetJob())
	if err != nil {
		return nil, err
	}
	return started(s.b.Messages.Redrive(ctx, j, req.GetToExchange()))
}

// ExplainRouting explains where a message would go.
func (s *messagesServer) ExplainRouting(ctx context.Context, req *brokerv1.ExplainRoutingRequest) (*brokerv1.ExplainRoutingResponse, error) {
	headers, err := fromTable("headers", req.GetHeaders())
	if err != nil {
		return nil, err
	}
	e, err := s.b.Explain.Routing(ctx, vhostOf(req.GetVhost()), req.GetExchange(), req.GetRoutingKeys(), headers)
	if err != nil {
		return nil, err
	}
	return &brokerv1.ExplainRoutingResponse{Queues: toRouted(e.Queues), Steps: toSteps(e.Steps)}, nil
}

// ExplainDeadLetter explains where a dead letter would go.
func (s *messagesServer) ExplainDeadLetter(ctx context.Context, req *brokerv1.ExplainDeadLetterRequest) (*brokerv1.ExplainDeadLetterResponse, error) {
	part, err := fromPart(req.GetPart())
	if err != nil {
		return nil, err
	}
	e, err := s.b.Explain.DeadLetter(ctx, explain.DeadLetterQuestion{
		VHost: vhostOf(req.GetVhost()), Queue: req.GetQueue(), Number: req.GetNumber(), Part: part, Reason: req.GetReason(), Keys: req.GetRoutingKeys(),
	})
	if err != nil {
		return nil, err
	}
	return &brokerv1.ExplainDeadLetterResponse{
		Strategy: e.Strategy, Exchange: valid(e.Exchange), RoutingKeys: validAll(e.Keys), Targets: toRouted(e.Targets), Cyclic: validAll(e.Cyclic),
		Cause: e.Cause, Why: valid(e.Why), Settings: toSettings(e.Settings), Steps: toSteps(e.Steps), Warnings: validAll(e.Warnings),
	}, nil
}

// toRouted converts the queues that a message would reach, with the ways there.
func toRouted(queues []explain.RoutedQueue) []*brokerv1.RoutedQueue {
	out := make([]*brokerv1.RoutedQueue, len(queues))
	for i := range queues {
		q := &queues[i]
		out[i] = &brokerv1.RoutedQueue{
			Name: valid(q.Name), Path: validAll(q.Path), Policy: valid(q.Policy), OperatorPolicy: valid(q.OperatorPolicy),
			Settings: toSettings(q.Settings),
		}
	}
	return out
}

// toSettings converts settings and their origins.
func toSettings(all []explain.Setting) []*brokerv1.SettingSource {
	out := make([]*brokerv1.SettingSource, len(all))
	for i := range all {
		out[i] = &brokerv1.SettingSource{Argument: valid(all[i].Arg), Value: valid(all[i].Value.String()), Source: valid(all[i].From)}
	}
	return out
}

// toSteps converts the exchanges that routing visits. Misses may be fewer than MissesTotal.
func toSteps(steps []explain.RoutingStep) []*brokerv1.RoutingStep {
	out := make([]*brokerv1.RoutingStep, len(steps))
	for i := range steps {
		s := &steps[i]
		out[i] = &brokerv1.RoutingStep{
			Exchange: valid(s.Exchange), Type: s.Type, Via: valid(s.Via), Missing: s.Missing, Taken: validAll(s.Taken), MissesTotal: uint64(s.MissCount),
		}
		for _, m := range s.Misses {
			out[i].Misses = append(out[i].Misses, &brokerv1.RoutingMiss{Binding: valid(m.Binding), Why: valid(m.Why)})
		}
	}
	return out
}

// validAll makes each text valid UTF-8, which protobuf demands.
func validAll(texts []string) []string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = valid(s)
	}
	return out
}
