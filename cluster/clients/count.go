package clients

import "github.com/quorate/quorate/id"

// Usage is what clients have open on one or more nodes (VH-4).
type Usage struct {
	UserConnections, UserChannels, UserConsumers    int64
	VHostConnections, VHostChannels, VHostConsumers int64
	QueueConsumers                                  int64
}

// Count is something that a limit bounds (VH-4).
type Count struct {
	Kind  CountKind
	Name  string      // of the user or vhost
	Queue id.QueueUID // of a queue, which has no name then
}

// CountKind is what is counted.
type CountKind uint8

// What limits bound.
const (
	UserConnections CountKind = iota
	UserChannels
	UserConsumers
	VHostConnections
	VHostChannels
	VHostConsumers
	QueueConsumers
	CountKinds // how many there are
)
