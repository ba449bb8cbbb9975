package client

import (
	"context"
	"iter"
	"strconv"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Queue describes a queue to declare. What a quorum queue cannot be makes it a classic one
//
type Queue struct {
	Vhost     string // "": "/"
	Name      string // "": the broker makes one up, and answers with it
	Arguments Table  // such as x-max-length or x-dead-letter-exchange
	// Transient queues end with the process of the node that is asked.
	Transient bool
	// Exclusive queues are the client's alone, and end with it: see ConnectionLost.
	Exclusive bool
	// AutoDelete queues end when their last consumer has gone.
	AutoDelete bool
	// Passive only asks whether the queue exists.
	Passive bool
}

// Exchange describes an exchange to declare (EX-4).
type Exchange struct {
	Vhost      string // "": "/"
	Name       string
	Type       string // direct, fanout, topic or headers
	AutoDelete bool
	Internal   bool
	Arguments  Table
	Passive    bool
}

// Binding routes from an exchange to a queue, or to an exchange if ToExchange is set.
type Binding struct {
	Vhost       string // "": "/"
	Source      string
	Destination string
	ToExchange  bool
	RoutingKey  string
	Arguments   Table
}

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
		Vhost: b.Vhost, Source: b.Source, DestinationType: kind, Destination: b.Destination,
		RoutingKey: b.RoutingKey, Arguments: args,
	}, nil
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

// DeclareQueue makes a queue unless an equivalent one exists.
func (c *Client) DeclareQueue(ctx context.Context, q Queue) (*brokerv1.DeclareQueueResponse, error) {
	args, err := q.Arguments.proto()
	if err != nil {
		return nil, err
	}
	if q.Exclusive && !q.Passive {
		if err := c.connect(ctx); err != nil {
			return nil, err
		}
	}
	r := &brokerv1.DeclareQueueRequest{
		Vhost: q.Vhost, Name: q.Name, Arguments: args, Passive: q.Passive, Exclusive: q.Exclusive, AutoDelete: q.AutoDelete,
	}
	if q.Transient {
		r.Durable = new(bool)
	}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.DeclareQueueRequest) (*brokerv1.DeclareQueueResponse, error) {
		return n.admin.DeclareQueue(ctx, r)
	})
	c.warn("queue", q.Name, out.GetWarnings())
	return out, err
}

// warn tells what a node says of what it has taken.
func (c *Client) warn(kind, name string, warnings []string) {
	for _, w := range warnings {
		c.cfg.OnWarning(kind + " " + strconv.Quote(name) + ": " + w)
	}
}

// DeleteQueue removes a queue with its messages; a missing one is no error.
func (c *Client) DeleteQueue(ctx context.Context, r *brokerv1.DeleteQueueRequest) (*brokerv1.DeleteQueueResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.DeleteQueueRequest) (*brokerv1.DeleteQueueResponse, error) {
		return n.admin.DeleteQueue(ctx, r)
	})
}

// RetryDelayed makes up to limit of a queue's delayed messages ready at once, those that are
// due first; 0 stands for all. It tells how many (DR-6).
func (c *Client) RetryDelayed(ctx context.Context, vhost, name string, limit uint64) (uint64, error) {
	r := &brokerv1.RetryDelayedRequest{Vhost: vhost, Name: name, Limit: limit}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.RetryDelayedRequest) (*brokerv1.RetryDelayedResponse, error) {
		return n.admin.RetryDelayed(ctx, r)
	})
	return out.GetMessages(), err
}

// PurgeQueue removes ready and delayed messages and the dead-letter backlog, and tells how many.
func (c *Client) PurgeQueue(ctx context.Context, vhost, name string) (uint64, error) {
	r := &brokerv1.PurgeQueueRequest{Vhost: vhost, Name: name}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.PurgeQueueRequest) (*brokerv1.PurgeQueueResponse, error) {
		return n.admin.PurgeQueue(ctx, r)
	})
	return out.GetMessages(), err
}

// GetQueue shows a queue with figures from its leader.
func (c *Client) GetQueue(ctx context.Context, vhost, name string) (*brokerv1.Queue, error) {
	r := &brokerv1.GetQueueRequest{Vhost: vhost, Name: name}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.GetQueueRequest) (*brokerv1.GetQueueResponse, error) {
		return n.admin.GetQueue(ctx, r)
	})
	return out.GetQueue(), err
}

// Queues lists all queues of a vhost, or of all vhosts if it is empty.
func (c *Client) Queues(ctx context.Context, vhost string, withStats bool) iter.Seq2[*brokerv1.Queue, error] {
	return pages(func(token string) ([]*brokerv1.Queue, string, error) {
		r := &brokerv1.ListQueuesRequest{Vhost: vhost, PageSize: 1000, PageToken: token, WithStats: withStats}
		out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ListQueuesRequest) (*brokerv1.ListQueuesResponse, error) {
			return n.admin.ListQueues(ctx, r)
		})
		return out.GetQueues(), out.GetNextPageToken(), err
	})
}

// DeclareExchange makes an exchange unless an equivalent one exists (EX-5), and tells
// whether it is new.
func (c *Client) DeclareExchange(ctx context.Context, x Exchange) (bool, error) {
	args, err := x.Arguments.proto()
	if err != nil {
		return false, err
	}
	r := &brokerv1.DeclareExchangeRequest{
		Vhost: x.Vhost, Name: x.Name, Type: x.Type, AutoDelete: x.AutoDelete, Internal: x.Internal,
		Arguments: args, Passive: x.Passive,
	}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.DeclareExchangeRequest) (*brokerv1.DeclareExchangeResponse, error) {
		return n.admin.DeclareExchange(ctx, r)
	})
	c.warn("exchange", x.Name, out.GetWarnings())
	return out.GetCreated(), err
}

// DeleteExchange removes an exchange; a missing one is no error (EX-6).
func (c *Client) DeleteExchange(ctx context.Context, vhost, name string, ifUnused bool) error {
	r := &brokerv1.DeleteExchangeRequest{Vhost: vhost, Name: name, IfUnused: ifUnused}
	_, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.DeleteExchangeRequest) (*brokerv1.DeleteExchangeResponse, error) {
		return n.admin.DeleteExchange(ctx, r)
	})
	return err
}

// Exchanges lists the exchanges of a vhost, or of all vhosts if it is empty.
func (c *Client) Exchanges(ctx context.Context, vhost string) iter.Seq2[*brokerv1.Exchange, error] {
	return pages(func(string) ([]*brokerv1.Exchange, string, error) {
		r := &brokerv1.ListExchangesRequest{Vhost: vhost}
		out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ListExchangesRequest) (*brokerv1.ListExchangesResponse, error) {
			return n.admin.ListExchanges(ctx, r)
		})
		return out.GetExchanges(), "", err
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

// Unbind takes a binding away; a missing one is no error (EX-13).
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
func (c *Client) Bindings(ctx context.Context, vhost string) iter.Seq2[*brokerv1.Binding, error] {
	return pages(func(string) ([]*brokerv1.Binding, string, error) {
		r := &brokerv1.ListBindingsRequest{Vhost: vhost}
		out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ListBindingsRequest) (*brokerv1.ListBindingsResponse, error) {
			return n.admin.ListBindings(ctx, r)
		})
		return out.GetBindings(), "", err
	})
}

// TransferLeadership moves a queue's leadership to a node; "" lets the leader choose.
func (c *Client) TransferLeadership(ctx context.Context, vhost, queue, node string) error {
	r := &brokerv1.TransferLeadershipRequest{Vhost: vhost, Queue: queue, Node: node}
	_, err := do(ctx, c, r, transferLeadership)
	return err
}

func transferLeadership(ctx context.Context, n *node, r *brokerv1.TransferLeadershipRequest) (*brokerv1.TransferLeadershipResponse, error) {
	return n.admin.TransferLeadership(ctx, r)
}
