package client

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// grace lets a stream keep trying although nodes refuse its login, if the client was logged in
// before: a node that has just started may not know the user yet. Nodes of this build report that;
// older ones report a wrong password.
type grace struct {
	c     *Client
	since time.Time // time of the first refusal; zero: none since the login last worked
}

// forgives reports whether another attempt may help after a refused login.
func (g *grace) forgives(err error) bool {
	if status.Code(err) != codes.Unauthenticated || !g.c.loggedIn.Load() {
		return false
	}
	now := time.Now()
	if g.since.IsZero() {
		g.since = now
		g.c.cfg.Logger.Warn("a node refuses the login that was good before", "error", fromGRPC(err), "final_after", g.c.cfg.LoginGrace)
	}
	return now.Sub(g.since) < g.c.cfg.LoginGrace
}

// worked resets the refusals.
func (g *grace) worked() { g.since = time.Time{} }
