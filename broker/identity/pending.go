package identity

import (
	"crypto/sha256"
	"errors"
	"sync"
)

// MaxSameLogins bounds the logins that wait while the same credentials are checked for another one;
// more are refused, to come again.
const MaxSameLogins = 512

// pending are the logins whose credentials are being checked. Of those with the same credentials one
// is checked, and the others wait for its answer: a client whose node is gone opens all its
// connections and streams on another one at the same moment. One hash is enough for all of them, and
// since whoever guesses tries different passwords, they count as one try of their address.
type pending struct {
	mu sync.Mutex // guards what follows, but for over
	of map[[sha256.Size]byte]*check
}

// check is the check of one login's credentials.
type check struct {
	over    chan struct{} // closed once err is set, which is constant from then on
	err     error         // nil: they are right
	waiting int           // logins
}

// errNotChecked is the outcome of a check that found nothing out.
var errNotChecked = errors.New("the credentials were not checked")

// begin begins the check of credentials, which the caller must end, or returns the one that is under
// way and for whose end the caller may wait; mine reports the former. It fails if too many wait.
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

// leave records that a login does not wait for the end of a check any more.
func (p *pending) leave(c *check) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.waiting--
}

// end notifies those that wait how the check ended.
func (p *pending) end(d [sha256.Size]byte, c *check, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, d)
	c.err = err
	close(c.over)
}
