package workload

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/client"
)

// confirmWindow bounds the unanswered messages of a publisher over AMQP.
const confirmWindow = 512

// Why a publish over AMQP has no known outcome.
var (
	errConnectionLost = errors.New("workload: the connection was lost before the answer")
	// errNacked is not a refusal for good: basic.nack also says that an outcome is not known.
	errNacked = errors.New("workload: nacked")
)

// amqpOutlet publishes over AMQP with confirms, and connects again when its connection is lost. What
// was not confirmed then is not sent again: AMQP has no way to send a message once for sure. Each
// connection is a session.
type amqpOutlet struct {
	dial    *dialer
	session int
	conn    *amqpConn     // nil: not connected
	window  chan struct{} // a token for each unanswered message
	lost    chan struct{} // closed when the session has ended

	mu      sync.Mutex
	tag     uint64                 // of the last publish of the session
	pending map[uint64]func(error) // by tag
}

func newAMQPOutlet(d *dialer) *amqpOutlet {
	return &amqpOutlet{dial: d, window: make(chan struct{}, confirmWindow)}
}

// ready connects if need be, for as long as it takes.
func (o *amqpOutlet) ready(ctx context.Context) (int, error) {
	select {
	case o.window <- struct{}{}: // the message's place
		<-o.window
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	for {
		if o.conn != nil {
			select {
			case <-o.lost:
				o.conn = nil
			default:
				return o.session, nil
			}
		}
		if err := o.connect(ctx); err != nil {
			return 0, err
		}
	}
}

// connect begins a session.
func (o *amqpOutlet) connect(ctx context.Context) error {
	l, err := o.dial.connect(ctx)
	if err != nil {
		return err
	}
	o.session++
	o.conn, o.lost, o.tag, o.pending = l, make(chan struct{}), 0, map[uint64]func(error){}
	confirms := l.NotifyPublish(make(chan amqp.Confirmation, confirmWindow))
	go o.confirm(confirms, l, o.lost)
	if err := l.Confirm(false); err != nil {
		l.cut() // which ends the session
		<-o.lost
		o.conn = nil
	}
	return nil
}

// confirm passes the session's answers on; at its end what is open stays unknown.
func (o *amqpOutlet) confirm(confirms <-chan amqp.Confirmation, l *amqpConn, lost chan struct{}) {
	for c := range confirms {
		if answered := o.take(c.DeliveryTag); answered != nil {
			var err error
			if !c.Ack {
				err = errNacked
			}
			answered(err)
		}
	}
	l.cut() // a channel that was closed by an error leaves its connection
	o.mu.Lock()
	open := o.pending
	o.pending = nil
	o.mu.Unlock()
	for _, answered := range open {
		<-o.window
		answered(errConnectionLost)
	}
	close(lost)
}

// take returns what is to be called for an answer, once.
func (o *amqpOutlet) take(tag uint64) func(error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	answered := o.pending[tag]
	if answered != nil {
		delete(o.pending, tag)
		<-o.window
	}
	return answered
}

// send hands the message to the session that ready returned; if that has ended meanwhile, its
// outcome is unknown like that of others.
func (o *amqpOutlet) send(ctx context.Context, _ int, m *post, body []byte, answered func(error)) error {
	o.window <- struct{}{} // ready has seen that there is room, and nobody else sends
	o.mu.Lock()
	if o.pending == nil {
		o.mu.Unlock()
		<-o.window
		answered(errConnectionLost)
		return nil
	}
	o.tag++
	o.pending[o.tag] = answered
	tag := o.tag
	o.mu.Unlock()
	err := o.conn.PublishWithContext(context.WithoutCancel(ctx), m.exchange, m.key, false, false, m.amqp(body))
	if err != nil {
		if answered := o.take(tag); answered != nil {
			answered(errors.Join(errConnectionLost, err))
		}
		o.conn.cut() // the library's count of tags and this one part here
	}
	return nil
}

// close looks now and then whether all is answered: few wait for it, and once.
func (o *amqpOutlet) close(ctx context.Context) error {
	if o.conn == nil {
		return nil
	}
	tick := time.NewTicker(idleFlush)
	defer tick.Stop()
	for open := true; open; {
		o.mu.Lock()
		open = len(o.pending) > 0
		o.mu.Unlock()
		if open {
			select {
			case <-o.lost:
			case <-tick.C:
			case <-ctx.Done():
				open = false
			}
		}
	}
	o.conn.leave()
	<-o.lost
	return nil
}

// amqp returns the message for the library. A delay is the header of an exchange for delayed
// messages (DLY-2).
func (m *post) amqp(body []byte) amqp.Publishing {
	out := amqp.Publishing{DeliveryMode: amqp.Persistent, Headers: table(m.headers), Priority: m.priority, Body: body}
	if m.ttl > 0 {
		out.Expiration = client.TTL(m.ttl)
	}
	if m.delay > 0 {
		if out.Headers == nil {
			out.Headers = amqp.Table{}
		}
		out.Headers["x-delay"] = m.delay.Milliseconds()
	}
	return out
}
