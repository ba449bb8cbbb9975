package amqp_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/issuer"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// tokens starts a node that also accepts the tokens of an issuer.
func tokens(t *testing.T) (*testcluster.Cluster, *issuer.Issuer) {
	t.Helper()
	return tokensOf(t, issuer.Start(t))
}

func tokensOf(t *testing.T, i *issuer.Issuer) (*testcluster.Cluster, *issuer.Issuer) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	i.Rotate("k", "ES256", false)
	return testcluster.StartTokens(t, 1, i.URL()), i
}

func token(i *issuer.Issuer, user, scopes string, end time.Time) string {
	return i.Sign("k", "ES256", i.Claims(user, "quorate", map[string]any{"scope": scopes, "exp": end.Unix()}))
}

// enter logs in and opens channel 1; false: the login is refused, or it ended before all was done.
func (p *peer) enter(user, password string) bool {
	p.t.Helper()
	p.loginAs(user, password)
	if !answered[*wire.ConnectionTune](p) {
		return false
	}
	p.send(0, &wire.ConnectionTuneOK{ChannelMax: 100, FrameMax: 8192})
	p.send(0, &wire.ConnectionOpen{VirtualHost: "/"})
	if !answered[*wire.ConnectionOpenOK](p) {
		return false
	}
	p.send(1, &wire.ChannelOpen{})
	return answered[*wire.ChannelOpenOK](p)
}

// answered reads the next method, which must be an M, or connection.close: false.
func answered[M wire.Method](p *peer) bool {
	p.t.Helper()
	m := p.method()
	if _, is := m.(M); is {
		return true
	}
	if _, is := m.(*wire.ConnectionClose); !is {
		p.t.Fatalf("%s %+v", m.ID(), m)
	}
	return false
}

const everything = "quorate.read:*/* quorate.write:*/* quorate.configure:*/*"

// brief returns two connections with a token that ends soon, and the time when it does. At least half of the token's time
// is left.
func brief(t *testing.T, c *testcluster.Cluster, i *issuer.Issuer) (one, two *peer, end time.Time) {
	t.Helper()
	for lasts := 4 * time.Second; lasts < patience; lasts *= 2 { // logging in takes time
		end = time.Now().Add(lasts).Truncate(time.Second)
		text := token(i, "ann", everything, end)
		one, two = dial(t, c.AMQP(0)), dial(t, c.AMQP(0))
		if one.enter("", text) && two.enter("", text) && time.Until(end) > lasts/2 {
			return one, two, end
		}
	}
	t.Fatal("no login in time")
	return nil, nil, end
}

// A token logs in as the password of any user name, even a long token. Its scopes are the rights of its own user, and a
// refusal of a wrong token says no more than one of a wrong password (ID-2, ID-4).
func TestTokenAsPassword(t *testing.T) {
	c, i := tokens(t)
	hour := time.Now().Add(time.Hour)
	long := everything + strings.Repeat(" quorate.read:other/x", 400)
	for _, user := range []string{"", "somebody"} {
		p := dial(t, c.AMQP(0))
		if !p.enter(user, token(i, "ann", long, hour)) {
			t.Fatal("refused")
		}
		p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
		want[*wire.QueueDeclareOK](p)
	}
	p := dial(t, c.AMQP(0))
	if !p.enter("", token(i, "bob", "quorate.read:%2F/q", hour)) {
		t.Fatal("refused")
	}
	p.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"})
	want[*wire.BasicConsumeOK](p)
	p.send(1, &wire.QueueDeclare{Queue: "q2", Durable: true})
	if text := p.channelClosed(wire.AccessRefused, wire.QueueDeclareID); !strings.Contains(text, "user 'bob'") {
		t.Error(text)
	}
	p.send(1, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](p)
	p.publish("", "q", false, message.Message{Body: []byte("x")})
	p.channelClosed(wire.AccessRefused, wire.BasicPublishID)

	p = dial(t, c.AMQP(0)) // no scope is for this vhost
	p.loginAs("", token(i, "eve", "quorate.read:other/*", hour))
	want[*wire.ConnectionTune](p)
	p.send(0, &wire.ConnectionTuneOK{})
	p.send(0, &wire.ConnectionOpen{VirtualHost: "/"})
	p.closed(wire.NotAllowed, wire.ConnectionOpenID)

	for _, wrong := range []string{token(i, "ann", everything, time.Now().Add(-time.Hour)), token(i, "guest", everything, hour) + "x"} {
		p = dial(t, c.AMQP(0))
		p.loginAs("guest", wrong)
		if text := p.closed(wire.AccessRefused, 0); !strings.HasPrefix(text, "ACCESS_REFUSED - Login was refused using") {
			t.Error(text)
		}
	}
	connect(t, c.AMQP(0)) // users of the catalog can still log in
}

// ID-5: a connection and its consumers end with its token, unless update-secret has brought a newer one.
func TestTokenEnds(t *testing.T) {
	c, i := tokens(t)
	p, renewed, end := brief(t, c, i)
	renewed.send(0, &wire.ConnectionUpdateSecret{NewSecret: token(i, "ann", everything, end.Add(time.Hour)), Reason: "it ends soon"})
	want[*wire.ConnectionUpdateSecretOK](renewed)
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	if _, in := p.method().(*wire.QueueDeclareOK); in {
		p.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"})
	}
	for {
		m := p.method()
		x, is := m.(*wire.ConnectionClose)
		if !is {
			continue // what came before
		}
		if wire.ReplyCode(x.ReplyCode) != wire.ConnectionForced || !strings.Contains(x.ReplyText, "the login of user \"ann\" has ended at 20") {
			t.Errorf("%+v", x)
		}
		break
	}
	if time.Now().Before(end) {
		t.Error("it ended too early")
	}
	renewed.send(1, &wire.QueueDeclare{Queue: "q2", Durable: true})
	want[*wire.QueueDeclareOK](renewed)
	renewed.publish("", "q2", false, message.Message{Body: []byte("x")})
	renewed.send(1, &wire.BasicGet{Queue: "q2"})
	testcluster.Poll(t, "the message is there", func() error {
		if _, is := renewed.method().(*wire.BasicGetOK); is {
			return nil
		}
		renewed.send(1, &wire.BasicGet{Queue: "q2"})
		return errors.New("nothing")
	})
}

// ID-5: after update-secret the rights and tags are those of the new token, on open channels too. A token of another
// user, a wrong token, and one without rights in the vhost are refused.
func TestUpdateSecret(t *testing.T) {
	c, i := tokens(t)
	hour := time.Now().Add(time.Hour)
	logIn := func() *peer {
		p := dial(t, c.AMQP(0))
		if !p.enter("", token(i, "ann", everything+" quorate.tag:impersonator", hour)) {
			t.Fatal("refused")
		}
		return p
	}
	p := logIn()
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](p)
	foreign := message.Message{Body: []byte("x"), Properties: message.Properties{UserID: "guest"}}
	p.publish("", "q", false, foreign)
	want[*wire.BasicAck](p)
	p.send(0, &wire.ConnectionUpdateSecret{NewSecret: token(i, "ann", everything, hour), Reason: "fewer tags"})
	want[*wire.ConnectionUpdateSecretOK](p)
	p.publish("", "q", false, foreign) // the right to the exchange was checked before
	p.channelClosed(wire.PreconditionFailed, wire.BasicPublishID)
	p.send(0, &wire.ConnectionUpdateSecret{NewSecret: token(i, "ann", "quorate.read:*/q", hour), Reason: "fewer rights"})
	want[*wire.ConnectionUpdateSecretOK](p)
	p.send(1, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](p)
	p.publish("", "q", false, message.Message{Body: []byte("x")})
	p.channelClosed(wire.AccessRefused, wire.BasicPublishID)

	for what, secret := range map[string]string{
		"somebody else":   token(i, "bob", everything, hour),
		"expired":         token(i, "ann", everything, time.Now().Add(-time.Hour)),
		"a user's":        "guest",
		"nothing":         "",
		"another vhost's": token(i, "ann", "quorate.read:other/*", hour),
	} {
		p := logIn()
		p.send(0, &wire.ConnectionUpdateSecret{NewSecret: secret, Reason: what})
		if text := p.closed(wire.NotAllowed, wire.ConnectionUpdateSecretID); text != "NOT_ALLOWED - New secret was refused by one of the backends" {
			t.Errorf("%s: %s", what, text)
		}
	}
}

// While the issuer does not answer, its tokens are neither right nor wrong, and users of the catalog can log in.
func TestIssuerDownAtStart(t *testing.T) {
	i := issuer.Start(t)
	i.Break(issuer.Down)
	c, _ := tokensOf(t, i)
	connect(t, c.AMQP(0))
	text := token(i, "ann", everything, time.Now().Add(time.Hour))
	p := dial(t, c.AMQP(0))
	p.loginAs("", text)
	if text := p.closed(wire.ConnectionForced, 0); !strings.Contains(text, "cannot check credentials now") {
		t.Error(text)
	}
	i.Break(nil)
	testcluster.Poll(t, "a token logs in", func() error {
		if p := dial(t, c.AMQP(0)); !p.enter("", text) {
			return errors.New("refused")
		}
		return nil
	})
}
