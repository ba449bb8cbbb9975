package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
)

// keda scales workloads on Kubernetes. Its scaler for RabbitMQ asks for the lengths and rates of queues.
func keda() Library {
	return Library{Name: "keda", Module: "github.com/kedacore/keda/v2", Version: "v2.21.0", Package: "./quorate", Prepare: onlyScaler}
}

// onlyScaler leaves out what KEDA has beside its scaler for RabbitMQ, and with it the clients of some dozen clouds, and adds a
// program that uses it.
func onlyScaler(dir string) error {
	for path, keeps := range map[string][]string{
		"pkg/scalers":       {"scaler.go", "rabbitmq_scaler.go"},
		"pkg/scalers/azure": {"azure_aad_auth.go", "azure_aad_workload_identity.go"}, // it can take its token from there
	} {
		files, err := filepath.Glob(filepath.Join(dir, path, "*.go"))
		if err != nil {
			return err
		}
		kept := 0
		for _, name := range files {
			if slices.Contains(keeps, filepath.Base(name)) {
				kept++
			} else if err := os.Remove(name); err != nil {
				return err
			}
		}
		if kept != len(keeps) {
			return fmt.Errorf("%s of keda does not have %q any more: correct onlyScaler", path, keeps)
		}
	}
	return keda().addProgram(dir)
}

// scalerAnswer is the scaler's answer about a queue, or several.
type scalerAnswer struct {
	Value  float64 `json:"value"`
	Active bool    `json:"active"`
	Error  string  `json:"error"`
}

// scalerCase is a trigger, and the answer that the scaler must give.
type scalerCase struct {
	name    string
	trigger map[string]string
	want    scalerAnswer // Error is a part of it
	rate    bool         // any value above 0, in the end, while messages flow through the queue
}

// Amounts of messages that the scaler is to find.
const (
	longQueue   = 3
	shortQueue  = 1
	heldOfLong  = 1 // of longQueue, by a client that does not settle it
	kedaVHost   = "team/a"
	queueLength = "QueueLength"
)

// scalerCases returns the cases, for a node's addresses of HTTP and AMQP.
func scalerCases(http, amqp string) []scalerCase {
	const api, wire = "http", "amqp"
	of := func(protocol, queue string, more ...string) map[string]string {
		at := map[string]string{api: "http://guest:guest@" + http + "/", wire: "amqp://guest:guest@" + amqp + "/"}[protocol]
		out := map[string]string{"host": at, "queueName": queue, "mode": queueLength, "value": "5"}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	all := func(more ...string) map[string]string {
		return of(api, `^keda\.(long|short)$`, append([]string{"useRegex", "true"}, more...)...)
	}
	const long, short, flow = "keda.long", "keda.short", "keda.flow"
	return []scalerCase{
		{name: "length", trigger: of(api, long), want: scalerAnswer{Value: longQueue, Active: true}},
		{name: "length, not yet active", trigger: of(api, long, "activationValue", strconv.Itoa(longQueue)), want: scalerAnswer{Value: longQueue}},
		{name: "length of what is ready", trigger: of(api, long, "excludeUnacknowledged", "true"), want: scalerAnswer{Value: longQueue - heldOfLong, Active: true}},
		{name: "length in a vhost", trigger: of(api, long, "vhostName", kedaVHost), want: scalerAnswer{Value: shortQueue, Active: true}},
		{name: "sum by a pattern", trigger: all(), want: scalerAnswer{Value: longQueue + shortQueue, Active: true}},
		{name: "average by a pattern", trigger: all("operation", "avg"), want: scalerAnswer{Value: (longQueue + shortQueue) / 2, Active: true}},
		{name: "maximum by a pattern", trigger: all("operation", "max"), want: scalerAnswer{Value: longQueue, Active: true}},
		{name: "a pattern without a match", trigger: of(api, "^nix$", "useRegex", "true"), want: scalerAnswer{}},
		{name: "a pattern with more matches than a page", trigger: all("pageSize", "1"), want: scalerAnswer{Error: "more queues than can be recovered"}},
		{name: "no such queue", trigger: of(api, "nix"), want: scalerAnswer{Error: "404"}},
		{name: "wrong password", trigger: of(api, long, "host", "http://guest:wrong@"+http+"/"), want: scalerAnswer{Error: "401"}},
		{name: "queue that nobody consumes", trigger: of(api, short, "mode", "ExpectedQueueConsumptionTime"), want: scalerAnswer{Active: true}},
		{name: "rate of publishes", trigger: of(api, flow, "mode", "MessageRate"), rate: true},
		{name: "rate of deliveries", trigger: of(api, flow, "mode", "DeliverGetRate"), rate: true},
		{name: "publishes per delivery", trigger: of(api, flow, "mode", "PublishedToDeliveredRatio"), rate: true},
		{name: "rate by a pattern", trigger: of(api, "^keda.fl", "mode", "MessageRate", "useRegex", "true"), rate: true},
		{name: "ready over AMQP", trigger: of(wire, long), want: scalerAnswer{Value: longQueue - heldOfLong, Active: true}},
		{name: "ready in a vhost over AMQP", trigger: of(wire, long, "vhostName", kedaVHost), want: scalerAnswer{Value: shortQueue, Active: true}},
		{name: "no such queue over AMQP", trigger: of(wire, "nix"), want: scalerAnswer{Error: "NOT_FOUND"}},
		{name: "rate over AMQP", trigger: of(wire, long, "mode", "MessageRate"), want: scalerAnswer{Error: "must be HTTP"}},
	}
}

// KEDA has KEDA's scaler look at queues of a node of its own, over HTTP and AMQP, in all its modes. It returns ErrAbsent if
// the module or what it imports cannot be fetched.
func KEDA(ctx context.Context) (LibraryTests, error) {
	return keda().besideHTTP(ctx, func(dir string, q *Quorate) (LibraryTests, error) { return scale(ctx, dir, q) })
}

// scale runs the cases with what is in the directory.
func scale(ctx context.Context, dir string, q *Quorate) (r LibraryTests, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	program, err := keda().buildProgram(ctx, dir)
	if err != nil {
		return r, err
	}
	c, err := client.Dial(ctx, client.Config{Addresses: q.Cluster.Addresses()})
	if err != nil {
		return r, err
	}
	defer c.Close()
	if err := fillForScaler(ctx, c); err != nil {
		return r, err
	}
	flowing := make(chan error, 1)
	go func() { flowing <- flow(ctx, c) }()
	scaler, err := startAsked(ctx, program)
	if err != nil {
		return r, err
	}
	for _, x := range scalerCases(q.Cluster.Nodes[0].Management, q.Cluster.Nodes[0].AMQP) {
		fault, err := x.try(ctx, scaler)
		if err != nil {
			return r, err
		}
		if fault == "" {
			r.Passed++
		} else {
			r.Failed = append(r.Failed, x.name+": "+fault)
		}
	}
	if err := scaler.end(); err != nil {
		return r, err
	}
	cancel()
	return r, <-flowing
}

// fillForScaler makes the queues of the cases.
func fillForScaler(ctx context.Context, c *client.Client) error {
	_, err := c.PutVHost(ctx, client.VHost{Name: kedaVHost})
	if err == nil {
		_, err = c.SetPermission(ctx, client.Permission{VHost: kedaVHost, User: "guest", Configure: ".*", Write: ".*", Read: ".*"})
	}
	if err != nil {
		return err
	}
	for _, x := range []struct {
		vhost, name string
		messages    int
	}{{"/", "keda.long", longQueue}, {"/", "keda.short", shortQueue}, {"/", "keda.flow", 0}, {kedaVHost, "keda.long", shortQueue}} {
		if _, err := c.DeclareQueue(ctx, client.Queue{VHost: x.vhost, Name: x.name}); err != nil {
			return err
		}
		for range x.messages {
			if _, err := c.PublishOne(ctx, client.Message{VHost: x.vhost, RoutingKey: x.name}); err != nil {
				return err
			}
		}
	}
	for range heldOfLong {
		if _, err := c.Get(ctx, client.GetRequest{VHost: "/", Queue: "keda.long"}); err != nil {
			return err
		}
	}
	return nil
}

// flow has messages flow through a queue until ctx ends.
func flow(ctx context.Context, c *client.Client) error {
	consumer, err := c.Consume(ctx, client.ConsumeConfig{Queue: "keda.flow", AutoAck: true})
	if err != nil {
		return err
	}
	defer consumer.Close()
	for {
		_, err := c.PublishOne(ctx, client.Message{RoutingKey: "keda.flow"})
		if err == nil {
			_, err = consumer.Receive(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// figuresPatience bounds the wait for figures, which are collected every few seconds.
const figuresPatience = time.Minute

// try asks until the answer is as it must be. It returns what is wrong with the last one; "": nothing.
func (x *scalerCase) try(ctx context.Context, scaler *asked) (fault string, err error) {
	deadline := time.Now().Add(figuresPatience)
	for {
		var got scalerAnswer
		if err := scaler.ask(x.trigger, &got); err != nil {
			return "", fmt.Errorf("%s: the scaler's program: %w", x.name, err)
		}
		if fault = x.fault(got); fault == "" || time.Now().After(deadline) {
			return fault, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// fault describes how an answer differs from the wanted one; "": not at all.
func (x *scalerCase) fault(got scalerAnswer) string {
	right := got.Value == x.want.Value && got.Active == x.want.Active && got.Error == ""
	switch {
	case x.rate:
		right = got.Value > 0 && got.Active && got.Error == ""
	case x.want.Error != "":
		right = strings.Contains(got.Error, x.want.Error)
	}
	if right {
		return ""
	}
	return fmt.Sprintf("%+v, want %+v", got, x.want)
}
