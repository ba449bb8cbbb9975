package identity

import (
	"crypto/sha256"
	"errors"
	"sync"
)

// MaxSameLogins limits the logins that wait while the same credentials are being checked for
// another one. Further logins are refused and may try again.
const MaxSameLogins = 512

// pending holds the checks of credentials that are under way. If several logins have the same
// credentials, one is checked and the others wait for its result. That is common: a client whose
// node has failed opens all its connections and streams on another node at once. One hash is then
// enough for all of them. They count as one try of their address; this does not help guessers, who
// try different passwords.
type pending struct {
	mu sync.Mutex // guards everything below, except check.over
	of map[[sha256.Size]byte]*check
}

// check is one check of credentials.
type check struct {
	over    chan struct{} // closed once err is set; err does not change after that
	err     error         // nil: they are right
	waiting int           // how many logins wait for it
}

// errNotChecked is the result of a check that ended before the credentials were checked.
var errNotChecked = errors.New("the credentials were not checked")

// begin returns the check of some credentials. If no check is under way, it begins one, and mine is true: the caller
// must end it. Otherwise the caller may wait for its end. begin fails if too many wait already.
func (p *pending) begin(d [sha256.Size]byte) (c *check, mine bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c = p.of[d]; c == nil {
		if p.of == nil {
			p.of = map[[sha256.Size]byte]*check{}
		}
		c = &check{over: make(chan struct{})}
		p.of[d] = c
		return c, true, nil
	}
	if c.waiting >= MaxSameLogins {
		return nil, false, tooManyLogins()
	}
	c.waiting++
	return c, false, nil
}

// leave records that a login no longer waits for a check.
func (p *pending) leave(c *check) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.waiting--
}

// end ends a check and gives its result to the logins that wait.
func (p *pending) end(d [sha256.Size]byte, c *check, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, d)
	c.err = err
	close(c.over)
}
