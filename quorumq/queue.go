package quorumq

import (
	"errors"
	"iter"

	"github.com/quorate/quorate/id"
)

// Queue is one queue's state. The zero value is not usable; see New and Restore.
type Queue struct {
	uid id.QueueUID
}

// New returns an empty queue.
func New(uid id.QueueUID, c Config) *Queue { return &Queue{uid: uid} }

// Apply carries out one command and tells what came of it. It never panics over
// anything that input can cause; the Reply, the Effects and their slices are valid until
// the next Apply.
func (q *Queue) Apply(m Meta, c Command) (Reply, Effects) { return Reply{}, Effects{} }

// Live yields every body that the state still refers to, in ascending order of Index
// and Slot.
func (q *Queue) Live() iter.Seq[BodyRef] { return func(func(BodyRef) bool) {} }

// Assigned appends the deliveries that the consumer holds with ids above after: what a
// gateway asks for when it missed some (Resume).
func (q *Queue) Assigned(dst []Delivery, c ConsumerKey, after MsgID) []Delivery { return dst }

// Sessions yields the sessions known to the queue.
func (q *Queue) Sessions() iter.Seq[SessionKey] { return func(func(SessionKey) bool) {} }

// Backlog appends up to limit discarded messages with numbers above after, in order.
func (q *Queue) Backlog(dst []Discarded, after Seq, limit int) []Discarded { return dst }

// BacklogSettled returns the watermark up to which every backlog number is settled.
func (q *Queue) BacklogSettled() Seq { return 0 }

// Overview returns the figures of ST-1.
func (q *Queue) Overview() Overview { return Overview{} }

// AppendSnapshot appends the whole state. Equal states give equal bytes.
func (q *Queue) AppendSnapshot(b []byte) []byte { return b }

// Restore returns the queue that AppendSnapshot wrote.
func Restore(b []byte) (*Queue, error) { return nil, errors.New("quorumq: not yet") }

// AppendCommand appends the stored form of a command.
func AppendCommand(b []byte, c Command) []byte { return b }

// Decoder decodes commands into storage that it reuses.
type Decoder struct{}

// Decode returns the command; it is valid until the next call.
func (d *Decoder) Decode(b []byte) (Command, error) { return nil, errors.New("quorumq: not yet") }
