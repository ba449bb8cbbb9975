package clients

import (
	"sync"

	"github.com/quorate/quorate/id"
)

// ConsumerInfo is what is known of a client's consumer.
type ConsumerInfo struct {
	Node               id.NodeID // that the client is connected to
	VHost, Queue, Tag  string
	Connection         string // its id
	ConnectionName     string
	Channel            uint32 // its number; 0: the protocol has none
	Peer               string // the client's address
	User               string
	Prefetch           uint32 // 0: as many as may be
	Priority           int32
	AutoAck, Exclusive bool
	Activity           string
	Unsettled          uint64 // handed to the client, which has not decided
	Buffered           uint64 // waiting for the client to take them
	SinceMs            int64  // Unix time
	// Arguments are the client's, as message.AppendTable writes them; nil: none.
	Arguments []byte
}

// Consumer is one that operators can see: neither cancelled nor closed.
type Consumer struct {
	// VHost and Queue never change.
	VHost, Queue string
	// Look returns the consumer's present state and, separately, its connection, which is nil if the consumer is the
	// node's own; false if the queue has ended it. It may be called from any goroutine.
	Look func() (x ConsumerInfo, from *Connection, ok bool)
}

// consumers are those that operators see. mu guards the set.
type consumers struct {
	mu   sync.Mutex
	live map[*Consumer]struct{}
}

func newConsumers() consumers { return consumers{live: map[*Consumer]struct{}{}} }

// ShowConsumer makes a consumer visible to operators, until HideConsumer.
func (s *consumers) ShowConsumer(c *Consumer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[c] = struct{}{}
}

// HideConsumer hides a consumer from operators.
func (s *consumers) HideConsumer(c *Consumer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, c)
}

// Consumers returns the consumers, in no order; what vhost and queue leave out is not among them,
// "" leaves out none. Ids of connections begin with prefix.
func (s *consumers) Consumers(prefix, vhost, queue string) []ConsumerInfo {
	s.mu.Lock()
	var those []*Consumer
	for c := range s.live {
		if (vhost == "" || c.VHost == vhost) && (queue == "" || c.Queue == queue) {
			those = append(those, c)
		}
	}
	s.mu.Unlock()
	all := make([]ConsumerInfo, 0, len(those))
	for _, c := range those {
		x, from, ok := c.Look()
		if !ok {
			continue
		}
		if from != nil {
			if conn, _, shown := from.info(prefix); shown {
				x.Connection, x.ConnectionName, x.Peer = conn.ID, conn.Name, conn.Peer
			}
		}
		all = append(all, x)
	}
	return all
}
