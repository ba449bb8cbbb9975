package client

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// grace is the time for which a stream of a client that was logged in before goes on trying
// although nodes refuse its login: one that has just started may not know the user yet. Nodes of
// this build say so themselves, older ones call the password wrong.
type grace struct {
	c     *Client
	since time.Time // of the first refusal; zero: none since it worked
}

// forgives reports whether another try may help after an error that is a refused login.
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

// worked ends the refusals.
func (g *grace) worked() { g.since = time.Time{} }
