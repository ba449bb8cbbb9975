package client

import "time"

// QueueInfo is a queue with its figures.
type QueueInfo struct {
	VHost     string `api:"vhost"`
	Name      string `api:"name"`
	UID       uint64 `api:"uid"`
	Type      string `api:"type"`
	Durable   bool   `api:"durable"`
	Arguments Table  `api:"arguments"`
	// State is running, minority or down.
	State   string   `api:"state"`
	Leader  string   `api:"leader"`
	Members []string `api:"members"`
	// Online are the members whose nodes the answering node reaches, without those that do not vote yet,
	// because they are new or being rebuilt, or that have lost what they had stored; only with figures.
	Online []string `api:"online"`
	// Stats and Raft are nil while no leader answers.
	Stats *QueueStats `api:"stats"`
	Raft  *RaftStats  `api:"raft"`
	// Policy and OperatorPolicy are the names of the policies in force; empty: none.
	Policy         string `api:"policy"`
	OperatorPolicy string `api:"operator_policy"`
	// EffectiveArguments are the arguments in force, including those from policies.
	EffectiveArguments Table `api:"effective_arguments"`
	Exclusive          bool  `api:"exclusive"`
	AutoDelete         bool  `api:"auto_delete"`
	// SettingsPending reports that the settings from arguments and policies were not yet in force at
	// the time of the figures; only with figures.
	SettingsPending bool `api:"settings_pending"`
	// EffectivePolicyDefinition is what policy and operator policy set together.
	EffectivePolicyDefinition Table `api:"effective_policy_definition"`
	// DeclaredBy is the user that declared the queue; empty: unknown, or logins were off.
	DeclaredBy string `api:"declared_by"`
	// CountsForDeclarer reports that the queue counts towards the limits of that user, who has not
	// been deleted since (VH-17).
	CountsForDeclarer bool `api:"counts_for_declarer"`
}

// Figures returns Stats, or zeros while no leader answers. To wait until a queue is empty, check
// Stats instead.
func (q QueueInfo) Figures() QueueStats {
	if q.Stats == nil {
		return QueueStats{}
	}
	return *q.Stats
}

// QueueStats are a queue's counts, exact on the leader when read.
type QueueStats struct {
	// Messages is ready + unacknowledged + delayed + dlx.
	Messages               uint64 `api:"messages"`
	MessagesReady          uint64 `api:"messages_ready"`
	MessagesReadyReturned  uint64 `api:"messages_ready_returned"`
	MessagesUnacknowledged uint64 `api:"messages_unacknowledged"`
	// MessagesDLX wait in the dead-letter backlog.
	MessagesDLX                uint64            `api:"messages_dlx"`
	MessageBytes               uint64            `api:"message_bytes"`
	MessageBytesReady          uint64            `api:"message_bytes_ready"`
	MessageBytesUnacknowledged uint64            `api:"message_bytes_unacknowledged"`
	MessageBytesDLX            uint64            `api:"message_bytes_dlx"`
	Consumers                  uint32            `api:"consumers"`
	MessagesByPriority         map[uint32]uint64 `api:"messages_by_priority"`
	// OldestMessageAge is the age of the oldest ready message; 0 if there is none.
	OldestMessageAge time.Duration `api:"oldest_message_age_ms"`
	// Counters since the queue was created.
	Published         uint64 `api:"published"`
	Rejected          uint64 `api:"rejected"`
	Delivered         uint64 `api:"delivered"`
	Redelivered       uint64 `api:"redelivered"`
	Acked             uint64 `api:"acked"`
	Returned          uint64 `api:"returned"`
	Expired           uint64 `api:"expired"`
	Dropped           uint64 `api:"dropped"`
	DeliveryLimitHits uint64 `api:"delivery_limit_hits"`
	// DeadLettered by reason.
	DeadLettered map[string]uint64 `api:"dead_lettered"`
	// DeadLetterDedupHits counts dead letters that arrived again and were not stored again.
	DeadLetterDedupHits uint64 `api:"dead_letter_dedup_hits"`
	// DeadLetterConfirmed counts dead letters that every target has.
	DeadLetterConfirmed uint64 `api:"dead_letter_confirmed"`
	// LastDeadLetterError is the reason why the backlog waits; empty if it does not.
	LastDeadLetterError string `api:"last_dead_letter_error"`
	// MessagesDelayed are neither ready nor with a consumer until their time has come.
	MessagesDelayed     uint64 `api:"messages_delayed"`
	MessageBytesDelayed uint64 `api:"message_bytes_delayed"`
	// NextDelayedAt is when the first of them is due; zero if there is none.
	NextDelayedAt time.Time `api:"next_delayed_at_ms"`
	// ConsumerCapacity is the share of its consumers that would take a message now, 0 to 1.
	ConsumerCapacity float64 `api:"consumer_capacity"`
	// Confirmed counts the messages for which publishers got a confirm or will get one: all that the leader counts are
	// stored by a majority.
	Confirmed uint64 `api:"confirmed"`
	// Get and GetEmpty count Gets that had a message, and those that found none.
	Get      uint64 `api:"get"`
	GetEmpty uint64 `api:"get_empty"`
	// ReturnedFailed is the part of Returned whose delivery had failed.
	ReturnedFailed uint64 `api:"returned_failed"`
	// ConsumerTimeouts counts deliveries that consumers held for too long.
	ConsumerTimeouts uint64 `api:"consumer_timeouts"`
	// DeliveryLimit is the delivery limit in force; -1: none.
	DeliveryLimit int64 `api:"delivery_limit"`
	// DelayedRetry is which returned messages wait before they are ready: disabled, all, failed or returned.
	DelayedRetry string `api:"delayed_retry"`
	// DeadLettersWaiting, by cause: dead letters in the backlog that cannot be forwarded now. This, the
	// retries and what was lost are figures of the leader's term.
	DeadLettersWaiting map[string]uint64 `api:"dead_letters_waiting"`
	// DeadLetterRetries, by cause: attempts to forward that failed.
	DeadLetterRetries map[string]uint64 `api:"dead_letter_retries"`
	// DeadLettersLost, by cause: copies sent at most once that no target took.
	DeadLettersLost map[string]uint64 `api:"dead_letters_lost"`
	// OldestDeadLetterAge is how long the first message of the backlog has been there.
	OldestDeadLetterAge time.Duration `api:"oldest_dead_letter_age_ms"`
	// DeadLettersDropped were dropped when at-least-once was switched off; DeadLetterBytesDropped are their bytes.
	DeadLettersDropped     uint64 `api:"dead_letters_dropped"`
	DeadLetterBytesDropped uint64 `api:"dead_letter_bytes_dropped"`
	// Discarded by reason and strategy.
	Discarded []Discarded `api:"discarded"`
}

// Discarded counts discarded messages.
type Discarded struct {
	// Reason is rejected, expired, maxlen, delivery_limit or queue_deleted.
	Reason string `api:"reason"`
	// Strategy is disabled, at_most_once or at_least_once.
	Strategy string `api:"strategy"`
	Count    uint64 `api:"count"`
}

// RaftStats are the queue's Raft figures on its leader.
type RaftStats struct {
	Term          uint64 `api:"term"`
	CommitIndex   uint64 `api:"commit_index"`
	AppliedIndex  uint64 `api:"applied_index"`
	SnapshotIndex uint64 `api:"snapshot_index"`
	LastIndex     uint64 `api:"last_index"`
}

// ListQueueMembersRequest names the queue.
type ListQueueMembersRequest struct {
	// VHost defaults to "/".
	VHost string `api:"vhost"`
	Queue string `api:"queue"`
	// Digests asks for the digests, each of which costs its node as much as a snapshot of the queue.
	Digests bool `api:"digests"`
}

// QueueMember is the state of one member of a queue, as the member itself reports it.
type QueueMember struct {
	Node string `api:"node"`
	// State is leader, follower or candidate; empty if the node did not answer.
	State string `api:"state"`
	// Leader is the node that the member takes for the leader; empty: it knows none.
	Leader string `api:"leader"`
	// Raft is nil if the node did not answer.
	Raft *RaftStats `api:"raft"`
	// Digest is a hash of the member's state at Raft.AppliedIndex, in hexadecimal: equal on members that
	// have applied the same entries. Empty unless it was asked for, and while entries are being
	// applied: ask again.
	Digest string `api:"digest"`
	// Trouble is why the member has stopped, or why its node did not answer; empty otherwise.
	Trouble string `api:"trouble"`
}

// QueueDeclared is the result of declaring a queue.
type QueueDeclared struct {
	Name string `api:"name"`
	// Created is false if it was there already.
	Created       bool   `api:"created"`
	UID           uint64 `api:"uid"`
	MessageCount  uint64 `api:"message_count"`
	ConsumerCount uint32 `api:"consumer_count"`
	// Warnings name arguments that are accepted but have no effect.
	Warnings []string `api:"warnings"`
}

// DeleteQueueRequest names the queue.
type DeleteQueueRequest struct {
	// VHost defaults to "/".
	VHost string `api:"vhost"`
	Name  string `api:"name"`
	// IfUnused refuses while there are consumers.
	IfUnused bool `api:"if_unused"`
	// IfEmpty refuses while there is any message in any state.
	IfEmpty bool `api:"if_empty"`
	// Discard drops the queue's messages, even if it would dead-letter them first, or is doing so.
	Discard bool `api:"discard"`
}

// QueueDeleted reports what was lost with the queue, or is dead-lettered before the queue is deleted.
type QueueDeleted struct {
	Ready     uint64 `api:"ready"`
	Unsettled uint64 `api:"unsettled"`
	Backlog   uint64 `api:"backlog"`
	Delayed   uint64 `api:"delayed"`
	// DrainDeleting reports that nothing is lost: the queue still dead-letters its messages, and is deleted when they
	// have arrived.
	DrainDeleting bool `api:"drain_deleting"`
}

// ExchangeInfo is an exchange.
type ExchangeInfo struct {
	VHost      string `api:"vhost"`
	Name       string `api:"name"`
	Type       string `api:"type"`
	Durable    bool   `api:"durable"`
	AutoDelete bool   `api:"auto_delete"`
	Internal   bool   `api:"internal"`
	Arguments  Table  `api:"arguments"`
}
