package rest

import (
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/management/slot"
)

// withMessages serves a route that has messages in memory.
func withMessages(serve func(c *call) (reply, error)) func(c *call) (reply, error) {
	return func(c *call) (reply, error) {
		who, err := c.api.Broker.Logins.Who(c.Context())
		if err != nil {
			return reply{}, err
		}
		user := ""
		if who != nil && c.api.Guard.Asks() {
			user = who.User()
		}
		switch free, taken, err := c.api.messages.Take(c.Context(), user); {
		case err != nil:
			return reply{}, err
		case !taken:
			return reply{}, &failure.Error{
				Class: failure.ResourceExhausted, Kind: "message", VHost: c.vhost(),
				Reason: "this node serves " + strconv.Itoa(slot.Requests) + " requests with messages at a time, " +
					strconv.Itoa(slot.RequestsOfUser) + " of one user; repeat it, or use AMQP or gRPC",
			}
		default:
			c.answered = free
		}
		return serve(c)
	}
}
