package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/client"
)

// overEnv chooses the protocol of the cases: amqp, or gRPC if it is not set.
const overEnv = "QUORATE_CASES_OVER"

// notOverAMQP are the cases of which nothing, or not what they are about, has a form in AMQP
// 0-9-1, with the reason. Those that stop nodes must be here: a case that is skipped later
// would leave them so.
var notOverAMQP = map[string]string{
	"TestT149": "its load and its check are the chaos runner's, over gRPC",
	"TestT001": "over AMQP a connection is opened in a vhost, and refused there (NOT_ALLOWED)",
	"TestT002": "about users and rights, over the same broker for both protocols",
	"TestT003": "about users and rights, over the same broker for both protocols",
	"TestT006": "about users and rights, over the same broker for both protocols",
	"TestT024": "sends faulty requests that are gRPC's; AMQP's have tests of their own",
	"TestT038": "about policies, which AMQP has no methods for",
	"TestT039": "about policies, which AMQP has no methods for",
	"TestT135": "no method of AMQP notifies a consumer whether it is the active one",
	"TestT148": "publishes with a time of delivery, for which AMQP has no field",
	"TestT155": "about members of queues, on nodes of its own",
	"TestT362": "looks at what gRPC has of counts, deaths and annotations",
	"TestT350": "a delete over AMQP does not report whether it goes on",
	"TestT351": "a delete over AMQP does not report whether it goes on, nor discards",
	"TestT352": "about figures of nodes, which AMQP has no methods for",
	"TestT152": "returns messages with a delay, for which AMQP has no field",
	"TestT158": "over AMQP the end of a vhost closes its connections, which has a test of its own (VH-2)",
	"TestT301": "about definitions, which AMQP has no methods for",
	"TestT303": "about definitions, which AMQP has no methods for",
	"TestT304": "about definitions, which AMQP has no methods for",
}

// protocol is the client of a case. Over AMQP what has a form there goes by amqp091-go;
// the rest, such as figures, policies and jobs, has none and stays with gRPC: so both kinds of
// client use the same queues (AM-9).
type protocol struct {
	*client.Client
	amqp *overAMQP // nil: all goes over gRPC
}

// newProtocol returns the client of a case.
func newProtocol(t *testing.T, w *world) protocol {
	t.Helper()
	switch over := os.Getenv(overEnv); over {
	case "":
		return protocol{Client: w.client}
	case "amqp":
	default:
		t.Fatalf("%s is %q: use amqp, or leave it empty for gRPC", overEnv, over)
	}
	if why, not := notOverAMQP[t.Name()]; not {
		t.Skip(why)
	}
	a := &overAMQP{t: t, world: w, conns: map[string]*amqp.Connection{}, taken: map[string]taken{}}
	for _, n := range w.cluster.Nodes {
		a.addresses = append(a.addresses, n.AMQP)
	}
	t.Cleanup(a.close)
	return protocol{Client: w.client, amqp: a}
}

// another returns a further client, and what ends it.
func (k *kase) another() (p protocol, hangUp func()) {
	k.Helper()
	if k.client.amqp != nil {
		a := &overAMQP{t: k.T, world: k.world, addresses: k.client.amqp.addresses, conns: map[string]*amqp.Connection{}, taken: map[string]taken{}}
		return protocol{Client: k.client.Client, amqp: a}, a.hangUp
	}
	c, err := client.Dial(k.ctx, client.Config{Addresses: k.cluster.Addresses()})
	k.must(err)
	return protocol{Client: c}, c.Close
}

func (p protocol) DeclareQueue(ctx context.Context, q client.Queue) (client.QueueDeclared, error) {
	if p.amqp == nil || q.Exclusive { // which belongs to its connection, over which calls follow
		return p.Client.DeclareQueue(ctx, q)
	}
	var r client.QueueDeclared
	err := p.amqp.do(q.VHost, func(ch *amqp.Channel) error {
		declare := ch.QueueDeclare
		if q.Passive {
			declare = ch.QueueDeclarePassive
		}
		got, err := declare(q.Name, !q.Transient, q.AutoDelete, q.Exclusive, false, tableOf(q.Arguments))
		r.Name, r.MessageCount, r.ConsumerCount = got.Name, uint64(got.Messages), uint32(got.Consumers) // counts
		return err
	})
	return r, err
}

func (p protocol) DeclareExchange(ctx context.Context, x client.Exchange) (bool, error) {
	if p.amqp == nil {
		return p.Client.DeclareExchange(ctx, x)
	}
	return false, p.amqp.do(x.VHost, func(ch *amqp.Channel) error {
		declare := ch.ExchangeDeclare
		if x.Passive {
			declare = ch.ExchangeDeclarePassive
		}
		return declare(x.Name, x.Type, true, x.AutoDelete, x.Internal, false, tableOf(x.Arguments))
	})
}

func (p protocol) DeleteExchange(ctx context.Context, vhost, name string, ifUnused bool) error {
	if p.amqp == nil {
		return p.Client.DeleteExchange(ctx, client.DeleteExchangeRequest{VHost: vhost, Name: name, IfUnused: ifUnused})
	}
	return p.amqp.do(vhost, func(ch *amqp.Channel) error { return ch.ExchangeDelete(name, ifUnused, false) })
}

func (p protocol) Bind(ctx context.Context, b client.Binding) error {
	if p.amqp == nil {
		return p.Client.Bind(ctx, b)
	}
	return p.amqp.do(b.VHost, func(ch *amqp.Channel) error {
		if b.ToExchange {
			return ch.ExchangeBind(b.Destination, b.RoutingKey, b.Source, false, tableOf(b.Arguments))
		}
		return ch.QueueBind(b.Destination, b.RoutingKey, b.Source, false, tableOf(b.Arguments))
	})
}

func (p protocol) Unbind(ctx context.Context, b client.Binding) error {
	if p.amqp == nil {
		return p.Client.Unbind(ctx, b)
	}
	return p.amqp.do(b.VHost, func(ch *amqp.Channel) error {
		if b.ToExchange {
			return ch.ExchangeUnbind(b.Destination, b.RoutingKey, b.Source, false, tableOf(b.Arguments))
		}
		return ch.QueueUnbind(b.Destination, b.RoutingKey, b.Source, tableOf(b.Arguments))
	})
}

func (p protocol) DeleteQueue(ctx context.Context, r client.DeleteQueueRequest) (client.QueueDeleted, error) {
	if p.amqp == nil {
		return p.Client.DeleteQueue(ctx, r)
	}
	var out client.QueueDeleted
	err := p.amqp.do(r.VHost, func(ch *amqp.Channel) error {
		n, err := ch.QueueDelete(r.Name, r.IfUnused, r.IfEmpty, false)
		out.Ready = uint64(n) // a count
		return err
	})
	return out, err
}

func (p protocol) PurgeQueue(ctx context.Context, vhost, name string) (n uint64, err error) {
	if p.amqp == nil {
		return p.Client.PurgeQueue(ctx, client.QueueRef{VHost: vhost, Name: name})
	}
	err = p.amqp.do(vhost, func(ch *amqp.Channel) error {
		purged, err := ch.QueuePurge(name, false)
		n = uint64(purged) // a count
		return err
	})
	return n, err
}

func (p protocol) SettleAndPublish(ctx context.Context, token string, outputs ...client.Message) error {
	if p.amqp != nil {
		p.amqp.t.Skip("AMQP settles and publishes as one in transactions, which have tests of their own (AM-7)")
	}
	return p.Client.SettleAndPublish(ctx, client.SettleAndPublishRequest{Token: token, Outputs: outputs})
}

// PublishOne publishes on a channel of its own, which ends if the message is at fault.
func (p protocol) PublishOne(ctx context.Context, m client.Message) (client.Result, error) {
	if p.amqp == nil {
		return p.Client.PublishOne(ctx, m)
	}
	if m.Delay != 0 || !m.DeliverAt.IsZero() {
		p.amqp.t.Skip("AMQP has no field for the time of delivery, but the header x-delay where a vhost wants that")
	}
	if m.Priority != nil && *m.Priority == 0 {
		p.amqp.t.Skip("amqp091-go sends no priority 0: it stands for none")
	}
	var r client.Result
	err := p.amqp.do(m.VHost, func(ch *amqp.Channel) (err error) {
		r, err = publishOn(ctx, ch, m)
		return err
	})
	return r, err
}

func publishOn(ctx context.Context, ch *amqp.Channel, m client.Message) (client.Result, error) {
	if err := ch.Confirm(false); err != nil {
		return client.Result{}, err
	}
	returns := ch.NotifyReturn(make(chan amqp.Return, 1))
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, 1))
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := ch.PublishWithContext(ctx, m.Exchange, m.RoutingKey, m.Mandatory, false, publishingOf(m)); err != nil {
		return client.Result{}, err
	}
	select {
	case c, open := <-confirms:
		if !open {
			return client.Result{}, <-closed
		}
		r := client.Result{Outcome: client.Confirmed}
		select {
		case <-returns: // it comes before the confirm
			r.Outcome = client.Returned
		default:
		}
		if !c.Ack {
			r.Outcome = client.Rejected
		}
		if r.Outcome != client.Confirmed {
			return r, &client.NotConfirmedError{Result: r}
		}
		return r, nil
	case err := <-closed:
		return client.Result{}, err
	case <-ctx.Done():
		return client.Result{}, ctx.Err()
	}
}

// overAMQP makes the calls of a case. Connections are opened as they are needed, one for
// a vhost; each call has a channel of its own, since a refusal ends it.
type overAMQP struct {
	t         *testing.T
	world     *world
	addresses []string
	conns     map[string]*amqp.Connection
	taken     map[string]taken
	calls     int
}

// taken is what was got and is not settled.
type taken struct {
	ch  *amqp.Channel
	tag uint64
}

// close ends a case, which has nothing to say of AMQP if neither it nor a part of it called.
func (a *overAMQP) close() {
	_, called := a.world.overAMQP.Load(a.t.Name())
	if !called && !strings.Contains(a.t.Name(), "/") && !a.t.Skipped() && !a.t.Failed() {
		a.t.Errorf("nothing of the case goes over AMQP: name it in notOverAMQP")
	}
	a.hangUp()
}

func (a *overAMQP) hangUp() {
	for _, c := range a.conns {
		_ = c.Close() // it may be closed by a fault that the case made
	}
}

func (a *overAMQP) conn(vhost string) (*amqp.Connection, error) {
	if vhost == "" {
		vhost = "/"
	}
	if c := a.conns[vhost]; c != nil && !c.IsClosed() {
		return c, nil
	}
	var err error
	for _, address := range a.addresses { // a case may have stopped some
		var c *amqp.Connection
		if c, err = amqp.DialConfig("amqp://guest:guest@"+address, amqp.Config{Vhost: vhost}); err == nil {
			a.conns[vhost] = c
			return c, nil
		}
	}
	return nil, errorOf(err)
}

// channel opens one.
func (a *overAMQP) channel(vhost string) (*amqp.Channel, error) {
	a.calls++
	whole, _, _ := strings.Cut(a.t.Name(), "/")
	a.world.overAMQP.Store(whole, true)
	c, err := a.conn(vhost)
	if err != nil {
		return nil, err
	}
	ch, err := c.Channel()
	return ch, errorOf(err)
}

// do makes a call on a channel of its own.
func (a *overAMQP) do(vhost string, call func(*amqp.Channel) error) error {
	ch, err := a.channel(vhost)
	if err != nil {
		return err
	}
	err = call(ch)
	if closing := ch.Close(); err == nil && !errors.Is(closing, amqp.ErrClosed) {
		err = closing
	}
	return errorOf(err)
}

// classes are the errors' classes by AMQP's codes.
var classes = map[int]client.Class{
	amqp.NotFound: client.NotFound, amqp.AccessRefused: client.AccessRefused, amqp.ResourceLocked: client.ResourceLocked,
	amqp.PreconditionFailed: client.PreconditionFailed, amqp.NotAllowed: client.NotAllowed,
	amqp.NotImplemented: client.NotImplemented, amqp.ResourceError: client.Unavailable,
}

// errorOf gives an AMQP exception the form of the client's errors.
func errorOf(err error) error {
	var e *amqp.Error
	if !errors.As(err, &e) {
		return err
	}
	if e == nil {
		return errors.New("the channel was closed")
	}
	class, known := classes[e.Code]
	if !known {
		return fmt.Errorf("code %d: %w", e.Code, err)
	}
	return &client.Error{Class: class, Text: e.Reason}
}

// named fails unless an error names the thing: in a field, or over AMQP in its text.
func (k *kase) named(e *client.Error, name string) {
	k.Helper()
	if k.client.amqp == nil {
		k.same("name in the error", e.Name, name)
	} else if !strings.Contains(e.Text, "'"+name+"'") {
		k.Errorf("the error %q does not name %s", e.Text, name)
	}
}

// routed fails unless so many queues took a message, which AMQP does not report.
func (k *kase) routed(r client.Result, queues int) {
	k.Helper()
	if k.client.amqp == nil {
		k.same("queues", r.Queues, queues)
	}
}

// rejected fails unless a queue's length limit rejected a message. AMQP's basic.nack does
// not say which queue it was, nor why.
func (k *kase) rejected(err error, queue string) {
	k.Helper()
	var not *client.NotConfirmedError
	if !errors.As(err, &not) || not.Result.Outcome != client.Rejected {
		k.Errorf("%v, want a rejection", err)
		return
	}
	all := not.Result.Rejections
	if k.client.amqp == nil && (len(all) != 1 || all[0].Cause != "maxlen" || queue != "" && all[0].Queue != queue) {
		k.Errorf("%v, want a rejection for maxlen by %s", err, queue)
	}
}
