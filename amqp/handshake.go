package amqp

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/gate"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/message"
)

// The SASL mechanisms on offer.
const (
	mechanismPlain    = "PLAIN"
	mechanismAMQPlain = "AMQPLAIN"
	mechanismExternal = "EXTERNAL"
)

// limitHandshake sets the deadline for the client's next frame. After the login it is the deadline for connection.open,
// which no heartbeat moves.
func (c *conn) limitHandshake() error {
	within := c.s.cfg.Gate.LoginTimeout()
	if within <= 0 {
		return nil
	}
	c.openBy = time.Now().Add(within)
	return c.nc.SetReadDeadline(c.openBy)
}

// handshake runs from the protocol header to connection.open-ok (AM-1, AM-2).
func (c *conn) handshake() error {
	if err := c.limitHandshake(); err != nil {
		return err
	}
	if err := c.protocolHeader(); err != nil {
		return err
	}
	if err := c.awaitServing(); err != nil {
		return err
	}
	c.send(0, &wire.ConnectionStart{
		VersionMajor: 0, VersionMinor: 9, ServerProperties: c.s.properties(),
		Mechanisms: c.mechanisms(), Locales: "en_US",
	})
	start, err := expect[*wire.ConnectionStartOK](c)
	if err != nil {
		return err
	}
	c.client = clientOf(start)
	checked := gate.From(c.nc).Check()
	err = c.login(start)
	checked()
	if err != nil {
		return err
	}
	gate.From(c.nc).Admit()
	_, full := c.s.b.Connections.EnterUser(c.ctx)
	if err := c.limitHandshake(); err != nil { // checking the credentials, and asking other nodes, may have taken that long
		return err
	}
	if err := c.tune(); err != nil {
		return err
	}
	if full != nil { // clients expect this refusal in place of open-ok
		return c.refuseOpen(full)
	}
	open, err := expect[*wire.ConnectionOpen](c)
	if err != nil {
		return err
	}
	if err := c.enter(open.VirtualHost); err != nil {
		return err
	}
	c.openBy = time.Time{}
	if err := c.nc.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	c.send(0, &wire.ConnectionOpenOK{})
	return nil
}

// protocolHeader reads the client's first bytes. It answers any other header with that of this
// version.
func (c *conn) protocolHeader() error {
	for c.to < len(wire.ProtocolHeader) {
		if err := c.fill(len(wire.ProtocolHeader)); err != nil {
			return err
		}
	}
	if bytes.Equal(c.in[:len(wire.ProtocolHeader)], []byte(wire.ProtocolHeader)) {
		c.from = len(wire.ProtocolHeader)
		c.mu.Lock()
		c.greeted = true
		c.mu.Unlock()
		return nil
	}
	c.mu.Lock()
	c.out = append(c.out, wire.ProtocolHeader...)
	c.mu.Unlock()
	wait.Wake(c.news)
	return fmt.Errorf("%w: its first bytes are %q", errOtherProtocol, c.in[:len(wire.ProtocolHeader)])
}

// awaitServing waits until the node serves clients, or closes the connection (EX-16). It does so
// before the server's first frame, because clients take an end of the login for a wrong password.
func (c *conn) awaitServing() error {
	err := c.s.b.Serving.Serves()
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.s.cfg.ServeTimeout)
	defer cancel()
	if err = c.s.b.Serving.AwaitServing(ctx); err != nil {
		return c.refuse(forced(err))
	}
	return nil
}

// expect reads the one method that is allowed now, or the client's close.
func expect[M wire.Method](c *conn) (M, error) {
	var none M
	f, err := c.readFrame()
	if err != nil {
		return none, c.refuse(err)
	}
	if f.Type != wire.FrameMethod || f.Channel != 0 {
		return none, c.refuse(refuse(wire.UnexpectedFrame, 0, "a frame of type %d on channel %d before the connection is open", f.Type, f.Channel))
	}
	m, err := wire.ParseMethod(f.Payload, nil)
	if err != nil {
		return none, c.refuse(faultOf(err, 0))
	}
	switch m := m.(type) {
	case M:
		return m, nil
	case *wire.ConnectionClose:
		c.send(0, &wire.ConnectionCloseOK{})
		return none, errClosed
	}
	return none, c.refuse(refuse(wire.CommandInvalid, m.ID(), "%s before the connection is open, want %s", m.ID(), none.ID()))
}

// refuse ends a handshake with a reason that the client receives.
func (c *conn) refuse(err error) error {
	f, ok := errors.AsType[*fault](err)
	if !ok {
		return err
	}
	f.hard = true
	c.sendClose(f)
	return f
}

// properties returns what the server says about itself.
func (s *Server) properties() message.Table {
	capabilities := message.Table{}
	for _, name := range []string{
		"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
		"connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos", "direct_reply_to",
	} {
		capabilities = append(capabilities, message.Field{Name: name, Value: message.Bool(true)})
	}
	return message.Table{
		{Name: "capabilities", Value: message.TableValue(capabilities)},
		{Name: "cluster_name", Value: message.String(s.cfg.Cluster)},
		{Name: "product", Value: message.String("Quorate")},
		{Name: "version", Value: message.String(s.cfg.Version)},
		{Name: "platform", Value: message.String("Go " + strings.TrimPrefix(runtime.Version(), "go"))},
	}
}

// clientOf reads what the client says about itself in start-ok. Nothing here is verified; a
// property of a wrong type counts as absent.
func clientOf(start *wire.ConnectionStartOK) client {
	properties := start.ClientProperties
	c := client{mechanism: start.Mechanism, properties: message.AppendTable(nil, properties)}
	text := func(name string) string {
		v, _ := properties.Get(name)
		s, _ := v.AsString()
		return s
	}
	c.name, c.product = text("connection_name"), strings.TrimSpace(text("product")+" "+text("version"))
	v, _ := properties.Get("capabilities")
	capabilities, _ := v.AsTable()
	can := func(name string) bool {
		v, _ := capabilities.Get(name)
		is, _ := v.AsBool()
		return is
	}
	c.cancelNotify, c.authFailure = can("consumer_cancel_notify"), can("authentication_failure_close")
	c.blocked = can("connection.blocked")
	return c
}

// login authenticates the client.
func (c *conn) login(m *wire.ConnectionStartOK) error {
	user, secret, ok := "", "", false
	switch m.Mechanism {
	case mechanismExternal:
		return c.loginExternal(m)
	case mechanismPlain:
		user, secret, ok = plain(m.Response)
	case mechanismAMQPlain:
		user, secret, ok = amqplain(m.Response)
	default:
		return c.refuse(refuse(wire.CommandInvalid, m.ID(), "unknown authentication mechanism '%s', there are: %s", m.Mechanism, c.mechanisms()))
	}
	if !ok {
		return c.refuse(refuse(wire.SyntaxError, m.ID(), "the response of mechanism %s cannot be read", m.Mechanism))
	}
	who := identity.Itself()
	if c.s.b.Logins.Authenticates() {
		var err error
		if who, err = c.s.b.Logins.Login(c.ctx, user, secret, addressOf(c.nc)); err != nil {
			return c.refusedLogin(m, user, err)
		}
	}
	c.loggedIn(who)
	return nil
}

// loggedIn sets the connection up for a client with this identity.
func (c *conn) loggedIn(who *identity.Identity) {
	c.owner, c.buffer = c.s.b.Connections.Connect(), c.s.b.Buffers.New()
	c.ctx = connections.WithConnection(identity.WithIdentity(c.ctx, who), c.owner)
}

// mechanisms returns the mechanisms that the client may choose.
func (c *conn) mechanisms() string {
	all := mechanismPlain + " " + mechanismAMQPlain
	if c.certificate() != nil {
		all += " " + mechanismExternal
	}
	return all
}

// certificate returns the client's certificate, which TLS has verified; nil: the client sent none,
// or certificates cannot log in here.
func (c *conn) certificate() *x509.Certificate {
	t, ok := c.nc.(*tls.Conn)
	if !ok || c.s.cfg.CertificateUser == nil {
		return nil
	}
	chain := t.ConnectionState().PeerCertificates
	if len(chain) == 0 {
		return nil
	}
	return chain[0]
}

// loginExternal logs in by the client's certificate.
func (c *conn) loginExternal(m *wire.ConnectionStartOK) error {
	own := c.certificate()
	if own == nil {
		return c.refuse(refuse(wire.CommandInvalid, m.ID(), "mechanism EXTERNAL needs a client certificate, there are: %s", c.mechanisms()))
	}
	who := identity.Itself()
	if c.s.b.Logins.Authenticates() {
		user, err := c.s.cfg.CertificateUser(own)
		if err == nil {
			who, err = c.s.b.Logins.LoginCertificate(c.ctx, user, addressOf(c.nc))
		} else {
			err = &failure.Error{Class: failure.AccessRefused, Kind: "login", Reason: err.Error(), Unauthenticated: true}
		}
		if err != nil {
			return c.refusedLogin(m, user, err)
		}
	}
	c.loggedIn(who)
	return nil
}

// refusedLogin sends the refusal to clients that understand it, and closes the connections of
// others.
func (c *conn) refusedLogin(m *wire.ConnectionStartOK, user string, err error) error {
	c.s.b.Audit.LoginRefused(c.ctx, audit.LoginTry{From: c.origin(), User: user}, err)
	if e, ok := errors.AsType[*failure.Error](err); ok && e.Class == failure.Unavailable {
		return c.refuse(forced(err))
	} else if ok && e.Class != failure.AccessRefused {
		return c.refuse(faultOf(err, m.ID()))
	}
	if !c.client.authFailure {
		return err
	}
	return c.refuse(refuse(wire.AccessRefused, 0,
		"Login was refused using authentication mechanism %s. For details see the broker logfile.", m.Mechanism))
}

// user returns the name of the login for logs and the audit; "" before the login and on clusters
// without logins.
func (c *conn) user() string {
	who, err := c.s.b.Logins.Who(c.ctx)
	if err != nil || who == nil {
		return ""
	}
	return who.User()
}

// addressOf returns the client's address; the zero address if it does not come over a network.
func addressOf(nc net.Conn) netip.Addr {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}

// plain reads a response of PLAIN: an identity to act for, which is ignored, user and
// password, with zero bytes between them.
func plain(response string) (user, secret string, ok bool) {
	_, rest, ok1 := strings.Cut(response, "\x00")
	user, secret, ok2 := strings.Cut(rest, "\x00")
	return user, secret, ok1 && ok2
}

// amqplain reads a response of AMQPLAIN: a table without its size.
func amqplain(response string) (user, secret string, ok bool) {
	t, err := wire.ParseTable([]byte(response))
	if err != nil {
		return "", "", false
	}
	login, _ := t.Get("LOGIN")
	pass, _ := t.Get("PASSWORD")
	user, ok1 := login.AsString()
	secret, ok2 := pass.AsString()
	return user, secret, ok1 && ok2
}

// tune agrees with the client on limits: the lower value counts, and 0 means no limit.
func (c *conn) tune() error {
	heartbeat := uint16(c.s.cfg.Heartbeat / time.Second) // bounded by the setting
	c.send(0, &wire.ConnectionTune{ChannelMax: c.s.cfg.ChannelMax, FrameMax: c.s.cfg.FrameMax, Heartbeat: heartbeat})
	ok, err := expect[*wire.ConnectionTuneOK](c)
	if err != nil {
		return err
	}
	if ok.FrameMax != 0 && ok.FrameMax < wire.MinFrameMax {
		return c.refuse(refuse(wire.FrameError, ok.ID(), "frame_max %d, at least %d is needed", ok.FrameMax, wire.MinFrameMax))
	}
	c.frameMax, c.chanMax = lower(ok.FrameMax, c.s.cfg.FrameMax), lower(ok.ChannelMax, c.s.cfg.ChannelMax)
	c.heartbeat = time.Duration(ok.Heartbeat) * time.Second
	c.w.agreed(c.frameMax, c.heartbeat)
	return nil
}

// lower agrees on a limit of connection.tune, where 0 from the client means no limit of its own.
func lower[N uint16 | uint32](client, server N) N {
	if client == 0 || client > server {
		return server
	}
	return client
}

// enter opens a vhost for the connection, and audits the login.
func (c *conn) enter(vhost string) error {
	if err := c.s.b.Connections.OpenVHost(c.ctx, vhost); err != nil {
		return c.refuseOpen(err)
	}
	c.vhost = vhost
	c.s.b.Audit.LoggedIn(c.ctx, c.origin(), vhost)
	return nil
}

// refuseOpen refuses a client that has logged in, and audits that.
func (c *conn) refuseOpen(err error) error {
	c.s.b.Audit.LoginRefused(c.ctx, audit.LoginTry{From: c.origin(), User: c.user()}, err)
	return c.refuse(faultOf(err, wire.ConnectionOpenID))
}
