package argument

import (
	"math"

	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// MaxGroupSize is the maximum number of members of a queue.
const MaxGroupSize = 99

// Texts that several rows share.
const (
	noLimit  = "no limit"
	none     = "none"
	inMemory = "stored, for good: bodies are never all in memory"
	onDisk   = "every queue keeps its messages on disk"
)

// rows is the table. Arguments are checked in this order.
var rows = [...]Row{ //nolint:gochecknoglobals // a constant in all but name
	{
		Name: QueueType, Equality: ComparedOnItsOwn, Default: "Q-3", State: "in force",
		RabbitMQ: "different: no `stream` (Q-2)",
		Values: oneOf{
			words: []string{"quorum", "classic"}, foreign: "stream",
			instead: "there are no streams: declare a quorum queue, one for each group of readers, and keep what shall be read again elsewhere",
		},
	},
	{
		Name: "x-max-length", Key: "max-length", Operators: true, Merging: Lowest,
		Values: integer{0, math.MaxInt64, "messages"}, Default: noLimit, State: "in force (LEN-1)",
		RabbitMQ: "better: exact (LEN-4)",
		sets:     func(s *Settings, v Value) { s.MaxLength = v.Int },
	},
	{
		Name: "x-max-length-bytes", Key: "max-length-bytes", Operators: true, Merging: Lowest,
		Values: integer{0, math.MaxInt64, "bytes of bodies"}, Default: noLimit, State: "in force (LEN-1)",
		RabbitMQ: "better: exact (LEN-4); bytes of bodies (D-5)",
		sets:     func(s *Settings, v Value) { s.MaxLengthBytes = v.Int },
	},
	{
		Name: "x-max-length-total", Key: "max-length-total", Operators: true, Merging: Lowest,
		Values: integer{0, math.MaxInt64, "messages"}, Default: noLimit, State: "in force (LEN-8)",
		RabbitMQ: "none: LEN-8",
		sets:     func(s *Settings, v Value) { s.MaxLengthTotal = v.Int },
	},
	{
		Name: MessageRate, Key: "max-message-rate", Operators: true, Merging: Lowest,
		Values: integer{0, math.MaxInt64, "messages per second; publishers wait"}, Default: noLimit, State: "in force (VH-15)",
		RabbitMQ: "none: VH-15",
		sets:     func(s *Settings, v Value) { s.Quotas.MaxMessageRate = v.Int },
	},
	{
		Name: ByteRate, Key: "max-byte-rate", Operators: true, Merging: Lowest,
		Values: integer{0, math.MaxInt64, "bytes of bodies per second; publishers wait"}, Default: noLimit, State: "in force (VH-15)",
		RabbitMQ: "none: VH-15",
		sets:     func(s *Settings, v Value) { s.Quotas.MaxByteRate = v.Int },
	},
	{
		Name: "x-max-consumers", Key: "max-consumers", Operators: true, Merging: Lowest,
		Values: integer{0, math.MaxInt64, "consumers"}, Default: noLimit, State: "in force (VH-4)",
		RabbitMQ: "none: VH-4",
		sets:     func(s *Settings, v Value) { s.Quotas.MaxConsumers = v.Int },
	},
	{
		Name: Overflow, Key: "overflow", Operators: true, Merging: OperatorFirst,
		Values:  oneOf{words: []string{"drop-head", "reject-publish", "reject-publish-dlx"}},
		Default: "`drop-head`", State: "in force (LEN-3 to LEN-5)",
		RabbitMQ: "better: `reject-publish-dlx` works (LEN-5)",
		sets: func(s *Settings, v Value) {
			s.Overflow = [...]quorumq.Overflow{quorumq.OverflowDropHead, quorumq.OverflowRejectPublish, quorumq.OverflowRejectPublishDLX}[v.Int]
		},
	},
	{
		Name: "x-message-ttl", Key: "message-ttl", Operators: true, Merging: Lowest,
		Values: integer{0, MaxTimeMs, "ms (ten years)"}, Default: none, State: "in force (TTL-1)",
		RabbitMQ: "better: messages expire at any position in the queue (TTL-5)",
		sets:     func(s *Settings, v Value) { s.MessageTTLMs = v.Int },
	},
	{
		Name: "x-expires", Key: "expires", Operators: true, Merging: Lowest,
		Values: integer{1, MaxTimeMs, "ms"}, Default: none, State: "in force (QX-1)",
		RabbitMQ: "better: a redeclare counts as a use (QX-2)",
		sets:     func(s *Settings, v Value) { s.ExpiresMs = v.Int },
	},
	{
		Name: "x-expires-if-empty", Values: boolean{}, Default: "false", State: "in force (QX-4)",
		RabbitMQ: "none: QX-4",
		sets:     func(s *Settings, v Value) { s.ExpiresIfEmpty = v.Bool },
	},
	{
		Name: "x-delivery-limit", Key: "delivery-limit", Operators: true, Merging: Finite,
		Values: integer{math.MinInt64, math.MaxInt64, "failed deliveries; negative is unlimited"}, Default: "20; none on classic queues", State: "in force (DEL-9)",
		RabbitMQ: "better: a wrong type is refused (Q-10)",
		sets:     func(s *Settings, v Value) { s.DeliveryLimit = max(v.Int, quorumq.Unlimited) },
	},
	{
		Name: "x-max-in-memory-length", Key: "max-in-memory-length", Operators: true, Merging: Lowest,
		Values: integer{0, math.MaxInt64, "messages"}, Default: none, State: inMemory,
		RabbitMQ: "same: stored, without effect",
	},
	{
		Name: "x-max-in-memory-bytes", Key: "max-in-memory-bytes", Operators: true, Merging: Lowest,
		Values: integer{0, math.MaxInt64, "bytes"}, Default: none, State: inMemory,
		RabbitMQ: "same: stored, without effect",
	},
	{
		Name: dlExchange, Key: "dead-letter-exchange", Merging: ArgumentFirst,
		Values: text{message.MaxNameBytes, ", `\"\"` is the default exchange"}, Default: none, State: "in force (DL-2)",
		RabbitMQ: "same",
		sets:     func(s *Settings, v Value) { s.DeadLetterExchange, s.HasDeadLetterExchange = v.Text, true },
	},
	{
		Name: dlKey, Key: "dead-letter-routing-key", Merging: ArgumentFirst,
		Values: text{message.MaxNameBytes, "; needs `" + dlExchange + "`"}, Default: none, State: "in force (DL-36)",
		RabbitMQ: "same",
		sets:     func(s *Settings, v Value) { s.DeadLetterRoutingKey, s.HasDeadLetterRoutingKey = v.Text, true },
	},
	{
		Name: dlStrategy, Key: "dead-letter-strategy", Merging: ArgumentFirst,
		Values:  oneOf{words: []string{string(AtMostOnce), string(AtLeastOnce)}},
		Default: "`at-most-once`", State: "in force (DL-10, DL-20)",
		RabbitMQ: "better: at-least-once also with `drop-head`, if the backlog has a limit (DL-20)",
		sets:     func(s *Settings, v Value) { s.DeadLetterStrategy = Strategy(v.Text) },
	},
	{
		Name: backlogLimit, Key: "dead-letter-backlog-limit", Merging: Lowest,
		Values: integer{1, math.MaxInt64, "messages"}, Default: none, State: "in force (DL-20)",
		RabbitMQ: "none: DL-20",
		sets:     func(s *Settings, v Value) { s.BacklogLimit = v.Int },
	},
	{
		Name: "x-dead-letter-on-switch", Key: "dead-letter-on-switch", Merging: ArgumentFirst,
		Values: oneOf{words: []string{"drain", "drop"}}, Default: "`drain`", State: "in force (DL-27)",
		RabbitMQ: "none: DL-27",
		sets: func(s *Settings, v Value) {
			s.OnSwitch = [...]quorumq.OnSwitch{quorumq.SwitchDrain, quorumq.SwitchDrop}[v.Int]
		},
	},
	{
		Name: "x-dead-letter-cycle", Key: "dead-letter-cycle", Merging: ArgumentFirst,
		Values: oneOf{words: []string{"detect", "allow"}}, Default: "`detect`", State: "in force (DL-43)",
		RabbitMQ: "none: DL-43",
		sets:     func(s *Settings, v Value) { s.DeadLetterCycles = v.Text == "allow" },
	},
	{
		Name: OnDelete, Key: "on-delete", Merging: ArgumentFirst,
		Values: oneOf{words: []string{"discard", OnDeleteDeadLetter}}, Default: "`discard`", State: "in force (Q-18)",
		RabbitMQ: "none: Q-18",
		sets:     func(s *Settings, v Value) { s.DeadLetterOnDelete = v.Text == OnDeleteDeadLetter },
	},
	{
		Name: "x-dead-letter-max-hops", Key: "dead-letter-max-hops", Merging: Lowest,
		Values: integer{1, math.MaxInt64, "deaths"}, Default: noLimit, State: "in force (DL-43)",
		RabbitMQ: "none: DL-43",
		sets:     func(s *Settings, v Value) { s.DeadLetterMaxHops = v.Int },
	},
	{
		Name:   "x-quorum-initial-group-size",
		Values: integer{1, math.MaxInt64, "nodes; more than the cluster has is all of them"}, Default: "3", State: "in force (RE-1)",
		RabbitMQ: "same: a number above that of the nodes means all nodes",
		sets:     func(s *Settings, v Value) { s.GroupSize = int(min(v.Int, MaxGroupSize)) },
	},
	{
		Name: "x-quorum-target-group-size", Key: "target-group-size", Operators: true, Merging: TargetSize,
		Values: integer{1, math.MaxInt64, "nodes"}, Default: "as the initial size", State: "in force (RE-4)",
		RabbitMQ: "same: without it the initial size is the target (RE-4)",
		sets:     func(s *Settings, v Value) { s.TargetGroupSize = int(min(v.Int, MaxGroupSize)) },
	},
	{
		Name: LeaderLocator, Key: "queue-leader-locator", Merging: ArgumentFirst,
		Values: oneOf{words: []string{"client-local", "balanced", "random", "least-leaders"}}, Default: "`client-local`",
		State:    "in force (RE-2); `random` and `least-leaders` are read as `balanced`",
		RabbitMQ: "same",
		sets:     func(s *Settings, v Value) { s.BalancedLeader = v.Text != "client-local" },
	},
	{
		Name: "x-single-active-consumer", Values: boolean{}, Default: "false", State: "in force (SAC-1)",
		RabbitMQ: "same",
		sets:     func(s *Settings, v Value) { s.SingleActive = v.Bool },
	},
	{
		Name: "x-consumer-timeout", Key: "consumer-timeout", Merging: Lowest,
		Values: integer{0, math.MaxInt64, "ms; 0 is off"}, Default: "1,800,000", State: "in force (CT-1)",
		RabbitMQ: "better: 0 turns it off (D-14)",
		sets:     func(s *Settings, v Value) { s.ConsumerTimeoutMs = v.Int },
	},
	{
		Name: "x-consumer-disconnected-timeout", Key: "consumer-disconnected-timeout", Merging: Lowest,
		Values: integer{0, math.MaxInt64, "ms"}, Default: "60,000", State: "in force (DC-1)",
		RabbitMQ: "same",
		sets:     func(s *Settings, v Value) { s.DisconnectedTimeoutMs = v.Int },
	},
	{
		Name: retryType, Key: "delayed-retry-type", Operators: true, Merging: OperatorFirst,
		Values: oneOf{words: []string{"disabled", "all", "failed", "returned"}}, Default: "`disabled`", State: "in force (DR-1)",
		RabbitMQ: "better: invalid values are refused (Q-10)",
		sets: func(s *Settings, v Value) {
			s.Retry.Type = [...]quorumq.RetryType{quorumq.RetryDisabled, quorumq.RetryAll, quorumq.RetryFailed, quorumq.RetryReturned}[v.Int]
		},
	},
	{
		Name: retryMin, Key: "delayed-retry-min", Operators: true, Merging: RetryMin,
		Values:  integer{1, math.MaxInt64, "ms; a type other than `disabled` needs it, unless the back-off is a list"},
		Default: "with a list, its shortest wait", State: "in force (DR-2)",
		RabbitMQ: "better: invalid values are refused (Q-10)",
		sets:     func(s *Settings, v Value) { s.Retry.MinMs = v.Int },
	},
	{
		Name: retryMax, Key: "delayed-retry-max", Operators: true, Merging: Lowest,
		Values:  integer{1, math.MaxInt64, "ms, not below `x-delayed-retry-min`"},
		Default: "as `x-delayed-retry-min` (D-8); with a list, its longest wait", State: "in force (DR-2)",
		RabbitMQ: "better: invalid values are refused (Q-10)",
		sets:     func(s *Settings, v Value) { s.Retry.MaxMs = v.Int },
	},
	{
		Name: "x-delayed-retry-jitter", Key: "delayed-retry-jitter", Operators: true, Merging: OperatorFirst,
		Values: integer{0, quorumq.MaxRetryJitterPercent, "percent"}, Default: "0", State: "in force (DR-7)",
		RabbitMQ: "none: DR-7",
		sets:     func(s *Settings, v Value) { s.Retry.JitterPercent = uint8(v.Int) },
	},
	{
		Name: "x-delayed-retry-backoff", Key: "delayed-retry-backoff", Operators: true, Merging: OperatorFirst,
		Values: backoff{}, Default: "`linear`", State: "in force (DR-7)",
		RabbitMQ: "none: DR-7",
		sets: func(s *Settings, v Value) {
			s.Retry.Backoff = v.Shape
			s.Retry.Steps = uint8(copy(s.Retry.StepsMs[:], v.WaitMs))
		},
	},
	{
		Name: "x-overflow-victim", Values: oneOf{words: []string{"head", "lowest-priority", "oldest"}}, Default: "`head`", State: "in force (LEN-3)",
		RabbitMQ: "none: LEN-3",
		sets: func(s *Settings, v Value) {
			s.Victim = [...]quorumq.Victim{quorumq.VictimHead, quorumq.VictimLowestPriority, quorumq.VictimOldest}[v.Int]
		},
	},
	{
		Name: "x-priority-mode", Values: oneOf{words: []string{"strict", "fair"}}, Default: "`strict`", State: "in force (PR-3)",
		RabbitMQ: "none: PR-3",
		sets:     func(s *Settings, v Value) { s.FairPriorities = v.Text == "fair" },
	},
	{
		Name: "x-return-position", Values: oneOf{words: []string{"returns", "original"}},
		Default: "`returns`; `original` on classic queues", State: "in force (DEL-1)",
		RabbitMQ: "none: DEL-1",
		sets:     func(s *Settings, v Value) { s.ReturnToPlace = v.Text == "original" },
	},
	{
		Name: MaxPriority, Values: integer{0, math.MaxUint8, ""}, ClassicOnly: true, Default: none, State: "in force on classic queues (PR-1)",
		RabbitMQ: "different: on classic queues only; 32 levels (PR-1)",
		Remedy:   ", for quorum queues have 32 priorities without it, or ask for a classic queue: x-queue-type classic, or a vhost with that as its default",
	},
	{Name: QueueMode, Values: anything{}, ClassicOnly: true, Equality: ComparedQuorum, LeftOut: onDisk, Default: none, State: "stored on classic queues and not compared", RabbitMQ: "better: refused on quorum queues; stored without effect on classic ones, and not compared by a redeclare"},
	{Name: QueueVersion, Values: anything{}, ClassicOnly: true, Equality: ComparedQuorum, LeftOut: onDisk, Default: none, State: "stored on classic queues and not compared", RabbitMQ: "better: refused on quorum queues; stored without effect on classic ones, and not compared by a redeclare"},
	{Name: "x-max-age", Values: anything{}, ClassicOnly: true, Default: none, State: "stored on classic queues", RabbitMQ: "same: refused on quorum queues; stored without effect on classic ones"},
	{Name: "x-initial-cluster-size", Values: anything{}, ClassicOnly: true, Default: none, State: "stored on classic queues", RabbitMQ: "same: refused on quorum queues; stored without effect on classic ones"},
	{Name: Streams, Values: anything{}, ClassicOnly: true, Default: none, State: "stored on classic queues", RabbitMQ: "same: refused on quorum queues; stored without effect on classic ones"},
}
