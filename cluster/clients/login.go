package clients

import (
	"net/netip"
	"strings"
	"sync"
)

const (
	// MaxLoginSources bounds the sources whose attempts to log in are counted apart.
	MaxLoginSources = 1000
	// maxLoginName bounds the shown part of the name that a client has sent, in bytes: no user has a longer one.
	maxLoginName = 255
)

// LoginAttempts counts attempts to log in over a protocol. Address and User are empty for the sum over all sources.
type LoginAttempts struct {
	Protocol, Address, User string
	Accepted, Refused       uint64
}

// count adds an attempt.
func (a *LoginAttempts) count(accepted bool) {
	if accepted {
		a.Accepted++
	} else {
		a.Refused++
	}
}

// Logins count the attempts of this node's clients to log in, since the start or the last Reset. mu guards the rest. The zero
// value is ready to use.
type Logins struct {
	mu        sync.Mutex
	tries     uint64
	protocols map[string]*LoginAttempts
	sources   map[loginSource]*sourceAttempts
}

// loginSource is where an attempt came from, and the user that it was for.
type loginSource struct{ protocol, address, user string }

// sourceAttempts are those of one source.
type sourceAttempts struct {
	LoginAttempts
	last uint64 // the number of the newest
}

// Count counts an attempt. address is that of the client's end of the connection; user is as the client has named it, "" if it
// named none.
func (l *Logins) Count(protocol, address, user string, accepted bool) {
	if at, err := netip.ParseAddrPort(address); err == nil {
		address = at.Addr().Unmap().String()
	}
	user = strings.ToValidUTF8(user[:min(len(user), maxLoginName)], "\uFFFD")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
	if l.protocols == nil {
		l.protocols, l.sources = map[string]*LoginAttempts{}, map[loginSource]*sourceAttempts{}
	}
	sum := l.protocols[protocol]
	if sum == nil {
		sum = &LoginAttempts{Protocol: protocol}
		l.protocols[protocol] = sum
	}
	sum.count(accepted)
	of := loginSource{protocol, address, user}
	source := l.sources[of]
	if source == nil {
		l.makeRoom()
		source = &sourceAttempts{LoginAttempts: LoginAttempts{Protocol: protocol, Address: address, User: user}}
		l.sources[of] = source
	}
	source.count(accepted)
	source.last = l.tries
}

// makeRoom forgets the source that was seen longest ago if there are too many. mu is held.
func (l *Logins) makeRoom() {
	if len(l.sources) < MaxLoginSources {
		return
	}
	var oldest loginSource
	least := l.tries
	for of, s := range l.sources {
		if s.last < least {
			oldest, least = of, s.last
		}
	}
	delete(l.sources, oldest)
}

// Counts returns the counts by protocol and by source, in no order.
func (l *Logins) Counts() (protocols, sources []LoginAttempts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.protocols {
		protocols = append(protocols, *a)
	}
	for _, s := range l.sources {
		sources = append(sources, s.LoginAttempts)
	}
	return protocols, sources
}

// Reset forgets all counts.
func (l *Logins) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.protocols)
	clear(l.sources)
}
