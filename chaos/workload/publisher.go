package workload

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// Publisher publishes numbered messages over gRPC, or in a workload over AMQP, and records their
// fate.
type Publisher struct {
	Client  *client.Client
	History *history.History
	Class   string // of the client, for its pauses; see history.Event
	Apart   string // why its pauses say nothing of a single fault, "" if they do
	VHost   string // "": "/"
	Queue   string // that it publishes to
	Size    int    // bytes of a body; at least that of a name
	Rate    int    // messages per second; 0: as fast as they are taken
	Count   uint64 // 0: until ctx ends
	// Progress, if set, is called for every answer.
	Progress func()

	amqp  *dialer                // it publishes over AMQP
	post  func(id uint64) post   // what it publishes; nil: to Queue
	burst int                    // it publishes so many at once; 0: 1
	every time.Duration          // between two messages, instead of Rate
	fates func(e *history.Event) // is called with every answer, if set

	number     int // of the publisher
	unanswered sync.WaitGroup
	confirmed  atomic.Uint64
}

// post is a message to publish, and the queues that it should reach.
type post struct {
	exchange, key string
	queues        []string
	size          int
	priority      uint8 // 0: none
	ttl, delay    time.Duration
	headers       map[string]any
}

// outlet takes a publisher's messages to a cluster.
type outlet interface {
	// ready waits until a message can be sent, and returns the session that it will belong to: over
	// what does not name its publisher, the order holds within a session alone.
	ready(ctx context.Context) (session int, err error)
	// send publishes within the session. answered is called once: with nil when the message is
	// confirmed, else with why it is not. An error says that it was not sent.
	send(ctx context.Context, session int, m *post, body []byte, answered func(error)) error
	// close waits for answers as long as ctx lasts; what is open then has an unknown outcome.
	close(ctx context.Context) error
}

// Confirmed returns how many messages are confirmed so far.
func (p *Publisher) Confirmed() uint64 { return p.confirmed.Load() }

// Run publishes until ctx ends or Count is reached, then waits for answers, at most for
// settle.
func (p *Publisher) Run(ctx context.Context, settle time.Duration) error {
	out, err := p.outlet()
	if err != nil {
		return err
	}
	p.number = p.History.Publisher()
	begin := time.Now()
	for id := uint64(1); (p.Count == 0 || id <= p.Count) && ctx.Err() == nil; id++ {
		if !p.pace(ctx, begin, id) {
			break
		}
		session, err := out.ready(ctx)
		if err != nil && ctx.Err() == nil {
			return errors.Join(err, out.close(ctx))
		}
		if err != nil {
			break
		}
		m := p.next(id)
		sent := p.History.Now()
		p.History.Add(history.Event{
			Kind: history.Published, Client: p.client(), Publisher: p.number, ID: id, Queues: m.queues, Session: session,
			TTL: m.ttl, Delay: m.delay, Priority: m.priority,
		})
		p.unanswered.Add(1)
		body := EncodeID(history.Message{Publisher: p.number, ID: id}, m.size)
		err = out.send(ctx, session, &m, body, func(err error) { p.answered(id, len(m.queues), sent, err) })
		if err != nil {
			p.answered(id, len(m.queues), sent, err)
			if ctx.Err() == nil {
				return errors.Join(err, out.close(ctx))
			}
		}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), settle)
	defer cancel()
	err = out.close(closing)
	p.unanswered.Wait()
	return err
}

// outlet opens the way to the cluster.
func (p *Publisher) outlet() (outlet, error) {
	if p.amqp != nil {
		return newAMQPOutlet(p.amqp), nil
	}
	pub, err := p.Client.Publisher(client.PublisherConfig{})
	return &grpcOutlet{pub: pub, vhost: p.VHost}, err
}

// pace waits for the message's turn; false: ctx has ended.
func (p *Publisher) pace(ctx context.Context, begin time.Time, id uint64) bool {
	if p.Rate <= 0 || p.burst > 1 && id%uint64(p.burst) != 0 {
		return ctx.Err() == nil
	}
	due := time.Duration(id) * time.Second / time.Duration(p.Rate)
	if p.every > 0 {
		due = time.Duration(id) * p.every
	}
	return wait.For(ctx, due-time.Since(begin)) == nil
}

// next returns what the message of this number is.
func (p *Publisher) next(id uint64) post {
	m := post{key: p.Queue}
	if p.post != nil {
		m = p.post(id)
	}
	if m.queues == nil {
		m.queues = []string{p.Queue}
	}
	if m.size == 0 {
		m.size = p.Size
	}
	return m
}

// client is the class that the history has of it.
func (p *Publisher) client() string {
	if p.Apart == "" {
		return p.Class
	}
	return Class(p.Class).apart(p.Apart)
}

// answered records one answer. What one of several queues has refused may be in the others.
func (p *Publisher) answered(id uint64, queues int, sent time.Duration, err error) {
	defer p.unanswered.Done()
	e := history.Event{Kind: outcomeOf(err), Client: p.client(), Publisher: p.number, ID: id, Sent: sent}
	if err != nil {
		e.Note = err.Error()
	}
	if e.Kind == history.Confirmed {
		p.confirmed.Add(1)
	}
	if e.Kind == history.Refused && queues > 1 {
		e.Kind = history.Unknown
	}
	p.History.Add(e)
	if p.fates != nil {
		p.fates(&e)
	}
	if p.Progress != nil {
		p.Progress()
	}
}

// outcomeOf returns what an answer says about a message.
func outcomeOf(err error) history.Kind {
	var not *client.NotConfirmedError
	var invalid *client.Error
	switch {
	case err == nil:
		return history.Confirmed
	case errors.As(err, &not):
		for _, r := range not.Result.Rejections {
			if r.Cause == "unknown" {
				return history.Unknown
			}
		}
		return history.Refused
	case errors.As(err, &invalid):
		return history.Refused
	default:
		return history.Unknown
	}
}

// grpcOutlet publishes over gRPC. Its messages are all of one session: the client numbers them
// (PUB-6).
type grpcOutlet struct {
	pub   *client.Publisher
	vhost string
}

func (*grpcOutlet) ready(context.Context) (int, error) { return 0, nil }

func (o *grpcOutlet) send(ctx context.Context, _ int, m *post, body []byte, answered func(error)) error {
	return o.pub.PublishAsync(ctx, m.grpc(o.vhost, body), func(_ client.Result, err error) { answered(err) })
}

func (o *grpcOutlet) close(ctx context.Context) error { return o.pub.Close(ctx) }

// grpc returns the message for the client.
func (m *post) grpc(vhost string, body []byte) client.Message {
	out := client.Message{
		VHost: vhost, Exchange: m.exchange, RoutingKey: m.key, Body: body, Delay: m.delay,
		Properties: client.Properties{DeliveryMode: 2, Headers: m.headers},
	}
	if m.priority > 0 {
		out.Priority = client.Priority(m.priority)
	}
	if m.ttl > 0 {
		out.Expiration = client.TTL(m.ttl)
	}
	return out
}
