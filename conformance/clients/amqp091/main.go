// Command amqp091 carries out the commands of conformance scenarios with amqp091-go.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// patience bounds each wait for something that must come, PATIENCE seconds.
func patience() time.Duration {
	s, err := strconv.Atoi(os.Getenv("PATIENCE"))
	if err != nil {
		s = 90
	}
	return time.Duration(s) * time.Second
}

type (
	object = map[string]any
	// command is a line of the input.
	command struct {
		Do         string     `json:"do"`
		Conn       string     `json:"conn"`
		Ch         string     `json:"ch"`
		Host       string     `json:"host"`
		Port       string     `json:"port"`
		User       string     `json:"user"`
		Password   string     `json:"password"`
		Vhost      string     `json:"vhost"`
		Heartbeat  int        `json:"heartbeat"`
		FrameMax   int        `json:"frame_max"`
		Q          string     `json:"q"`
		X          string     `json:"x"`
		To         string     `json:"to"`
		Type       string     `json:"type"`
		Key        string     `json:"key"`
		Body       string     `json:"body"`
		Tag        string     `json:"tag"`
		Delivery   uint64     `json:"delivery"`
		N          int        `json:"n"`
		Count      int        `json:"count"`
		Size       int        `json:"prefetch_size"`
		Of         string     `json:"of"`
		Args       amqp.Table `json:"args"`
		Props      object     `json:"props"`
		Headers    amqp.Table `json:"headers"`
		Passive    bool       `json:"passive"`
		Durable    bool       `json:"durable"`
		Exclusive  bool       `json:"exclusive"`
		AutoDelete bool       `json:"auto_delete"`
		Internal   bool       `json:"internal"`
		NoWait     bool       `json:"nowait"`
		IfUnused   bool       `json:"if_unused"`
		IfEmpty    bool       `json:"if_empty"`
		Mandatory  bool       `json:"mandatory"`
		Immediate  bool       `json:"immediate"`
		NoAck      bool       `json:"no_ack"`
		Multiple   bool       `json:"multiple"`
		Requeue    bool       `json:"requeue"`
		Global     bool       `json:"global"`
		Active     bool       `json:"active"`
		Secret     string     `json:"secret"`
	}
	// connection keeps the reason of its close, which the library reports once and to listeners alone.
	connection struct {
		*amqp.Connection
		gone closing
	}
	// channel gathers what the library hands over at any time: returns, cancels, deliveries.
	channel struct {
		*amqp.Channel
		conn      *connection
		gone      closing
		confirms  bool
		returns   chan amqp.Return
		cancelled chan string
		consumers map[string]<-chan amqp.Delivery
	}
	// closing has the reason of a close once done is closed.
	closing struct {
		done chan struct{}
		err  *amqp.Error
	}
)

// program has the connections by name, and the channels by "connection/channel", of the scenario
// that is under way.
type program struct {
	conns    map[string]*connection
	channels map[string]*channel
}

// main answers each line of the input with one line. The first line that it writes says which verbs
// it knows; a scenario with another verb is left out.
func main() {
	p := &program{}
	p.clear()
	out := json.NewEncoder(os.Stdout)
	_ = out.Encode(object{"client": "amqp091-go 1.16.0", "verbs": []string{
		"connect", "disconnect", "channel", "channel.close", "closed", "state", "sleep",
		"queue.declare", "queue.delete", "queue.purge", "queue.bind", "queue.unbind",
		"exchange.declare", "exchange.delete", "exchange.bind", "exchange.unbind",
		"publish", "returned", "flood", "get", "consume", "cancel", "cancelled", "deliveries", "collect",
		"publish-immediate", "ack", "nack", "reject", "recover", "recover-same", "qos", "qos-bytes", "confirm", "tx.select", "tx.commit", "tx.rollback",
		"flow", "waiting", "update-secret",
	}})
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var c command
		answer := object{}
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			answer["broken"] = err.Error()
		} else if answer, err = p.run(&c); err != nil {
			answer = p.fault(&c, err)
		}
		_ = out.Encode(answer)
	}
}

// clear closes all connections, between scenarios.
func (p *program) clear() {
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns, p.channels = map[string]*connection{}, map[string]*channel{}
}

// fault returns why a command failed: by a close that the server sent, or else.
func (p *program) fault(c *command, err error) object {
	conn, ch := p.conns[c.Conn], p.channels[c.Conn+"/"+c.Ch]
	closed := func(scope string, e *amqp.Error) object {
		return object{"fault": object{"scope": scope, "code": e.Code, "text": e.Reason}}
	}
	if conn != nil && conn.IsClosed() && conn.gone.wait() != nil {
		return closed("connection", conn.gone.err)
	}
	if ch != nil && ch.IsClosed() && ch.gone.wait() != nil {
		return closed("channel", ch.gone.err)
	}
	if e := (*amqp.Error)(nil); c.Do == "connect" && errors.As(err, &e) {
		return closed("connection", e)
	}
	return object{"broken": err.Error()}
}

// closes takes the reason of a close in the background. The library blocks on a listener that does
// not read.
func closes(c chan *amqp.Error) closing {
	x := closing{done: make(chan struct{}), err: &amqp.Error{}}
	go func() {
		if e := <-c; e != nil {
			*x.err = *e
		}
		close(x.done)
	}()
	return x
}

// wait returns the reason; nil if there was none or it does not come.
func (x *closing) wait() *amqp.Error {
	select {
	case <-x.done:
		if x.err.Code == 0 {
			return nil
		}
		return x.err
	case <-time.After(patience()):
		return nil
	}
}

// run carries out a command of a connection or of none, and hands those of channels on.
func (p *program) run(c *command) (object, error) {
	switch c.Do {
	case "reset":
		p.clear()
		return object{}, nil
	case "connect":
		return p.connect(c)
	case "channel":
		return p.open(c)
	case "sleep":
		time.Sleep(time.Duration(c.N) * time.Millisecond)
		return object{}, nil
	}
	conn, ch := p.conns[c.Conn], p.channels[c.Conn+"/"+c.Ch]
	if conn == nil {
		return nil, fmt.Errorf("no connection %s", c.Conn)
	}
	switch {
	case c.Do == "disconnect":
		return object{}, conn.Close()
	case c.Do == "update-secret":
		return object{}, conn.UpdateSecret(c.Secret, "why not")
	case c.Do == "state":
		if conn.IsClosed() {
			return object{"state": "closed"}, nil
		}
		return object{"state": "open"}, nil
	case c.Do == "closed" && c.Of == "connection":
		if conn.gone.wait() == nil {
			return nil, errors.New("the connection was not closed")
		}
		return nil, amqp.ErrClosed
	case ch == nil:
		return nil, fmt.Errorf("no channel %s", c.Ch)
	}
	return ch.run(c)
}

// connect opens a connection, as guest on / unless the command says otherwise.
func (p *program) connect(c *command) (object, error) {
	if c.User == "" {
		c.User, c.Password = "guest", "guest"
	}
	if c.Vhost == "" {
		c.Vhost = "/"
	}
	cfg := amqp.Config{
		Vhost: c.Vhost, FrameSize: c.FrameMax, Heartbeat: time.Duration(c.Heartbeat) * time.Second,
		SASL: []amqp.Authentication{&amqp.PlainAuth{Username: c.User, Password: c.Password}}, Properties: amqp.NewConnectionProperties(),
	}
	conn, err := amqp.DialConfig("amqp://"+c.Host+":"+c.Port, cfg)
	if err != nil {
		return nil, err
	}
	p.conns[c.Conn] = &connection{Connection: conn, gone: closes(conn.NotifyClose(make(chan *amqp.Error, 1)))}
	return object{"server": conn.Properties}, nil
}

// open opens a channel and registers its listeners at once, with room for all that a scenario
// causes.
func (p *program) open(c *command) (object, error) {
	conn := p.conns[c.Conn]
	if conn == nil {
		return nil, fmt.Errorf("no connection %s", c.Conn)
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	p.channels[c.Conn+"/"+c.Ch] = &channel{
		Channel: ch, conn: conn, gone: closes(ch.NotifyClose(make(chan *amqp.Error, 1))),
		returns: ch.NotifyReturn(make(chan amqp.Return, 1000)), cancelled: ch.NotifyCancel(make(chan string, 100)),
		consumers: map[string]<-chan amqp.Delivery{},
	}
	return object{}, nil
}

// run carries out what a channel does.
func (ch *channel) run(c *command) (object, error) {
	switch c.Do {
	case "channel.close":
		return object{}, ch.Close()
	case "closed":
		if ch.gone.wait() == nil {
			return nil, errors.New("the channel was not closed")
		}
		return nil, amqp.ErrClosed
	case "queue.declare", "queue.delete", "queue.purge", "queue.bind", "queue.unbind":
		return ch.queue(c)
	case "exchange.declare":
		if c.Passive {
			return object{}, ch.ExchangeDeclarePassive(c.X, c.Type, c.Durable, c.AutoDelete, c.Internal, c.NoWait, c.Args)
		}
		return object{}, ch.ExchangeDeclare(c.X, c.Type, c.Durable, c.AutoDelete, c.Internal, c.NoWait, c.Args)
	case "exchange.delete":
		return object{}, ch.ExchangeDelete(c.X, c.IfUnused, c.NoWait)
	case "exchange.bind":
		return object{}, ch.ExchangeBind(c.To, c.Key, c.X, c.NoWait, c.Args)
	case "exchange.unbind":
		return object{}, ch.ExchangeUnbind(c.To, c.Key, c.X, c.NoWait, c.Args)
	case "confirm":
		ch.confirms = true
		return object{}, ch.Confirm(c.NoWait)
	case "tx.select":
		return object{}, ch.Tx()
	case "tx.commit":
		return object{}, ch.TxCommit()
	case "tx.rollback":
		return object{}, ch.TxRollback()
	case "publish", "publish-immediate":
		return ch.publish(c)
	case "returned":
		return ch.returned(c)
	case "flood":
		return ch.flood(c)
	}
	return ch.consuming(c)
}

// queue carries out the methods of class queue.
func (ch *channel) queue(c *command) (object, error) {
	switch c.Do {
	case "queue.declare":
		declare := ch.QueueDeclare
		if c.Passive {
			declare = ch.QueueDeclarePassive
		}
		q, err := declare(c.Q, c.Durable, c.AutoDelete, c.Exclusive, c.NoWait, integers(c.Args))
		return object{"queue": q.Name, "messages": q.Messages, "consumers": q.Consumers}, err
	case "queue.delete":
		n, err := ch.QueueDelete(c.Q, c.IfUnused, c.IfEmpty, c.NoWait)
		return object{"messages": n}, err
	case "queue.purge":
		n, err := ch.QueuePurge(c.Q, c.NoWait)
		return object{"messages": n}, err
	case "queue.bind":
		return object{}, ch.QueueBind(c.Q, c.Key, c.X, c.NoWait, integers(c.Args))
	}
	return object{}, ch.QueueUnbind(c.Q, c.Key, c.X, integers(c.Args))
}

// consuming carries out what has to do with deliveries.
func (ch *channel) consuming(c *command) (object, error) {
	switch c.Do {
	case "get":
		d, ok, err := ch.Get(c.Q, c.NoAck)
		if err != nil || !ok {
			return object{"empty": true}, err
		}
		return object{"got": []any{message(&d)}}, nil
	case "consume":
		ds, err := ch.Consume(c.Q, c.Tag, c.NoAck, c.Exclusive, false, c.NoWait, integers(c.Args))
		if err != nil {
			return nil, err
		}
		ch.consumers[c.Tag] = ds
		return object{"tag": c.Tag}, nil
	case "cancel":
		return object{}, ch.Cancel(c.Tag, c.NoWait)
	case "cancelled":
		select {
		case tag := <-ch.cancelled:
			return object{"tag": tag}, nil
		case <-time.After(patience()):
			return nil, errors.New("no consumer was cancelled")
		}
	case "deliveries", "collect", "waiting":
		return ch.deliveries(c)
	case "flow":
		return object{}, ch.Flow(c.Active)
	case "ack":
		return object{}, ch.Ack(c.Delivery, c.Multiple)
	case "nack":
		return object{}, ch.Nack(c.Delivery, c.Multiple, c.Requeue)
	case "reject":
		return object{}, ch.Reject(c.Delivery, c.Requeue)
	case "recover", "recover-same":
		return object{}, ch.Recover(c.Do == "recover") //nolint:staticcheck // older programs use it
	case "qos", "qos-bytes":
		return object{}, ch.Qos(c.Count, c.Size, c.Global)
	}
	return nil, fmt.Errorf("unknown command %s", c.Do)
}

// deliveries waits for n messages of a consumer; collect acknowledges them as well, and waiting
// reports how many are there.
func (ch *channel) deliveries(c *command) (object, error) {
	ds, known := ch.consumers[c.Tag]
	if !known {
		return nil, fmt.Errorf("no consumer %s", c.Tag)
	}
	if c.Do == "waiting" {
		for n := 0; ; n++ {
			select {
			case <-ds:
			default:
				return object{"messages": n}, nil
			}
		}
	}
	got := make([]any, 0, c.N)
	late := time.After(patience())
	for len(got) < c.N {
		select {
		case d, more := <-ds:
			if !more {
				return nil, fmt.Errorf("%d of %d messages: %w", len(got), c.N, amqp.ErrClosed)
			}
			got = append(got, message(&d))
			if c.Do == "collect" {
				if err := d.Ack(false); err != nil {
					return nil, err
				}
			}
		case <-late:
			return nil, fmt.Errorf("%d of %d messages", len(got), c.N)
		}
	}
	return object{"got": got}, nil
}
