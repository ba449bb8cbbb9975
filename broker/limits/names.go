package limits

import "github.com/quorate/quorate/cluster/clients"

// The names of limits, with which operators set them and errors name them.
const (
	Connections = "max-connections"
	Channels    = "max-channels"
	Consumers   = "max-consumers"
	Queues      = "max-queues"
	MessageRate = "max-message-rate"
	ByteRate    = "max-byte-rate"
	StoredBytes = "max-stored-bytes"
)

// Scope is the kind of object that a limit belongs to.
type Scope uint8

// The scopes.
const (
	ScopeUser Scope = iota
	ScopeVHost
	ScopeQueue
)

// scopes is the number of scopes.
const scopes = int(ScopeQueue) + 1

// String returns the name that operators see.
func (s Scope) String() string { return [...]string{"user", "vhost", "queue"}[s] }

// scopeOf returns the kind of a subject.
func scopeOf(of clients.QuotaSubject) Scope {
	switch {
	case of.User != "":
		return ScopeUser
	case of.VHost != "":
		return ScopeVHost
	}
	return ScopeQueue
}

// The quotas of a gate: its rates, which have a bucket and a meter each, and the bytes stored.
const (
	messageRate = iota
	byteRate
	rates
	storedQuota = rates
	gateQuotas  = rates + 1
)

// quotaName returns the name of the limit that belongs to a quota of a gate.
func quotaName(which int) string {
	return [...]string{MessageRate, ByteRate, StoredBytes}[which]
}

// OfCount returns the scope and the name of the limit for a count.
func OfCount(k clients.CountKind) (scope Scope, limit string) {
	switch k {
	case clients.UserConnections:
		return ScopeUser, Connections
	case clients.UserChannels:
		return ScopeUser, Channels
	case clients.UserConsumers:
		return ScopeUser, Consumers
	case clients.VHostConnections:
		return ScopeVHost, Connections
	case clients.VHostChannels:
		return ScopeVHost, Channels
	case clients.VHostConsumers:
		return ScopeVHost, Consumers
	case clients.QueueConsumers, clients.CountKinds:
	}
	return ScopeQueue, Consumers
}
