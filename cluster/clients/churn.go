package clients

import "sync/atomic"

// Churn counts what the clients of a node have opened and closed since its start.
type Churn struct {
	ConnectionsOpened, ConnectionsClosed uint64 // those that operators see
	ChannelsOpened, ChannelsClosed       uint64 // of protocols that have channels
}

// churn is what a registry counts of it.
type churn struct {
	connectionsOpened, connectionsClosed, channelsOpened, channelsClosed atomic.Uint64
}
