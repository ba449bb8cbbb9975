package client

import (
	"context"
	"iter"
	"strconv"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Queue describes a queue to declare. Properties that a quorum queue cannot have make it a classic
// one.
type Queue struct {
	VHost     string // "": "/"
	Name      string // "": the broker generates a name and returns it
	Arguments Table  // such as x-max-length or x-dead-letter-exchange
	// Transient queues are deleted when the process of the node that serves the declare ends.
	Transient bool
	// Exclusive queues belong to this client and are deleted when its connection ends: see
	// ConnectionLost.
	Exclusive bool
	// AutoDelete queues are deleted when their last consumer is gone.
	AutoDelete bool
	// Passive only checks whether the queue exists.
	Passive bool
}

// QueueRef names a queue.
type QueueRef struct {
	VHost string `api:"vhost"` // "": "/"
	Name  string `api:"name"`
}

// Exchange describes an exchange to declare (EX-4).
type Exchange struct {
	VHost      string `api:"vhost"` // "": "/"
	Name       string `api:"name"`
	Type       string `api:"type"` // direct, fanout, topic or headers
	AutoDelete bool   `api:"auto_delete"`
	Internal   bool   `api:"internal"`
	Arguments  Table  `api:"arguments"`
	Passive    bool   `api:"passive"` // only checks whether it exists
}

// Binding routes from an exchange to a queue, or to an exchange if ToExchange is set.
type Binding struct {
	VHost       string // "": "/"
	Source      string
	Destination string
	ToExchange  bool
	RoutingKey  string
	Arguments   Table
}

// proto converts the binding. It fails if an argument has a type that tables cannot carry.
func (b Binding) proto() (*brokerv1.Binding, error) {
	args, err := b.Arguments.proto()
	if err != nil {
		return nil, err
	}
	kind := brokerv1.DestinationType_DESTINATION_TYPE_QUEUE
	if b.ToExchange {
		kind = brokerv1.DestinationType_DESTINATION_TYPE_EXCHANGE
	}
	return &brokerv1.Binding{
		Vhost: b.VHost, Source: b.Source, DestinationType: kind, Destination: b.Destination,
		RoutingKey: b.RoutingKey, Arguments: args,
	}, nil
}

// bindingFromProto is the reverse of proto.
func bindingFromProto(p *brokerv1.Binding) Binding {
	return Binding{
		VHost: p.GetVhost(), Source: p.GetSource(), Destination: p.GetDestination(), RoutingKey: p.GetRoutingKey(),
		ToExchange: p.GetDestinationType() == brokerv1.DestinationType_DESTINATION_TYPE_EXCHANGE, Arguments: tableFromProto(p.GetArguments()),
	}
}

// rpc is one method of the Admin or Broker service.
type rpc[Q, R any] func(context.Context, *node, Q) (R, error)

// do calls a method that is safe to repeat.
func do[Q, R any](ctx context.Context, c *Client, request Q, method rpc[Q, R]) (R, error) {
	var out R
	err := c.call(ctx, func(ctx context.Context, n *node) (err error) {
		out, err = method(ctx, n, request)
		return err
	})
	return out, err
}

// DeclareQueue creates a queue unless an equivalent one exists.
func (c *Client) DeclareQueue(ctx context.Context, q Queue) (QueueDeclared, error) {
	args, err := q.Arguments.proto()
	if err != nil {
		return QueueDeclared{}, err
	}
	if q.Exclusive && !q.Passive {
		if err := c.connect(ctx); err != nil {
			return QueueDeclared{}, err
		}
	}
	r := &brokerv1.DeclareQueueRequest{
		Vhost: q.VHost, Name: q.Name, Arguments: args, Passive: q.Passive, Exclusive: q.Exclusive, AutoDelete: q.AutoDelete,
	}
	if q.Transient {
		r.Durable = new(bool)
	}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.DeclareQueueRequest) (*brokerv1.DeclareQueueResponse, error) {
		return n.admin.DeclareQueue(ctx, r)
	})
	c.warn("queue", q.Name, out.GetWarnings())
	return owned[QueueDeclared](out), err
}

// warn reports the warnings of a node about a declaration that it accepted.
func (c *Client) warn(kind, name string, warnings []string) {
	for _, w := range warnings {
		c.cfg.OnWarning(kind + " " + strconv.Quote(name) + ": " + w)
	}
}

// DeleteQueue deletes a queue with its messages, and returns how many there were; a missing queue
// is no error.
func (c *Client) DeleteQueue(ctx context.Context, r DeleteQueueRequest) (QueueDeleted, error) {
	return ask[QueueDeleted](ctx, c, r, admin, brokerv1.AdminClient.DeleteQueue)
}

// RetryDelayedRequest names a queue, and how many of its delayed messages to retry.
type RetryDelayedRequest struct {
	VHost string `api:"vhost"` // "": "/"
	Name  string `api:"name"`
	Limit uint64 `api:"limit"` // 0: all
}

// RetryDelayed makes delayed messages of a queue ready at once, in the order of their due times,
// and returns how many (DR-6).
func (c *Client) RetryDelayed(ctx context.Context, r RetryDelayedRequest) (uint64, error) {
	out, err := ask[counted](ctx, c, r, admin, brokerv1.AdminClient.RetryDelayed)
	return out.Messages, err
}

// PurgeQueue removes ready and delayed messages and the dead-letter backlog, and returns how many
//
func (c *Client) PurgeQueue(ctx context.Context, q QueueRef) (uint64, error) {
	out, err := ask[counted](ctx, c, q, admin, brokerv1.AdminClient.PurgeQueue)
	return out.Messages, err
}

// GetQueue returns a queue with the figures of its leader.
func (c *Client) GetQueue(ctx context.Context, q QueueRef) (QueueInfo, error) {
	type answer struct {
		Queue QueueInfo `api:"queue"`
	}
	out, err := ask[answer](ctx, c, q, admin, brokerv1.AdminClient.GetQueue)
	return out.Queue, err
}

// QueueMembers lists the state of each member of a queue, as the member itself reports it, in the
// order of QueueInfo.Members.
func (c *Client) QueueMembers(ctx context.Context, r ListQueueMembersRequest) iter.Seq2[QueueMember, error] {
	type answer struct {
		Members []QueueMember `api:"members"`
	}
	return pages(func(string) ([]QueueMember, string, error) {
		out, err := ask[answer](ctx, c, r, admin, brokerv1.AdminClient.ListQueueMembers)
		return out.Members, "", err
	})
}

// queuesPage is the number of queues per page.
const queuesPage = 1000

// ListQueuesRequest chooses queues.
type ListQueuesRequest struct {
	VHost     string // "": all
	WithStats bool   // with figures, for which the leaders are asked
}

// Queues lists queues.
func (c *Client) Queues(ctx context.Context, r ListQueuesRequest) iter.Seq2[QueueInfo, error] {
	type request struct {
		VHost string `api:"vhost"`
		Size  uint32 `api:"page_size"`
		Token string `api:"page_token"`
		Stats bool   `api:"with_stats"`
	}
	type answer struct {
		Queues []QueueInfo `api:"queues"`
		Next   string      `api:"next_page_token"`
	}
	return pages(func(token string) ([]QueueInfo, string, error) {
		out, err := ask[answer](ctx, c, request{r.VHost, queuesPage, token, r.WithStats}, admin, brokerv1.AdminClient.ListQueues)
		return out.Queues, out.Next, err
	})
}

// DeclareExchange creates an exchange unless an equivalent one exists (EX-5), and reports whether
// it is new.
func (c *Client) DeclareExchange(ctx context.Context, x Exchange) (isNew bool, err error) {
	out, err := ask[warned](ctx, c, x, admin, brokerv1.AdminClient.DeclareExchange)
	c.warn("exchange", x.Name, out.Warnings)
	return out.Created, err
}

// DeleteExchangeRequest names an exchange.
type DeleteExchangeRequest struct {
	VHost    string `api:"vhost"` // "": "/"
	Name     string `api:"name"`
	IfUnused bool   `api:"if_unused"` // refuse while it is the source of a binding
}

// DeleteExchange deletes an exchange; a missing one is no error (EX-6).
func (c *Client) DeleteExchange(ctx context.Context, r DeleteExchangeRequest) error {
	_, err := ask[nothing](ctx, c, r, admin, brokerv1.AdminClient.DeleteExchange)
	return err
}

// Exchanges lists the exchanges of a vhost, or of all vhosts if it is empty.
func (c *Client) Exchanges(ctx context.Context, vhost string) iter.Seq2[ExchangeInfo, error] {
	type answer struct {
		Exchanges []ExchangeInfo `api:"exchanges"`
	}
	return pages(func(string) ([]ExchangeInfo, string, error) {
		out, err := ask[answer](ctx, c, inVHost{vhost}, admin, brokerv1.AdminClient.ListExchanges)
		return out.Exchanges, "", err
	})
}

// Bind adds a binding; a repeat is no error (EX-13).
func (c *Client) Bind(ctx context.Context, b Binding) error {
	p, err := b.proto()
	if err != nil {
		return err
	}
	out, err := do(ctx, c, &brokerv1.BindRequest{Binding: p}, func(ctx context.Context, n *node, r *brokerv1.BindRequest) (*brokerv1.BindResponse, error) {
		return n.admin.Bind(ctx, r)
	})
	c.warn("binding", b.Source+" → "+b.Destination, out.GetWarnings())
	return err
}

// Unbind removes a binding; a missing one is no error (EX-13).
func (c *Client) Unbind(ctx context.Context, b Binding) error {
	p, err := b.proto()
	if err != nil {
		return err
	}
	_, err = do(ctx, c, &brokerv1.UnbindRequest{Binding: p}, func(ctx context.Context, n *node, r *brokerv1.UnbindRequest) (*brokerv1.UnbindResponse, error) {
		return n.admin.Unbind(ctx, r)
	})
	return err
}

// Bindings lists the bindings of a vhost, or of all vhosts if it is empty.
func (c *Client) Bindings(ctx context.Context, vhost string) iter.Seq2[Binding, error] {
	return pages(func(string) ([]Binding, string, error) {
		r := &brokerv1.ListBindingsRequest{Vhost: vhost}
		out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ListBindingsRequest) (*brokerv1.ListBindingsResponse, error) {
			return n.admin.ListBindings(ctx, r)
		})
		all := make([]Binding, 0, len(out.GetBindings()))
		for _, b := range out.GetBindings() {
			all = append(all, bindingFromProto(b))
		}
		return all, "", err
	})
}

// TransferLeadership moves a queue's leadership to a node.
func (c *Client) TransferLeadership(ctx context.Context, r TransferLeadershipRequest) error {
	_, err := ask[nothing](ctx, c, r, admin, brokerv1.AdminClient.TransferLeadership)
	return err
}
