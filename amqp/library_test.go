package amqp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"reflect"
	"strconv"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/authority"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// An ordinary client publishes with confirms and consumes over TLS, by password and by its
// certificate (AM-1, AM-4).
func TestLibraryOverTLS(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	a, err := authority.New("clients", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.Pair().Cert)
	_, address := serve(t, c, amqp.Config{
		TLS: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate(t, a, "server", x509.ExtKeyUsageServerAuth)},
			ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool,
		},
		CertificateUser: func(c *x509.Certificate) (string, error) { return c.Subject.CommonName, nil },
	})
	trust := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: "localhost"}
	named, unknown := trust.Clone(), trust.Clone()
	named.Certificates = []tls.Certificate{certificate(t, a, "guest", x509.ExtKeyUsageClientAuth)}
	unknown.Certificates = []tls.Certificate{certificate(t, a, "nobody", x509.ExtKeyUsageClientAuth)}
	password, external := &amqp091.PlainAuth{Username: "guest", Password: "guest"}, &amqp091.ExternalAuth{}
	unauthenticated := errors.New("the server's certificate is not trusted")
	for _, x := range []struct {
		name    string
		trust   *tls.Config
		login   amqp091.Authentication
		refused error
	}{
		{"password", trust, password, nil},
		{"certificate", named, external, nil},
		{"certificate of nobody", unknown, external, amqp091.ErrCredentials},
		{"no certificate", trust, external, amqp091.ErrSASL},
		{"server not known", &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "localhost"}, password, unauthenticated},
	} {
		t.Run(x.name, func(t *testing.T) {
			conn, err := amqp091.DialConfig("amqps://"+address+"/", amqp091.Config{SASL: []amqp091.Authentication{x.login}, TLSClientConfig: x.trust})
			if _, is := errors.AsType[*tls.CertificateVerificationError](err); is {
				err = unauthenticated
			}
			if !errors.Is(err, x.refused) {
				t.Fatalf("%v, want %v", err, x.refused)
			}
			if err != nil {
				return
			}
			roundTrip(t, conn, "q."+x.name)
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// roundTrip publishes messages with confirms and consumes them in order.
func roundTrip(t *testing.T, conn *amqp091.Connection, queue string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	const n = 20
	for i := range n {
		d, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, amqp091.Publishing{Body: []byte(strconv.Itoa(i))})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := d.WaitContext(ctx); !ok || err != nil {
			t.Fatalf("message %d: confirmed %v, %v", i, ok, err)
		}
	}
	ds, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		var d amqp091.Delivery
		more := false
		select {
		case d, more = <-ds:
		case <-ctx.Done():
		}
		if !more || string(d.Body) != strconv.Itoa(i) {
			t.Fatalf("%q, %v, want %d", d.Body, more, i)
		}
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
	}
}

// headerKinds are headers of each kind that both protocols have, as each of them has it.
func headerKinds() (message.Table, client.Table) {
	at := time.Unix(1700000000, 0)
	rows := []struct {
		name string
		wire message.Value
		grpc any
	}{
		{"void", message.Null(), nil},
		{"yes", message.Bool(true), true},
		{"no", message.Bool(false), false},
		{"int8", message.Int8(-128), int8(-128)},
		{"uint8", message.Uint8(255), uint8(255)},
		{"int16", message.Int16(-32768), int16(-32768)},
		{"uint16", message.Uint16(65535), uint16(65535)},
		{"int32", message.Int32(-1 << 31), int32(-1 << 31)},
		{"uint32", message.Uint32(1<<32 - 1), uint32(1<<32 - 1)},
		{"int64", message.Int64(-1 << 63), int64(-1 << 63)},
		{"small int64", message.Int64(1), int64(1)},
		{"float32", message.Float32(1.1), float32(1.1)},
		{"float64", message.Float64(1.1), 1.1},
		{"decimal", message.Decimal(2, -12345), client.Decimal{Scale: 2, Value: -12345}},
		{"text", message.String("grün"), "grün"},
		{"no text", message.String("\xff\x00"), "\xff\x00"},
		{"bytes", message.Bytes([]byte{0, 255, 1}), []byte{0, 255, 1}},
		{"time", message.Timestamp(1700000000), at},
		{
			"list",
			message.Array(message.Int8(1), message.String("two"), message.Array(message.Timestamp(1700000000)), message.TableValue(message.Table{{Name: "b", Value: message.Bytes([]byte{7})}})),
			[]any{int8(1), "two", []any{at}, client.Table{"b": []byte{7}}},
		},
		{
			"table",
			message.TableValue(message.Table{{Name: "in", Value: message.TableValue(message.Table{{Name: "deep", Value: message.Uint16(7)}})}}),
			client.Table{"in": client.Table{"deep": uint16(7)}},
		},
	}
	var own message.Table
	other := client.Table{}
	for _, r := range rows {
		own.Set(r.name, r.wire)
		other[r.name] = r.grpc
	}
	return own, other
}

// Headers keep their kinds and values from one protocol to the other (AM-9).
func TestHeadersBetweenProtocols(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	own, other := headerKinds()
	p := connect(t, c.AMQP(0))
	for _, q := range []string{"to-grpc", "to-amqp"} {
		p.send(1, &wire.QueueDeclare{Queue: q, Durable: true})
		want[*wire.QueueDeclareOK](p)
	}
	g, err := client.Dial(t.Context(), client.Config{Addresses: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)

	p.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](p)
	p.publish("", "to-grpc", true, message.Message{Headers: own, Body: []byte{0, 255}})
	want[*wire.BasicAck](p)
	got, err := g.Get(t.Context(), client.GetRequest{VHost: "/", Queue: "to-grpc", AutoAck: true})
	if err != nil || got == nil {
		t.Fatalf("%v, %v", got, err)
	}
	if string(got.Body) != "\x00\xff" || len(got.Headers) != len(other) {
		t.Errorf("%q with %d headers, want %d", got.Body, len(got.Headers), len(other))
	}
	for name, v := range other {
		if have, has := got.Headers[name]; !has || !reflect.DeepEqual(have, v) {
			t.Errorf("%s: %T %v, want %T %v", name, have, have, v, v)
		}
	}

	r, err := g.PublishOne(t.Context(), client.Message{RoutingKey: "to-amqp", Properties: client.Properties{Headers: other}, Body: []byte{0, 255}})
	if err != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	p.send(1, &wire.BasicGet{Queue: "to-amqp", NoAck: true})
	want[*wire.BasicGetOK](p)
	m, body := p.content()
	if string(body) != "\x00\xff" || len(m.Headers) != len(own) {
		t.Errorf("%q with %d headers, want %d", body, len(m.Headers), len(own))
	}
	for _, f := range own {
		if have, has := m.Headers.Get(f.Name); !has || !have.Equal(f.Value) {
			t.Errorf("%s: %s %v, want %s %v", f.Name, have.Kind(), have, f.Value.Kind(), f.Value)
		}
	}
}
