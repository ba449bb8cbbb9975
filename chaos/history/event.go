package history

import (
	"fmt"
	"time"
)

// Kind is what an event of a history is about.
type Kind string

// The kinds of events. Those of a message name Publisher and ID; those of a fault name Fault.
const (
	// Began is the first event of a run: Settings say how the run was made.
	Began Kind = "began"

	// Declared gives the properties of Queue, which determine the possible outcomes of its messages.
	Declared Kind = "declared"
	// Deleted means that Queue is gone, or may be.
	Deleted Kind = "deleted"

	// Published: a publisher began to publish. Queues are those that the message should reach.
	Published Kind = "published"
	// Confirmed: the message is stored in all of its queues.
	Confirmed Kind = "confirmed"
	// Refused: the message is not stored, and will not be.
	Refused Kind = "refused"
	// Unknown: the message may be stored, now or later.
	Unknown Kind = "unknown"

	// Delivered: Consumer received the message from Queue.
	Delivered Kind = "delivered"
	// Deciding: Consumer began to settle the delivery with Outcome; it may not have counted.
	Deciding Kind = "deciding"
	// Decided: the settlement is committed.
	Decided Kind = "decided"
	// Active and Inactive bound the time in which Consumer was the single active one of Queue,
	// as it was notified.
	Active   Kind = "active"
	Inactive Kind = "inactive"
	// Opened and Lost bound a consumer's life: what it had not settled comes again (Lost). It had been asked for when it
	// was opened, or before (Sent).
	Opened Kind = "opened"
	Lost   Kind = "lost"

	// Fault: Nodes are hit by what Note names, a fault of Class. Healed ends it. Bit says in Note what shows that it
	// was felt, with Again; without it nothing does. Its Nodes have those that the fault added, too. A Bit of no Fault is
	// about what the workload needs whose queues have the prefix Queue.
	Fault  Kind = "fault"
	Bit    Kind = "bit"
	Healed Kind = "healed"
	// Led: every queue has had a leader again, since the last fault was healed.
	Led Kind = "led"
	// Ended: Node had ended without a fault that lasted there, and was started again.
	Ended Kind = "ended"
	// Leader: Node leads Queue from now on; without a Node nobody does, or nobody reports it.
	Leader Kind = "leader"

	// Drained: Queue was empty at the end. Left: it holds Messages at the end, Note has the reason.
	Drained Kind = "drained"
	Left    Kind = "left"

	// Register is an operation on a register, for the linearizability of declare and delete: Op.
	Register Kind = "register"
	// Digest is a member's state at the end: Queue, Node, Index and Note, its digest.
	Digest Kind = "digest"
	// Resources are a node's, Figures by name; Note is Cold, Warm or End.
	Resources Kind = "resources"
)

// Notes of Resources: when they were looked at. The end is compared with the last look before it.
const (
	Cold = "begin" // before anything was published
	Warm = "warm"  // under load, with caches full and no fault
	End  = "end"   // after all queues were drained
)

// Outcome is how a consumer settles a delivery.
type Outcome string

// The outcomes.
const (
	Ack     Outcome = "ack"
	Requeue Outcome = "requeue" // counts as a failed attempt (DLV-9)
	Return  Outcome = "return"  // goes back without counting
	Discard Outcome = "discard" // dead-letters the message
	// Replace acks the message and publishes what its Transaction has in its place, as one decision
	// (G-22).
	Replace Outcome = "replace"
)

// Event is one line of a history.
type Event struct {
	At   time.Duration `json:"at"` // since the history began, by the harness's monotonic clock
	Kind Kind          `json:"kind"`
	// Client is the class of the client, for the pauses of each class: its protocol and the nodes
	// that it knows, for example grpc/all or amqp/one.
	Client string `json:"client,omitempty"`
	Queue  string `json:"queue,omitempty"`

	Publisher int           `json:"publisher,omitempty"` // unique in the history, from 1
	ID        uint64        `json:"id,omitempty"`        // ascending for each publisher, from 1
	Queues    []string      `json:"queues,omitempty"`    // Published
	TTL       time.Duration `json:"ttl,omitempty"`       // Published: the message's own; 0: none
	Delay     time.Duration `json:"delay,omitempty"`     // Published: not delivered before; 0: none
	Priority  uint8         `json:"priority,omitempty"`  // Published
	Resend    bool          `json:"resend,omitempty"`    // Published: an ID that was published before
	// Transaction is that of which a Published, Deciding or Decided is a part, unique in the history.
	Transaction int `json:"transaction,omitempty"`
	Session     int `json:"session,omitempty"` // Published: the order of a publisher holds within one
	// Sent is when a Confirmed message was published, and when the client began to ask for what was Opened; 0: not known.
	Sent time.Duration `json:"sent,omitempty"`

	Consumer string  `json:"consumer,omitempty"` // unique in the history
	Prefetch uint32  `json:"prefetch,omitempty"` // Opened: how many deliveries it may hold unsettled
	Acquired uint32  `json:"acquired,omitempty"` // Delivered: earlier deliveries
	Count    uint32  `json:"count,omitempty"`    // Delivered: failed attempts
	Again    bool    `json:"again,omitempty"`    // Delivered: the flag redelivered
	Deaths   []Death `json:"deaths,omitempty"`   // Delivered: newest first
	Outcome  Outcome `json:"outcome,omitempty"`  // Deciding, Decided

	Spec *Queue `json:"spec,omitempty"` // Declared

	Settings *Settings `json:"settings,omitempty"` // Began

	Fault    int                `json:"fault,omitempty"` // pairs Fault, Bit and Healed; from 1
	Class    string             `json:"class,omitempty"` // Fault: what the limits of pauses are given for
	Short    bool               `json:"short,omitempty"` // Fault: some queue was not seen with all its members before
	Nodes    []string           `json:"nodes,omitempty"`
	Node     string             `json:"node,omitempty"`
	Index    uint64             `json:"index,omitempty"`
	Messages uint64             `json:"messages,omitempty"`
	Figures  map[string]float64 `json:"figures,omitempty"`
	Op       *Operation         `json:"op,omitempty"` // Register
	Note     string             `json:"note,omitempty"`
}

// Death is one way in which a message left a queue, and how often (DL-30).
type Death struct {
	Queue  string `json:"queue"`
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}

// Queue is what a checker must know of a queue. Zero values are the absence of the property.
type Queue struct {
	// DeadTo is the queue that dead letters reach, exactly once (DL-25); empty: they are dropped.
	DeadTo string `json:"dead_to,omitempty"`
	// AtMostOnce means that dead letters may be lost on their way instead, and none arrives twice (DL-10, DL-12).
	AtMostOnce bool `json:"at_most_once,omitempty"`
	// DeliveryLimit is the number of failed attempts after which a message is dead-lettered;
	// negative: none.
	DeliveryLimit int           `json:"delivery_limit"`
	TTL           time.Duration `json:"ttl,omitempty"`
	SingleActive  bool          `json:"single_active,omitempty"`
	// Ordered means that each publisher's messages are delivered in its order (PUB-6): false where priorities, delays
	// or several paths to the queue are used.
	Ordered bool `json:"ordered,omitempty"`
	// DeadFan are further queues that all dead letters reach, through a fan-out exchange.
	DeadFan []string `json:"dead_fan,omitempty"`
	// Priorities means that messages of a higher priority are delivered first (PR-1).
	Priorities bool `json:"priorities,omitempty"`
	// Family names the queues among which operators move messages of this one, and redrive its dead
	// letters (G-13); Moved is set too.
	Family string `json:"family,omitempty"`
	// Moved means that operators move messages into or out of the queue, so deliveries as new may repeat.
	Moved bool `json:"moved,omitempty"`
}

// Settings are how a run was made, and what its history is judged by.
type Settings struct {
	At      time.Time `json:"at"` // the harness's wall clock when the history began, for the nodes' logs
	Seed    uint64    `json:"seed"`
	Command string    `json:"command,omitempty"` // that makes the run again
	Build   string    `json:"build,omitempty"`   // of the nodes
	Machine string    `json:"machine,omitempty"`
	Target  string    `json:"target,omitempty"` // how nodes are run
	Nodes   []string  `json:"nodes,omitempty"`
	// Workloads run side by side.
	Workloads []Workload    `json:"workloads,omitempty"`
	Length    time.Duration `json:"length"`
	Rate      int           `json:"rate"` // messages per second of each workload
	// MaxPause is the factor by which pauses may be longer than the limits for a quiet machine;
	// 0: pauses are measured, not judged, and other limits of time are check.BusyFactor times as long.
	MaxPause float64 `json:"max_pause,omitempty"`
}

// Workload is what clients did in a run.
type Workload struct {
	Name   string `json:"name"`
	Does   string `json:"does"`
	Prefix string `json:"prefix"` // of the names of its queues
	// Protocols are those of its clients: grpc, amqp.
	Protocols []string `json:"protocols,omitempty"`
}

// Operation is one call on a register, such as a queue's name, which exists or does not. The value
// of a register that nobody has written is empty.
type Operation struct {
	Client int           `json:"client"`
	Name   string        `json:"name"`  // of the register
	Write  bool          `json:"write"` // else a read
	Value  string        `json:"value"` // written or read
	Call   time.Duration `json:"call"`
	Return time.Duration `json:"return"`
	// Uncertain means that the outcome of a write is unknown: it may take effect at any time after Call.
	Uncertain bool `json:"uncertain,omitempty"`
}

// Message names a message of a history.
type Message struct {
	Publisher int
	ID        uint64
}

// String returns publisher/id.
func (m Message) String() string { return fmt.Sprintf("%d/%d", m.Publisher, m.ID) }

// Message returns the message that the event is about; zero if it is about none.
func (e *Event) Message() Message { return Message{e.Publisher, e.ID} }

// String describes what was done, for people.
func (o *Operation) String() string {
	did := "read of"
	if o.Write {
		did = "write of"
	}
	return fmt.Sprintf("%s %q by client %d", did, o.Value, o.Client)
}
