// Package backup is the encoding of the messages of a queue in a backup: a sequence of blocks, each with a checksum
// (docs/formats/backup.md). Nodes write it when a queue is exported, and read it when one is restored.
package backup

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// Version is the first byte of a block.
const Version = 1

// Limits of a block.
const (
	// BlockBytes is the size from which a writer ends a block.
	BlockBytes = 256 << 10
	// MaxBlockBytes limits a block, and so what a reader keeps: a block of a single message may be larger than others.
	MaxBlockBytes = 640 << 20
	// MaxBlockMessages limits the messages of a block.
	MaxBlockMessages = 4096
)

// Kind is what a block holds.
type Kind uint8

// The kinds are stored; numbers are never reused.
const (
	// KindHead is the first block of a queue.
	KindHead Kind = iota + 1
	// KindMessages has messages.
	KindMessages
	// KindEnd is the last block: without it the copy of the queue is incomplete.
	KindEnd
)

// Head describes the copy of a queue.
type Head struct {
	VHost, Queue string
	UID          id.QueueUID
	// Index is an entry of the queue's log that the copy contains, with all before it.
	Index uint64
	// At is the queue's time, in milliseconds since the Unix epoch.
	At quorumq.Time
	// Messages is how many follow.
	Messages uint64
	// Left is how many messages had left the queue's backlog: for other queues, or for good. Copies of several queues
	// that dead-letter to each other are compared by it.
	Left uint64
}

// Message is a message as it was in the queue.
type Message struct {
	TTLMs    int64        // its own TTL; quorumq.Unlimited: none
	Priority uint8        // level
	Due      quorumq.Time // when it becomes ready; 0: it is
	Past     quorumq.Past
	// Stored is the message itself (docs/formats/message.md).
	Stored []byte
}

// End closes the copy of a queue.
type End struct {
	Messages, Bytes uint64 // of all Stored
}

// Block is a decoded block: Kind says which of the fields is set.
type Block struct {
	Kind Kind
	Head Head
	// First is the number of Messages[0]; numbers begin at 1.
	First    uint64
	Messages []Message
	End      End
}

// ErrNewer reports a block of a version that this build cannot read.
var ErrNewer = errors.New("written by a newer version of Quorate")

// ErrDamaged reports a block whose bytes are not those that were written.
var ErrDamaged = errors.New("damaged")

func damagedf(format string, a ...any) error {
	return fmt.Errorf("backup: %w: %s", ErrDamaged, fmt.Sprintf(format, a...))
}
