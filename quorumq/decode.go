package quorumq

import (
	"fmt"

	"github.com/quorate/quorate/id"
)

// Decoder decodes commands into memory that it reuses. The zero value is ready. Only one goroutine may use it.
type Decoder struct {
	r reader

	enqueue       Enqueue
	transfer      Transfer
	checkout      Checkout
	cancel        Cancel
	credit        Credit
	settle        Settle
	requeue       Requeue
	discard       Discard
	get           Get
	expire        Expire
	purge         Purge
	configure     Configure
	backlogSettle BacklogSettle
	sessionClosed SessionClosed
	nodeDown      NodeDown
	nodeUp        NodeUp
	lead          Lead
	renew         Renew
	extend        Extend
	retryDelayed  RetryDelayed
	move          Move
	transact      Transact
	drainDelete   DrainDelete
	renumber      Renumber
	forgetSources ForgetSources
	seal          Seal

	messages    []NewMessage
	producers   []ProducerID
	deadLetters []DeadLetter
	msgIDs      []MsgIDRange
	seqs        []SeqRange
	places      []Place
	outputs     []Output
}

// Decode returns the command, which is valid until the next call. It accepts exactly what
// AppendCommand writes for a well-formed command and refuses everything else: unknown versions,
// kinds and flags, numbers out of range, trailing bytes. It never panics, and allocates no more
// than a small multiple of len(b).
func (d *Decoder) Decode(b []byte) (Command, error) {
	if d.r.nodes == nil {
		d.r.nodes = make(map[string]id.NodeID)
	}
	r := &d.r
	r.b, r.err = b, nil
	v := r.byte()
	switch v {
	case commandVersion, byte(RulesThird), versionPast, byte(RulesSeventh):
	default:
		if r.err == nil {
			return nil, fmt.Errorf("%w: quorumq: command has version %d, this node knows %d, %d, %d and %d",
				ErrNewer, v, commandVersion, RulesThird, versionPast, RulesSeventh)
		}
	}
	k := kind(r.byte())
	c := d.fields(k, v)
	err := r.end()
	if err == nil && versionOf(c) != v {
		err = errVersion
	}
	if err != nil {
		return nil, fmt.Errorf("decode command of kind %d: %w", k, err)
	}
	return c, nil
}

// fields reads what follows the kind, in the form of a version.
func (d *Decoder) fields(k kind, version byte) Command {
	r := &d.r
	switch k {
	case kindEnqueue:
		return d.decodeEnqueue(version)
	case kindTransfer:
		return d.decodeTransfer()
	case kindCheckout:
		return d.decodeCheckout()
	case kindCancel:
		d.cancel = Cancel{Consumer: r.consumer(), Requeue: r.bool()}
		return &d.cancel
	case kindCredit:
		d.credit = Credit{Consumer: r.consumer(), Limit: MsgID(r.u())}
		return &d.credit
	case kindSettle:
		d.settle = Settle{Consumer: r.consumer(), Ranges: d.decodeMsgIDRanges()}
		return &d.settle
	case kindRequeue:
		d.requeue = r.requeue()
		d.requeue.Ranges = d.decodeMsgIDRanges()
		return &d.requeue
	case kindDiscard:
		d.discard = Discard{Consumer: r.consumer()}
		d.discard.Failed, d.discard.HasAnnotations = outcome(r.flags(outcomeFlags))
		d.discard.Ranges = d.decodeMsgIDRanges()
		return &d.discard
	case kindGet:
		d.get = Get{Session: r.session(), AutoAck: r.bool()}
		return &d.get
	case kindExpire:
		return &d.expire
	case kindPurge:
		return &d.purge
	case kindConfigure:
		d.configure = Configure{Config: r.config()}
		return &d.configure
	case kindBacklogSettle:
		d.backlogSettle = BacklogSettle{Ranges: d.decodeSeqRanges()}
		return &d.backlogSettle
	case kindSessionClosed:
		d.sessionClosed = SessionClosed{Session: r.session()}
		if version >= byte(RulesThird) {
			d.sessionClosed.Unsent = Unsent{Tag: r.u32(), Ranges: d.decodeMsgIDRanges()}
		}
		return &d.sessionClosed
	case kindNodeDown:
		d.nodeDown = NodeDown{Node: r.node(), Epoch: id.Epoch(r.u())}
		return &d.nodeDown
	case kindNodeUp:
		d.nodeUp = NodeUp{Node: r.node(), Epoch: id.Epoch(r.u())}
		return &d.nodeUp
	case kindLead:
		d.lead = Lead{Node: r.node(), Term: r.u()}
		return &d.lead
	case kindExtend:
		d.extend = Extend{Consumer: r.consumer(), TimeoutMs: r.i()}
		r.check(d.extend.TimeoutMs > 0, errZero)
		d.extend.Ranges = d.decodeMsgIDRanges()
		return &d.extend
	case kindMove:
		d.move = Move{To: r.destination(), Places: d.decodePlaces()}
		return &d.move
	case kindRenew:
		return &d.renew
	case kindRetryDelayed:
		d.retryDelayed = RetryDelayed{Limit: r.u()}
		return &d.retryDelayed
	case kindTransact:
		d.transact = Transact{Consumer: r.consumer(), Ranges: d.decodeMsgIDRanges(), Outputs: d.decodeOutputs()}
		return &d.transact
	case kindDrainDelete:
		return &d.drainDelete
	case kindRenumber:
		return &d.renumber
	case kindForgetSources:
		d.forgetSources.Sources = d.forgetSources.Sources[:0]
		for range r.count(1) {
			d.forgetSources.Sources = append(d.forgetSources.Sources, id.QueueUID(r.u()))
		}
		return &d.forgetSources
	case kindSeal:
		d.seal = Seal{IfUnused: r.bool(), IfExpired: r.bool()}
		return &d.seal
	default:
		r.fail(fmt.Errorf("%w: quorumq: kind %d is unknown", ErrNewer, k))
		return nil
	}
}

// decodeEnqueue reads what putEnqueue writes. A unit of messages must end within the command, and have no producers.
func (d *Decoder) decodeEnqueue(version byte) *Enqueue {
	r := &d.r
	c := Enqueue{Enqueuer: EnqueuerKey{Node: r.node(), Epoch: id.Epoch(r.u())}}
	c.First, c.Answered = Seq(r.u()), Seq(r.u())
	r.check(c.First > 0, errZero)
	n := r.count(1)
	r.check(uint64(c.First)+uint64(n) >= uint64(c.First), errRange)
	d.messages, d.producers = d.messages[:0], d.producers[:0]
	joined := false
	for range n {
		m, flags := r.message()
		d.decodeProducer(&m, flags)
		if version >= versionPast {
			d.decodePast(&m)
		}
		r.check(m.Producer == nil || !joined && !m.Joined, errFlags)
		joined = m.Joined
		d.messages = append(d.messages, m)
		if r.err != nil {
			break
		}
	}
	r.check(!joined, errUnit)
	c.Messages = d.messages
	d.enqueue = c
	return &d.enqueue
}

// decodeTransfer reads what putTransfer writes. Dead letters have numbers, and nothing that only an Enqueue has.
func (d *Decoder) decodeTransfer() *Transfer {
	r := &d.r
	c := Transfer{Source: id.QueueUID(r.u()), Settled: Seq(r.u())}
	n := r.count(2)
	d.deadLetters = d.deadLetters[:0]
	for range n {
		l := DeadLetter{Seq: Seq(r.u())}
		var flags byte
		l.NewMessage, flags = r.message()
		r.check(l.Seq > 0, errZero)
		r.check(flags&(flagProducer|flagSameProducer|flagReadyAt|flagReadyAfter|flagJoined) == 0, errFlags)
		r.check(l.Size != VoidSize, errRange)
		d.deadLetters = append(d.deadLetters, l)
		if r.err != nil {
			break
		}
	}
	c.DeadLetters = d.deadLetters
	d.transfer = c
	return &d.transfer
}

// decodeCheckout reads what putCheckout writes. It refuses tag 0, which belongs to Get.
func (d *Decoder) decodeCheckout() *Checkout {
	r := &d.r
	c := Checkout{Consumer: r.consumer()}
	r.check(c.Consumer.Tag > 0, errZero)
	flags := r.flags(checkoutFlags)
	c.Credit = flags&flagCredit != 0
	c.AutoAck = flags&flagAutoAck != 0
	c.Exclusive = flags&flagExclusive != 0
	c.Prefetch, c.Limit = r.u32(), MsgID(r.u())
	priority := r.z()
	c.Priority = int32(priority)
	r.check(int64(c.Priority) == priority, errRange)
	if c.HasTimeout = flags&flagOwnTimeout != 0; c.HasTimeout {
		c.TimeoutMs = r.i()
	}
	d.checkout = c
	return &d.checkout
}

// decodeProducer reads a message's producer, as the flags say.
func (d *Decoder) decodeProducer(m *NewMessage, flags byte) {
	r := &d.r
	switch flags & (flagProducer | flagSameProducer) {
	case 0:
		return
	case flagProducer:
		d.producers = append(d.producers, r.producerID())
		m.Producer = &d.producers[len(d.producers)-1]
		if n := len(d.messages); n > 0 && d.messages[n-1].Producer != nil {
			r.check(*d.messages[n-1].Producer != *m.Producer, errFlags)
		}
	case flagSameProducer:
		n := len(d.messages)
		if n == 0 || d.messages[n-1].Producer == nil {
			r.fail(errFlags)
			return
		}
		m.Producer = d.messages[n-1].Producer
	default:
		r.fail(errFlags)
		return
	}
	m.ProducerSeq = r.u()
	r.check(m.ProducerSeq > 0, errZero)
}

// decodePast reads the past of a message of an Enqueue. A void has none.
func (d *Decoder) decodePast(m *NewMessage) {
	r := &d.r
	flags := r.flags(pastFlags)
	if flags&flagPast == 0 {
		r.check(flags == 0, errFlags)
		return
	}
	p := Past{At: Time(r.i()), DeliveryCount: r.u32(), AcquiredCount: r.u32(), Reason: Reason(r.byte())}
	r.check(p.DeliveryCount != VoidSize && p.AcquiredCount != VoidSize && p.Reason <= LastReason, errRange)
	if flags&flagPastAway != 0 {
		to := r.destination()
		r.check(to.Kind != ToNowhere && p.Reason == 0, errRange)
		p.To = &to
	}
	away := p.Reason != 0 || p.To != nil
	r.check(m.Size != VoidSize && !m.Joined && (!away || m.Delay == Delay{}), errFlags)
	m.Past = &p
}

// message reads a message without its producer, and returns the flags that say whether there is one.
func (r *reader) message() (NewMessage, byte) {
	flags := r.flags(messageFlags)
	m := NewMessage{Size: VoidSize, TTLMs: Unlimited, Priority: DefaultPriority}
	if flags&flagVoid == 0 {
		m.Size = r.u32()
		r.check(m.Size != VoidSize, errRange)
	}
	if flags&flagTTL != 0 {
		m.TTLMs = r.i()
	}
	if flags&flagPriority != 0 {
		m.Priority = r.byte()
		r.check(m.Priority != DefaultPriority, errRange)
	}
	m.Delay = r.delay(flags&flagReadyAt != 0, flags&flagReadyAfter != 0)
	m.Joined = flags&flagJoined != 0
	return m, flags
}

func outcome(flags byte) (failed, annotated bool) {
	return flags&flagFailed != 0, flags&flagAnnotations != 0
}

// requeue reads a Requeue without its ranges.
func (r *reader) requeue() Requeue {
	c := Requeue{Consumer: r.consumer()}
	flags := r.flags(requeueFlags)
	c.Failed, c.HasAnnotations = outcome(flags)
	c.Delay = r.delay(flags&flagRequeueAt != 0, flags&flagRequeueAfter != 0)
	return c
}

// delay reads the parts of a delay that are present.
func (r *reader) delay(at, ms bool) (d Delay) {
	if at {
		d.At = Time(r.i())
		r.check(d.At > 0, errZero)
	}
	if ms {
		d.Ms = r.i()
		r.check(d.Ms > 0, errZero)
	}
	return d
}

// decodeMsgIDRanges reads closed ranges. They may have any order, and keep it for Discard (DL-11).
func (d *Decoder) decodeMsgIDRanges() []MsgIDRange {
	r := &d.r
	d.msgIDs = d.msgIDs[:0]
	for range r.count(2) {
		first, more := r.u(), r.u()
		r.check(first > 0, errZero)
		r.check(first+more >= first, errRanges)
		d.msgIDs = append(d.msgIDs, MsgIDRange{First: MsgID(first), Last: MsgID(first + more)})
	}
	return d.msgIDs
}

// decodePlaces reads places; each has a message number.
func (d *Decoder) decodePlaces() []Place {
	r := &d.r
	d.places = d.places[:0]
	for range r.count(2) {
		p := Place{Order: r.u(), Return: r.u()}
		r.check(p.Number() > 0, errZero)
		d.places = append(d.places, p)
	}
	return d.places
}

// decodeOutputs reads what a Transact publishes; no output may be a void.
func (d *Decoder) decodeOutputs() []Output {
	r := &d.r
	d.outputs = d.outputs[:0]
	for range r.count(2) {
		o := Output{Exchange: r.text(), Size: r.u32()}
		r.check(o.Size != VoidSize, errRange)
		d.outputs = append(d.outputs, o)
	}
	return d.outputs
}

// decodeSeqRanges reads closed ranges in any order.
func (d *Decoder) decodeSeqRanges() []SeqRange {
	r := &d.r
	d.seqs = d.seqs[:0]
	for range r.count(2) {
		first, more := r.u(), r.u()
		r.check(first > 0, errZero)
		r.check(first+more >= first, errRanges)
		d.seqs = append(d.seqs, SeqRange{First: Seq(first), Last: Seq(first + more)})
	}
	return d.seqs
}

// producerID reads a producer's id.
func (r *reader) producerID() (id ProducerID) {
	if len(r.b) < len(id) {
		r.fail(errShort)
		return id
	}
	r.b = r.b[copy(id[:], r.b):]
	return id
}
