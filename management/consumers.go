package management

import (
	"net/http"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/message"
)

// consumer is a client's consumer as JSON.
type consumer struct {
	Queue          queue         `json:"queue"`
	ConsumerTag    string        `json:"consumer_tag"`
	AckRequired    bool          `json:"ack_required"`
	Exclusive      bool          `json:"exclusive"`
	PrefetchCount  uint32        `json:"prefetch_count"`
	Active         bool          `json:"active"`
	ActivityStatus string        `json:"activity_status"`
	Arguments      message.Table `json:"arguments"`
	Channel        channel       `json:"channel_details"`
}

// queue names the queue of a consumer as RabbitMQ's HTTP API does.
type queue struct {
	Name  string `json:"name"`
	VHost string `json:"vhost"`
}

// channel names the consumer's connection: the broker does not distinguish channels here.
type channel struct {
	ConnectionName string `json:"connection_name"`
	Node           string `json:"node"`
	User           string `json:"user"`
	peer
}

// toConsumer gives a consumer the names and the activity words of RabbitMQ's HTTP API.
func toConsumer(c *connections.ConsumerInfo) consumer {
	x := consumer{
		Queue: queue{Name: c.Queue, VHost: c.VHost}, ConsumerTag: c.Tag, AckRequired: !c.AutoAck, Exclusive: c.Exclusive,
		PrefetchCount: c.Prefetch, Active: true, ActivityStatus: "up", Arguments: toTable(c.Arguments),
		Channel: channel{ConnectionName: c.ConnectionName, Node: string(c.Node), User: c.User, peer: toPeer(c.Peer)},
	}
	switch c.Activity {
	case broker.Active.String():
		x.ActivityStatus = "single_active"
	case broker.Waiting.String():
		x.Active, x.ActivityStatus = false, "waiting"
	}
	return x
}

// consumers answers GET /api/consumers, also for one vhost. The broker decides what the user may
// see (VH-12).
func (a api) consumers(w http.ResponseWriter, r *http.Request) {
	all, silent, err := a.Broker.Connections.Consumers(r.Context(), r.PathValue("vhost"), "")
	if err != nil {
		a.fail(w, err)
		return
	}
	nameSilent(w, silent)
	out := make([]consumer, len(all))
	for i := range all {
		out[i] = toConsumer(&all[i])
	}
	a.write(w, http.StatusOK, out)
}
