package clients

import "github.com/quorate/quorate/id"

// ChannelInfo is what is known of a channel of a client's connection. Connections whose protocol has no channels have
// none.
type ChannelInfo struct {
	Node                 id.NodeID // that the client is connected to
	Connection           string    // its id
	ConnectionName, Peer string
	User, VHost          string
	Number               uint32
	State                string
	Prefetch             uint32 // of consumers that begin later; 0: as many as may be
	Consumers            int
	Unsettled            uint64 // handed to the client, which has not decided
	Unconfirmed          uint64 // published by the client, which has no confirm
	Confirms, Transacts  bool   // its mode
}
