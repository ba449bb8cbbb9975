package client

import (
	"context"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Filter chooses messages; the zero value chooses all. All that is set must hold.
type Filter struct {
	Numbers    []uint64 // of messages in the queue, as Peek shows them
	MessageIDs []string
	Headers    Table // nil values ask only whether the header is there
	// DeathQueue, DeathReason and DeathExchange: one death must have all that are set.
	DeathQueue, DeathReason, DeathExchange string
	Dead                                   bool // it has died
}

// Proto returns the filter as requests carry it.
func (f Filter) Proto() (*brokerv1.MessageFilter, error) {
	headers, err := f.Headers.proto()
	return &brokerv1.MessageFilter{
		Numbers: f.Numbers, MessageIds: f.MessageIDs, Headers: headers, DeathQueue: f.DeathQueue, DeathReason: f.DeathReason,
		DeathExchange: f.DeathExchange, Dead: f.Dead,
	}, err
}

// Peeked is a message as it stands in its queue. It cannot be settled.
type Peeked struct {
	Received
	// State tells how it stands there: its number, age and size, and who has it.
	State *brokerv1.PeekedMessage
}

// PeekRequest asks for a page of messages; of its fields Filter is set by Peek.
type PeekRequest = brokerv1.PeekRequest

// Peek shows a page of messages without taking them, and the token of the next page, "" on
// the last. A page may be empty though others follow.
func (c *Client) Peek(ctx context.Context, r *PeekRequest, f Filter) (page []Peeked, next string, err error) {
	if r.Filter, err = f.Proto(); err != nil {
		return nil, "", err
	}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *PeekRequest) (*brokerv1.PeekResponse, error) {
		return n.messages.Peek(ctx, r)
	})
	for _, m := range out.GetMessages() {
		page = append(page, Peeked{Received: receivedFromProto(m.GetMessage()), State: m})
	}
	return page, out.GetNextPageToken(), err
}

// DeleteMessages starts to take chosen ready messages off a queue, or with dry_run counts
// them. Nothing dead-letters them.
func (c *Client) DeleteMessages(ctx context.Context, r *brokerv1.DeleteMessagesRequest) (*brokerv1.StartOperationResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.DeleteMessagesRequest) (*brokerv1.StartOperationResponse, error) {
		return n.messages.DeleteMessages(ctx, r)
	})
}

// MoveMessages starts to move chosen ready messages, each once, or with dry_run counts them.
func (c *Client) MoveMessages(ctx context.Context, r *brokerv1.MoveMessagesRequest) (*brokerv1.StartOperationResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.MoveMessagesRequest) (*brokerv1.StartOperationResponse, error) {
		return n.messages.MoveMessages(ctx, r)
	})
}

// RedriveMessages starts to move chosen dead letters back to where they died first, each
// once, or with dry_run counts them.
func (c *Client) RedriveMessages(ctx context.Context, r *brokerv1.RedriveMessagesRequest) (*brokerv1.StartOperationResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.RedriveMessagesRequest) (*brokerv1.StartOperationResponse, error) {
		return n.messages.RedriveMessages(ctx, r)
	})
}

// ExplainRouting tells where a message would go, and why not elsewhere.
func (c *Client) ExplainRouting(ctx context.Context, vhost, exchange string, keys []string, headers Table) (*brokerv1.ExplainRoutingResponse, error) {
	table, err := headers.proto()
	if err != nil {
		return nil, err
	}
	r := &brokerv1.ExplainRoutingRequest{Vhost: vhost, Exchange: exchange, RoutingKeys: keys, Headers: table}
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ExplainRoutingRequest) (*brokerv1.ExplainRoutingResponse, error) {
		return n.messages.ExplainRouting(ctx, r)
	})
}

// ExplainDeadLetter tells where a dead letter of a queue would go, or why nowhere.
func (c *Client) ExplainDeadLetter(ctx context.Context, r *brokerv1.ExplainDeadLetterRequest) (*brokerv1.ExplainDeadLetterResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ExplainDeadLetterRequest) (*brokerv1.ExplainDeadLetterResponse, error) {
		return n.messages.ExplainDeadLetter(ctx, r)
	})
}
