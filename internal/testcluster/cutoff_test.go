package testcluster_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/grpcapi"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// A node that has lost the majority says so, first by its health and then to everybody: streams
// end as UNAVAILABLE and AMQP connections with 320, new ones are refused, until it is back.
func TestCutOff(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts nodes, and waits until one is cut off")
	}
	c := testcluster.Start(t, 3)
	cl := openClient(t, c)
	if _, err := cl.DeclareQueue(testContext(t), client.Queue{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(c.Addrs()[0], grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(guest{}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing can be done about it
	broker, health := brokerv1.NewBrokerClient(conn), healthv1.NewHealthClient(conn)
	fit := func(want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		testcluster.Poll(t, fmt.Sprintf("fit is %v", want), func() error {
			r, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: grpcapi.FitService})
			if err == nil && r.GetStatus() != want {
				err = errors.New(r.String())
			}
			return err
		})
	}
	fit(healthv1.HealthCheckResponse_SERVING)
	publish, err := broker.Publish(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	send := func(sequence uint64) {
		t.Helper()
		message := &brokerv1.Message{RoutingKey: "q", Body: []byte("x")}
		if err := publish.Send(&brokerv1.PublishRequest{Sequence: sequence, Message: message}); err != nil {
			t.Fatal(err)
		}
	}
	send(1)
	if _, err := publish.Recv(); err != nil {
		t.Fatal(err)
	}
	consume, err := broker.Consume(testContext(t))
	if err == nil {
		err = consume.Send(&brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Open{Open: &brokerv1.ConsumeOpen{Queue: "q", Prefetch: 1}}})
	}
	if err == nil {
		_, err = consume.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	url := "amqp://guest:guest@" + c.AMQP(0)
	old, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	closed := old.NotifyClose(make(chan *amqp.Error, 1))

	c.Kill(1)
	c.Kill(2)
	send(2) // nobody can take it
	fit(healthv1.HealthCheckResponse_NOT_SERVING)
	cutOff := func(what string, err error) {
		t.Helper()
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "reaches 1 of the cluster's 3 nodes") {
			t.Errorf("%s ends with %v", what, err)
		}
	}
	_, err = publish.Recv()
	cutOff("publishing", err)
	for err = nil; err == nil; {
		_, err = consume.Recv()
	}
	cutOff("consuming", err)
	if e := <-closed; e == nil || e.Code != amqp.ConnectionForced || !strings.Contains(e.Reason, "reaches 1 of the cluster's 3 nodes") {
		t.Errorf("the AMQP connection is closed with %v", e)
	}
	again, err := broker.Publish(testContext(t))
	if err == nil {
		_, err = again.Recv()
	}
	cutOff("publishing once more", err)
	if late, err := amqp.Dial(url); err == nil {
		testcluster.Poll(t, "a new AMQP connection is closed", func() error {
			if !late.IsClosed() {
				return errors.New("it is open")
			}
			return nil
		})
	}

	c.Restart(1)
	fit(healthv1.HealthCheckResponse_SERVING)
	testcluster.Poll(t, "it is published again", func() error {
		p, err := cl.Publisher(client.PublisherConfig{})
		if err != nil {
			return err
		}
		defer p.Close(t.Context()) //nolint:errcheck // the publish has returned the error
		_, err = p.Publish(testContext(t), client.Message{RoutingKey: "q"})
		return err
	})
}
