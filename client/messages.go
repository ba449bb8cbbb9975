package client

import (
	"context"
	"reflect"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Filter selects messages. All fields that are set must match; the zero value selects all.
type Filter struct {
	Numbers    []uint64 `api:"numbers"` // numbers of messages in the queue, as Peek returns them
	MessageIDs []string `api:"message_ids"`
	Headers    Table    `api:"headers"` // a nil value matches any value of the header
	// DeathQueue, DeathReason and DeathExchange must all match one and the same death.
	DeathQueue    string `api:"death_queue"`
	DeathReason   string `api:"death_reason"`
	DeathExchange string `api:"death_exchange"`
	Dead          bool   `api:"dead"` // the message has died
}

// QueuePart is a part of a queue's contents.
type QueuePart string

// The parts.
const (
	PartReady     QueuePart = "ready" // also if empty
	PartUnsettled QueuePart = "unsettled"
	PartBacklog   QueuePart = "backlog"
	PartDelayed   QueuePart = "delayed"
)

// Peeked is a message in its queue. It cannot be settled.
type Peeked struct {
	Received
	// State is its state in the queue: number, age, size, and the consumer that has it.
	State PeekedState
}

// PeekPage is a page of messages.
type PeekPage struct {
	Messages []Peeked
	// Next is the token of the next page, "" on the last. A page may be empty although others follow.
	Next string
	// Looked is how many messages were examined.
	Looked uint64
}

// Peek returns a page of messages without taking them.
func (c *Client) Peek(ctx context.Context, r PeekRequest) (PeekPage, error) {
	q := new(brokerv1.PeekRequest)
	if err := toProto(reflect.ValueOf(r), q.ProtoReflect()); err != nil {
		return PeekPage{}, err
	}
	out, err := do(ctx, c, q, func(ctx context.Context, n *node, q *brokerv1.PeekRequest) (*brokerv1.PeekResponse, error) {
		return n.messages.Peek(ctx, q)
	})
	page := PeekPage{Next: out.GetNextPageToken(), Looked: out.GetLooked()}
	for _, m := range out.GetMessages() {
		page.Messages = append(page.Messages, Peeked{Received: receivedFromProto(m.GetMessage()), State: owned[PeekedState](m)})
	}
	return page, err
}

// DeleteMessages starts to delete selected ready messages, or with DryRun counts them. They are not
// dead-lettered.
func (c *Client) DeleteMessages(ctx context.Context, j MessageJob) (StartedOperation, error) {
	type request struct {
		Job MessageJob `api:"job"`
	}
	return ask[StartedOperation](ctx, c, request{j}, messages, brokerv1.MessagesClient.DeleteMessages)
}

// MoveMessages starts to move selected ready messages, each once, or with DryRun counts them.
func (c *Client) MoveMessages(ctx context.Context, r MoveMessagesRequest) (StartedOperation, error) {
	return ask[StartedOperation](ctx, c, r, messages, brokerv1.MessagesClient.MoveMessages)
}

// RedriveMessages starts to move selected dead letters back to where they first died, each once, or
// with DryRun counts them.
func (c *Client) RedriveMessages(ctx context.Context, r RedriveMessagesRequest) (StartedOperation, error) {
	return ask[StartedOperation](ctx, c, r, messages, brokerv1.MessagesClient.RedriveMessages)
}

// ExplainRouting explains where a message would go, and why not elsewhere.
func (c *Client) ExplainRouting(ctx context.Context, r ExplainRoutingRequest) (RoutingExplained, error) {
	return ask[RoutingExplained](ctx, c, r, messages, brokerv1.MessagesClient.ExplainRouting)
}

// ExplainDeadLetter explains where a dead letter of a queue would go, or why it goes nowhere.
func (c *Client) ExplainDeadLetter(ctx context.Context, r ExplainDeadLetterRequest) (DeadLetterExplained, error) {
	return ask[DeadLetterExplained](ctx, c, r, messages, brokerv1.MessagesClient.ExplainDeadLetter)
}
