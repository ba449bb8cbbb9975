package sim

import (
	"encoding/binary"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// tag is at the front of each stored body and identifies what the simulation knows about it.
type tag uint64

const tagBytes = 8

func tagOf(b []byte) tag { return tag(binary.BigEndian.Uint64(b)) }

// meta is what a stored body is.
type meta struct {
	kind    metaKind
	msg     int // the message that a client published
	channel int // the client's ordered stream, with published
	seq     uint64
	level   uint8
	ttl     int64
	source  *copied // what died or was moved, with atMostOnce and transferred
	died    bool    // it has died once at least
	note    int64   // number of the annotation in it; 0: none (DEL-11)
	delayed bool    // its publisher wanted it later (DLY-1)
}

// metaKind is where a message came from.
type metaKind uint8

const (
	published metaKind = iota
	atMostOnce
	transferred
	annotation
	output // of a transaction, where that was decided
)

// tagged returns a body as it is stored.
func (w *world) tagged(m meta, msg *message.Message) []byte {
	w.metas = append(w.metas, m)
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 128), uint64(len(w.metas)-1))
	return message.Append(b, msg)
}

// clientMessage is the history of a client's message.
type clientMessage struct {
	stored   int // how often a queue has stored it
	answered bool
	accepted bool
	unknown  bool // given up without answer
}

// state is where a copy is. Each is in exactly one state at a time.
type state uint8

const (
	ready state = iota
	assigned
	backlog
	settled
	autoAcked
	handedOn  // at most once
	forwarded // every target has it
	dropped
	purged
	removed   // by an operator
	abandoned // when at-least-once ended (DL-27)

	states
)

// copied is one stored copy of a message in one queue.
type copied struct {
	l         *ledger
	ref       quorumq.BodyRef
	meta      *meta
	state     state
	at        quorumq.Time
	acquired  uint32
	failures  uint32
	due       quorumq.Time // not ready before; 0: it does not wait
	rejected  bool         // discarded by a consumer
	worn      bool         // it has failed too often (DEL-9)
	deadline  quorumq.Time // when its consumer has had it for too long; 0: never
	refused   bool         // never in the queue: refused into its backlog (LEN-5)
	released  bool
	dead      quorumq.Discarded
	notes     quorumq.BodyRef // of annotations
	note      int64           // number of the newest annotation, carried along
	dueBefore quorumq.Time    // when it was due that an operator made ready
	movedAt   int             // number of the Move that took it, 0: none
	view      uint64          // index of the catalog when it came there
	targets   []id.QueueUID
	rank      rank    // while it is ready and not delayed
	deaths    []death // newest first
}

// gift is an assignment of a copy to a consumer.
type gift struct {
	copy               *copied
	acquired, failures uint32
	notes              quorumq.BodyRef
	handed             bool // the client has it
}

// giftKey names a delivery.
type giftKey struct {
	consumer quorumq.ConsumerKey
	msg      quorumq.MsgID
}

// orderKey names a stream in which order holds.
type orderKey struct {
	channel int
	level   uint8
}

// sourceLog is what a target must remember of a source (DL-25).
type sourceLog struct {
	settled quorumq.Seq
	stored  map[quorumq.Seq]bool
	last    quorumq.Seq // highest stored
	refused bool        // it refused some, so that order may be lost (DL-29)
}

// ledger follows every copy in one queue by what is committed.
type ledger struct {
	w   *world
	g   *group
	now quorumq.Time
	// index is that of the newest command.
	index uint64

	config quorumq.Config
	ttl    [2]int64 // message TTLs that may have ruled the newest command
	copies map[quorumq.BodyRef]*copied
	count  [states]int

	held  map[quorumq.ConsumerKey]map[quorumq.MsgID]*copied
	gifts map[giftKey]*gift
	auto  map[quorumq.ConsumerKey]bool
	last  map[quorumq.ConsumerKey]quorumq.MsgID

	sessions  map[quorumq.SessionKey]bool
	suspected map[id.NodeID]quorumq.Time // when its sessions end (DC-1)
	epochs    map[id.NodeID]id.Epoch
	next      map[id.NodeID]quorumq.Seq
	producers map[quorumq.ProducerID]uint64
	sources   map[*group]*sourceLog

	storedUpTo      map[int]uint64      // newest message of a channel
	deliveredUpTo   map[orderKey]uint64 // newest first delivery
	deadLetters     map[quorumq.Seq]*copied
	deadLettersUpTo quorumq.Seq
	page            []quorumq.Discarded
	fresh           []*copied // stored or rejected by this command
	waiting         []*copied // not ready before their time
	goneNotes       []quorumq.BodyRef
	notes           map[quorumq.BodyRef]int               // bodies of annotations, and how many copies have them
	limit           map[quorumq.ConsumerKey]quorumq.MsgID // with credit

	deadlines ackDeadlines
	use       use
	places    map[quorumq.Place]quorumq.BodyRef // that operators have seen
	taken     int                               // by the newest Move
	freed     []*copied                         // by the newest RetryDelayed
	firstDue  quorumq.Time                      // of what the newest RetryDelayed left
	moves     int                               // how many there were
	before    quorumq.Config                    // in force when the newest command came
	order     order
	exempt    map[quorumq.ConsumerKey]bool // held messages when one consumer was made the active one
}

// newLedger begins empty, with the configuration that the queue begins with.
func newLedger(g *group, c quorumq.Config) *ledger {
	return &ledger{
		w: g.w, g: g, config: c, ttl: [2]int64{c.MessageTTLMs, c.MessageTTLMs},
		copies: make(map[quorumq.BodyRef]*copied),
		held:   make(map[quorumq.ConsumerKey]map[quorumq.MsgID]*copied), gifts: make(map[giftKey]*gift),
		auto: make(map[quorumq.ConsumerKey]bool), last: make(map[quorumq.ConsumerKey]quorumq.MsgID),
		sessions: make(map[quorumq.SessionKey]bool), suspected: make(map[id.NodeID]quorumq.Time),
		epochs: make(map[id.NodeID]id.Epoch), next: make(map[id.NodeID]quorumq.Seq),
		producers: make(map[quorumq.ProducerID]uint64), sources: make(map[*group]*sourceLog),
		storedUpTo: make(map[int]uint64), deliveredUpTo: make(map[orderKey]uint64),
		order:       order{ready: make(map[*copied]struct{})},
		deadLetters: make(map[quorumq.Seq]*copied), notes: make(map[quorumq.BodyRef]int),
		limit:     make(map[quorumq.ConsumerKey]quorumq.MsgID),
		deadlines: newAckDeadlines(), use: newUse(), places: make(map[quorumq.Place]quorumq.BodyRef), exempt: make(map[quorumq.ConsumerKey]bool),
	}
}

func (l *ledger) broke(rule, format string, args ...any) {
	l.w.broke(rule, "queue "+l.g.name+" ("+l.g.uid.String()+"): "+format, args...)
}

// move changes a copy's state.
func (l *ledger) move(c *copied, to state) {
	l.count[c.state]--
	c.state = to
	l.count[to]++
	delete(l.order.ready, c)
	if to == ready {
		l.order.ready[c] = struct{}{}
	}
	if to >= settled && c.notes != (quorumq.BodyRef{}) {
		l.notes[c.notes]--
		c.notes = quorumq.BodyRef{}
	}
}

// annotate gives a copy other annotations (DEL-11).
func (l *ledger) annotate(c *copied, notes quorumq.BodyRef) {
	if c.notes != (quorumq.BodyRef{}) {
		l.notes[c.notes]--
	}
	t, _ := l.g.body(notes)
	l.notes[notes]++
	c.notes, c.note = notes, l.w.metas[t].note
}

// due reports whether a copy's time may be over (TTL-1).
func (l *ledger) due(c *copied) bool { return l.dueBy(c, l.ttl[0]) || l.dueBy(c, l.ttl[1]) }

// dueBy reports whether the message is to expire, by its own time to live or by that of the queue.
func (l *ledger) dueBy(c *copied, queueTTL int64) bool {
	if c.due > 0 && c.acquired == 0 { // its time to live has not begun (DLY-1)
		return false
	}
	for _, ttl := range [...]int64{c.meta.ttl, queueTTL} {
		if ttl >= 0 && c.at+quorumq.Time(max(ttl, 1)) <= l.now {
			return true
		}
	}
	return false
}

// store records a new copy and judges it: nothing twice, nothing out of order.
func (l *ledger) store(ref quorumq.BodyRef, refused bool) {
	t, _ := l.g.body(ref)
	m := &l.w.metas[t]
	c := &copied{l: l, ref: ref, meta: m, state: ready, at: l.now, refused: refused, note: m.note}
	l.copies[ref] = c
	l.count[ready]++
	l.order.ready[c] = struct{}{}
	l.begin(c)
	c.rank.slot = ref.Slot
	l.fresh = append(l.fresh, c)
	if m.kind != published {
		l.storeDeadLetter(m)
		c.deaths = m.source.afterwards()
		l.judgeDeaths(c)
		l.judgeHops(m, ref)
		return
	}
	if refused {
		return
	}
	msg := &l.w.msgs[m.msg]
	if msg.stored++; msg.stored > 1 {
		l.broke("PUB-6", "message %d is stored a second time", m.msg)
	}
	if msg.answered && !msg.accepted {
		l.broke("PUB-5", "message %d is stored after its publisher was notified that it is not", m.msg)
	}
	if m.seq <= l.storedUpTo[m.channel] {
		l.broke("PUB-6", "message %d of channel %d is stored after number %d", m.seq, m.channel, l.storedUpTo[m.channel])
	}
	l.storedUpTo[m.channel] = m.seq
}

// storeDeadLetter: each target has at most one copy of a dead letter.
func (l *ledger) storeDeadLetter(m *meta) {
	s := m.source
	want, rule := handedOn, "DL-12"
	if m.kind == transferred {
		want, rule = backlog, "DL-25"
		l.w.result.DeadLetters++
	}
	for _, uid := range s.targets {
		if uid == l.g.uid {
			l.broke(rule, "a second copy of body %v of queue %s is stored", s.ref, s.l.g.name)
		}
	}
	// A purge, a settlement or the end of the source may overtake what is on the way.
	if s.state != want && s.state != purged && s.state != forwarded && s.state != abandoned {
		l.broke(rule, "body %v of queue %s is stored, which is in state %d", s.ref, s.l.g.name, s.state)
	}
	s.targets = append(s.targets, l.g.uid)
}

// hand records that a client got a delivery: once, with the truth about it (DEL-10).
func (l *ledger) hand(d *quorumq.Delivery) {
	g := l.gifts[giftKey{d.Consumer, d.MsgID}]
	switch {
	case g == nil:
		l.broke("invented", "consumer %v got number %d, which was never assigned", d.Consumer, d.MsgID)
	case g.handed:
		l.broke("DEL-12", "consumer %v got number %d twice", d.Consumer, d.MsgID)
	case g.copy.ref != d.Body || g.notes != d.Annotations || g.acquired != d.AcquiredCount || g.failures != d.DeliveryCount:
		l.broke("DEL-10", "consumer %v got number %d as %+v, the queue assigned %v with %d, %d", d.Consumer, d.MsgID, *d,
			g.copy.ref, g.acquired, g.failures)
	default:
		g.handed = true
		l.readable(d.Body, g.copy)
	}
}

// message reads a stored body.
func (l *ledger) message(ref quorumq.BodyRef) (*message.Message, error) {
	_, b := l.g.body(ref)
	return message.Decode(b)
}

// readable verifies that a body is the message that was published.
func (l *ledger) readable(ref quorumq.BodyRef, c *copied) {
	m, err := l.message(ref)
	if err != nil || len(m.Body) < tagBytes || int(tagOf(m.Body)) != c.meta.msg {
		l.broke("body", "body %v is not message %d: %v", ref, c.meta.msg, err)
		return
	}
	if (len(m.Deaths) > 0) != c.meta.died {
		l.broke("DL-30", "body %v has %d deaths", ref, len(m.Deaths))
	}
	note, _ := m.Annotations.Get(noteName)
	if want := c.meta.note; want != 0 && !note.Equal(message.Int64(want)) || want == 0 && len(m.Annotations) > 0 {
		l.broke("DEL-11", "body %v has annotations %v, want number %d", ref, m.Annotations, want)
	}
}
