package amqp

import (
	"errors"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
)

// firstFrameMax is the largest frame before the handshake has agreed on another, in bytes: a token
// arrives in a single frame.
const firstFrameMax = 16 << 10

// updateSecret continues the connection with another secret (AM-11).
func (c *conn) updateSecret(m *wire.ConnectionUpdateSecret) error {
	if err := c.s.b.Permissions.Renew(c.ctx, m.NewSecret, c.vhost, addressOf(c.nc)); err != nil {
		c.s.b.Audit.LoginRefused(c.ctx, audit.LoginTry{From: c.origin(), User: c.user()}, err)
		if e, ok := errors.AsType[*failure.Error](err); ok && (e.Class == failure.Unavailable || e.Class == failure.ResourceExhausted) {
			return forced(err) // no backend has refused it
		}
		f := refuse(wire.NotAllowed, m.ID(), "New secret was refused by one of the backends")
		f.cause = err
		return f
	}
	c.watchLogin()
	c.send(0, &wire.ConnectionUpdateSecretOK{})
	return nil
}

// watchLogin closes the connection when its login ends (ID-5).
func (c *conn) watchLogin() {
	if c.unwatch != nil {
		c.unwatch()
	}
	c.unwatch = c.s.b.Logins.WatchLogin(c.ctx, func(why error) {
		c.log.Info("a connection is closed because its login has ended", "error", why)
		c.force(forced(why).text)
	})
}
