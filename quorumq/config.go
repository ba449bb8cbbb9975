package quorumq

// Overflow says what happens when a limit is reached (LEN-3 to LEN-5).
type Overflow uint8

// The overflow modes of §3.2.
const (
	OverflowDropHead Overflow = iota
	OverflowRejectPublish
	OverflowRejectPublishDLX
)

// DeadLetterMode says what becomes of discarded messages (DL-2, DL-10, DL-20).
type DeadLetterMode uint8

// The modes: none configured; sent once and forgotten; kept until every target has it.
const (
	DeadLetterDisabled DeadLetterMode = iota
	DeadLetterAtMostOnce
	DeadLetterAtLeastOnce
)

// Unlimited is the value of a limit that is not set.
const Unlimited int64 = -1

// DefaultDeliveryLimit is the delivery limit of a queue that sets none (DEL-9).
const DefaultDeliveryLimit int64 = 20

// DefaultDisconnectedTimeoutMs is how long consumers of an unreachable node keep their
// messages, in milliseconds (DC-1).
const DefaultDisconnectedTimeoutMs int64 = 60_000

// Config is what is in force for the queue; it is changed by the Configure command
// only, so that all members change at the same entry.
type Config struct {
	MaxLength             int64 // messages; Unlimited
	MaxLengthBytes        int64 // bytes of bodies (D-5); Unlimited
	Overflow              Overflow
	MessageTTLMs          int64 // milliseconds; Unlimited
	DeadLetter            DeadLetterMode
	DeliveryLimit         int64 // failed deliveries; negative: unlimited
	DisconnectedTimeoutMs int64 // milliseconds
}

// DefaultConfig returns the configuration of a queue declared without arguments.
func DefaultConfig() Config {
	return Config{
		MaxLength:             Unlimited,
		MaxLengthBytes:        Unlimited,
		MessageTTLMs:          Unlimited,
		DeliveryLimit:         DefaultDeliveryLimit,
		DisconnectedTimeoutMs: DefaultDisconnectedTimeoutMs,
	}
}
