package login

import (
	"context"
	"net"
	"sync"
)

// maxLogins bounds the users that are remembered for a connection, since one HTTP connection may
// log in any number of users.
const maxLogins = 16

// logins are the users that have logged in over a connection.
type logins struct {
	mu    sync.Mutex
	users map[string]bool
}

// loginsKey is the key of the logins in a connection's context; its own type keeps it unique.
type loginsKey struct{}

// ConnContext remembers the logins of a connection, so that the log has each user once. It is for
// http.Server.ConnContext.
func ConnContext(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, loginsKey{}, &logins{users: map[string]bool{}})
}

// firstOf reports whether this is the user's first login over the context's connection.
func firstOf(ctx context.Context, user string) bool {
	l, known := ctx.Value(loginsKey{}).(*logins)
	if !known {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users[user] {
		return false
	}
	if len(l.users) >= maxLogins {
		clear(l.users)
	}
	l.users[user] = true
	return true
}
