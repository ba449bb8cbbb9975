package transport

import (
	"sync/atomic"

	"github.com/quorate/quorate/id"
)

// Stats are the statistics of all connections.
type Stats struct {
	MaxStreamQueueBytes int         // the limit of QueueBytes of each stream
	Peers               []PeerStats // ordered by node
	Former              Former      // of peers that were removed, so that sums never go down
	Refused             uint64      // callers whose certificate, or lack of one, was refused
	AbsentCalls         int         // Raft calls that wait for groups to open here
	AbsentRefused       uint64      // those for which there was no room, or whose group did not open in time
	Stuck               uint64      // connections given up because they stood still although heartbeats passed
	Detours             int         // connections that this node relays for others
	Starved             float64     // share of the recent time for which this node lacked a processor, 0 to 1
}

// Former are the counts of peers that were removed.
type Former struct {
	Reconnects uint64
	Failures   uint64 // attempts to connect that failed
}

// PeerStats are the statistics of the connections with one peer since SetPeer. Frames and bytes are
// those of this node's own connection; the one that the peer opened is in Inbound.
type PeerStats struct {
	Node           id.NodeID
	Epoch          id.Epoch // 0: not connected yet
	Address        string   // of the connection; without a connection, the first one to try
	Up             bool
	Through        id.NodeID // the node that relays the connection; "": none
	FramesOut      uint64
	FramesIn       uint64
	BytesOut       uint64
	BytesIn        uint64
	RaftQueueBytes int    // waiting on the Raft stream
	QueueBytes     int    // waiting on the queue stream
	Parked         int    // Raft calls that wait for the connection
	Connects       uint64 // times it was connected; all but the first are reconnects
	Failures       uint64 // attempts that failed
	LastError      string // of the last failed attempt; empty while up
	Inbound        InboundStats
}

// InboundStats are the statistics of the streams that a peer opened to this node.
type InboundStats struct {
	Streams    int // streams that are open
	FramesOut  uint64
	FramesIn   uint64
	BytesOut   uint64
	BytesIn    uint64
	QueueBytes int // answers that wait for the peer, all streams
}

// traffic counts frames and their bytes; all fields are atomic.
type traffic struct {
	framesOut, framesIn, bytesOut, bytesIn atomic.Uint64
}

func (t *traffic) sent(frames, bytes int) {
	t.framesOut.Add(uint64(frames))
	t.bytesOut.Add(uint64(bytes))
}

func (t *traffic) received(frames, bytes int) {
	t.framesIn.Add(uint64(frames))
	t.bytesIn.Add(uint64(bytes))
}
