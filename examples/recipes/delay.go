package recipes

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/quorate/quorate/client"
)

// DelayQueue holds every message for the same time: a queue with a TTL that nobody consumes,
// whose dead-letter target is the queue that is consumed.
func DelayQueue(ctx context.Context, c *client.Client, say Say) error {
	const n, delay = 200, time.Second
	wait := client.Queue{Name: "remind.wait", Arguments: client.Table{
		"x-message-ttl":             delay.Milliseconds(),
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": "remind",
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish",
	}}
	if err := declare(ctx, c, client.Queue{Name: "remind"}, wait); err != nil {
		return err
	}
	return delayed(ctx, c, say, "remind", n, func(i int) (client.Message, time.Duration) {
		return client.Message{RoutingKey: "remind.wait", Body: []byte(strconv.Itoa(i))}, delay
	})
}

// MixedDelays holds each message for its own time. What is due sooner does not wait for what
// stands before it.
func MixedDelays(ctx context.Context, c *client.Client, say Say) error {
	const n, least, most = 200, 200 * time.Millisecond, 2 * time.Second
	wait := client.Queue{Name: "alarm.wait", Arguments: client.Table{
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": "alarm",
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish",
	}}
	if err := declare(ctx, c, client.Queue{Name: "alarm"}, wait); err != nil {
		return err
	}
	return delayed(ctx, c, say, "alarm", n, func(i int) (client.Message, time.Duration) {
		delay := (least + rand.N(most-least)).Truncate(time.Millisecond)
		m := client.Message{
			RoutingKey: "alarm.wait",
			Properties: client.Properties{Expiration: client.TTL(delay)},
			Body:       []byte(strconv.Itoa(i)),
		}
		return m, delay
	})
}

// Later publishes messages that are confirmed at once, and ready at their time, without a
// queue to wait in.
func Later(ctx context.Context, c *client.Client, say Say) error {
	const n, least, most = 200, 200 * time.Millisecond, 2 * time.Second
	if err := declare(ctx, c, client.Queue{Name: "newsletter"}); err != nil {
		return err
	}
	return delayed(ctx, c, say, "newsletter", n, func(i int) (client.Message, time.Duration) {
		delay := (least + rand.N(most-least)).Truncate(time.Millisecond)
		m := client.Message{
			RoutingKey: "newsletter",
			Delay:      delay, // or DeliverAt
			Body:       []byte(strconv.Itoa(i)),
		}
		return m, delay
	})
}

// delayed publishes messages and checks that each leaves a queue once, and not before its time.
func delayed(ctx context.Context, c *client.Client, say Say, queue string, n int, next func(int) (client.Message, time.Duration)) error {
	ms, due := make([]client.Message, n), make([]time.Time, n)
	began := time.Now()
	for i := range ms {
		m, delay := next(i)
		ms[i], due[i] = m, began.Add(delay) // it is published later than that
	}
	published := make(chan error, 1)
	go func() { published <- publish(ctx, c, ms...) }()
	late := &lateness{}
	err := collect(ctx, c, queue, n, func(i int, _ *client.Delivery) error { return late.add(i, due[i]) })
	if err := errors.Join(err, <-published); err != nil {
		return err
	}
	say("%d messages came out of %s once, none early, %v", n, queue, late)
	return nil
}
