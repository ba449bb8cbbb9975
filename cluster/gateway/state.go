package gateway

import (
	"errors"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/quorumq/session"
)

// Queue is this node's end of one queue, as gateway for its clients. It sends messages and commands
// in order, and again after a change of leader, until they are answered (PUB-6). All methods may be
// called concurrently.
//
// The mutex mu guards all state. One goroutine at a time (running) sends and calls back, both
// without mu, so that sends and calls keep their order. If no goroutine is at work, a caller does
// it itself (publishedLocked, sendNowLocked, answerNow, deliverLocked). In all other cases, and for
// everything that gathers in the inbox meanwhile, the queue's own goroutine does it (run).
type Queue struct {
	g   *Gateway
	uid id.QueueUID

	mu      sync.Mutex
	running bool  // a goroutine works on the queue, or will
	ended   error // set once: the queue is gone or the node stops
	leaves  error // why consumers have ended: the queue is being deleted
	inbox   inbox
	looked  sync.Cond     // the inbox was emptied
	room    chan struct{} // closed when the window has room again
	waiters int           // calls of Enqueue that may wait for room
	waiting int           // messages accepted by Enqueue and not answered
	bytes   int64         // of their bodies

	publisher *session.Publisher[publishToken]
	enqueues  int // Enqueue commands in flight in this attempt
	ops       opQueue
	consumers map[uint64]*Consumer // by session
	gets      gets

	target   id.NodeID     // where commands go; "" while nobody is known to lead
	hint     id.NodeID     // the leader that another node has named
	rotation int           // goes through the members while no leader is known
	attempt  uint64        // grows whenever everything unanswered is sent again
	wait     time.Duration // before the next attempt; doubles
	blocked  bool          // until retryAt
	retryAt  time.Time
	alarm    alarm
}

// publishToken has what the answer to a message needs: whom to answer, and by when.
type publishToken struct {
	done     func(error)
	deadline time.Time // zero: none
	size     int       // bytes of body
}

// inbox holds what has happened to a Queue and is not processed yet.
type inbox struct {
	unsent     bool // there may be something to send
	answers    []response
	deliveries []traffic.Delivery
	bytes      int64 // of deliveries
	ops        []*op
	recalled   []*op
	notices    []quorumq.Notice
	leader     *id.NodeID // the leader that the local member reports
	lost       []id.NodeID
	tick       bool
	wake       bool
	leaves     bool     // the queue is being deleted: its consumers end
	parting    []func() // the last calls to the consumers of a queue that has ended
}

// any reports whether there is something to process. Every field counts but bytes, which belongs
// to deliveries.
func (in *inbox) any() bool {
	return len(in.answers)+len(in.deliveries)+len(in.ops)+len(in.recalled)+len(in.notices)+len(in.lost)+len(in.parting) > 0 ||
		in.leader != nil || in.unsent || in.tick || in.wake || in.leaves
}

// Consumer is a consumer of this node's client. All methods may be called concurrently.
// Its state belongs to the mutex of its queue.
type Consumer struct {
	q       *Queue
	cfg     ConsumerConfig
	key     quorumq.ConsumerKey
	tracker *session.Consumer
	open    bool          // the queue has registered it: tracker continues the queue's numbers
	base    quorumq.MsgID // the queue's id before the client's first
	// early holds deliveries that overtook the answer to the registration.
	early      []traffic.Delivery
	earlyBytes int64

	// kept holds, with auto-ack, deliveries in front of which others are missing, in order, until a resume is answered.
	kept []traffic.Delivery
	// handing counts the calls of handOver that are still to come.
	handing int
	// cancelled: the queue assigns it nothing more, and its client waits for what is pending. pendingSince is since when the
	// queue has sent none of that; zero: nothing is pending, or the client has no room for it.
	cancelled    bool
	pendingSince time.Time

	inFlight  int  // decisions sent in this attempt and not answered
	resuming  bool // a resume is in flight in this attempt
	space     space
	ended     bool
	why       error         // why it has ended, if its client has not closed it
	missed    bool          // its client has decided something since
	lost      bool          // the queue has ended it: nothing more is sent for it
	limit     quorumq.MsgID // newest credit, in the client's numbers
	crediting bool          // a Credit command waits for its answer
	credited  quorumq.MsgID // the limit in that command, or in the last one
	flushes   []flush
}

// flush waits until all decisions up to a number are answered.
type flush struct {
	upTo uint64
	done chan error
}

// ConsumerConfig has the settings and callbacks of a consumer; see quorumq.Checkout.
type ConsumerConfig struct {
	Prefetch  uint32
	Credit    bool
	Limit     quorumq.MsgID
	AutoAck   bool
	Priority  int32
	Exclusive bool
	// TimeoutMs is the consumer's own timeout, if HasTimeout (CT-1).
	HasTimeout bool
	TimeoutMs  int64
	// Deliver receives new deliveries in order, each once, with the client's numbers: its MsgID
	// begins at 1. It must not block, and owns the slice. The slice is empty when HasPending has
	// become false.
	Deliver func([]traffic.Delivery)
	// Skipped, if not nil, is called when some deliveries up to a number will never come, with how many: with auto-ack
	// they were lost with a leader or a connection (DEL-4), without it their ack deadline passed first. The queue counts
	// them in the consumer's credit. It is called in order with Deliver, and must not block.
	Skipped func(n uint64, upTo quorumq.MsgID)
	// Buffer, if not nil, limits the bytes passed to Deliver; its owner calls Release.
	Buffer *Buffer
	// Active, if not nil, is called with whether the consumer is the active one of a queue with a
	// single active consumer (SAC-4), in order and possibly repeatedly. It must not block.
	Active func(bool)
	// Revoked, if not nil, is called when the ack deadline of messages has passed and they are back
	// in the queue (CT-3). A change of leader may lose the call. It must not block.
	Revoked func(quorumq.MsgIDRange)
	// Ended is called once, as the last callback, when the consumer ends without Close: the queue
	// was deleted (traffic.ErrNoSuchQueue), is being deleted (traffic.ErrDrainDeleting), has
	// cancelled it (traffic.ErrConsumerGone), or had no leader to send what was pending when the
	// client had cancelled it (traffic.ErrUndelivered).
	Ended func(error)
}

// op is one command besides messages and decisions: it is sent in order with others and
// answered once.
type op struct {
	header   []byte
	bodies   [][]byte
	repeat   repeat
	recall   bool      // taken back if the context of do ends before it is sent
	deadline time.Time // zero: none
	done     func(opResult)
	// after, if not nil, is the consumer whose decisions go first.
	after *Consumer
	// opens, if not nil, is the consumer that this command registers.
	opens *Consumer

	sent      bool // in this attempt
	uncertain bool // an earlier attempt may have reached the log
	closed    bool // answered
}

// repeat is what to do if the outcome of a command is unknown.
type repeat uint8

const (
	// again: a repeat has no further effect, so send the command until it is answered.
	again repeat = iota
	// once: report traffic.ErrUnknownOutcome; the caller decides.
	once
	// never: like once, and a change of leader does not repeat the command while its outcome is open.
	never
)

// opResult is how an op ended: the queue's reply, or why there is none.
type opResult struct {
	reply    quorumq.Reply
	got      *traffic.Delivery
	repeated bool // an earlier attempt may have been carried out
	err      error
}

// opQueue holds a queue's unanswered commands in order. It belongs to the queue's mutex.
type opQueue struct {
	ops  []*op
	next int // first one not sent in this attempt
}

// request is a command that has been sent, with what its answer refers to.
type request struct {
	queue   *Queue
	attempt uint64
	kind    requestKind
	first   quorumq.Seq // enqueue
	n       int         // enqueue
	op      *op
	cons    *Consumer // outcome, resume
	number  uint64    // outcome
}

// requestKind is what the answer to a request refers to.
type requestKind uint8

const (
	requestEnqueue requestKind = iota
	requestOp
	requestOutcome
	requestResume
)

// response is the answer to a request.
type response struct {
	request request
	reply   quorumq.Reply
	got     *traffic.Delivery  // of a Get, with its body
	held    []traffic.Delivery // of a resume
	cut     bool               // of a resume: there is more
	err     error
	// behind is how many deliveries were in the inbox when the answer came: it takes effect after them.
	behind int
}

// accepted reports whether the queue has carried out the whole command, so that only the answer
// remains to be passed on.
func (a *response) accepted() bool {
	return a.err == nil && a.request.kind != requestResume && a.reply.Code == quorumq.CodeOK && len(a.reply.Refused) == 0
}

// errRefusedForGood marks a command that no leader will ever accept.
var errRefusedForGood = errors.New("cluster: command refused")
