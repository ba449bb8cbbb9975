package policy

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/pattern"
	"github.com/quorate/quorate/message"
)

// Matcher finds the policies of queues and exchanges. It caches the compiled patterns of each
// vhost, and its results, until the policies of the vhost change. It may be used concurrently; the
// zero value is ready to use.
type Matcher struct {
	// Warn is called, if set, when a pattern takes too long (C-8), once for each attempt to match a
	// name. It may be called concurrently.
	Warn func(vhost string, err error)
	// Now is the clock that decides when an aborted match of a name is tried again (C-8); nil:
	// time.Now.
	Now func() time.Time

	timeouts atomic.Uint64

	mu     sync.Mutex
	vhosts map[string]*vhostPolicies
	kept   int // vhosts after the last check for deleted ones
}

// vhostPolicies holds the policies of one vhost, those that count first in front (PO-3).
type vhostPolicies struct {
	set            catalog.PolicySet
	merge          bool // VHost.MergePolicies
	user, operator []*entry

	mu    sync.RWMutex
	found map[matched]found // what was found; bounded by maxFound
}

// matched is a queue, or an exchange, whose type is "".
type matched struct {
	name string
	kind catalog.QueueType
}

// found is what matches a queue, until policies change.
type found struct {
	user, operator *catalog.Policy
	// unsure: a match was broken off. It is tried again at a time, later with each try.
	unsure bool
	again  time.Time
	tries  int
}

// maxFound bounds the queues and exchanges of a vhost whose policies are remembered.
const maxFound = 100_000

// A name whose match was broken off is tried again after firstRetry, then after twice that and
// so on, at most mostRetry, so that it costs little and is not lost for good (C-8).
const (
	firstRetry = time.Second
	mostRetry  = time.Minute
)

// recall returns what look finds for a name, remembering it.
func (s *vhostPolicies) recall(m matched, now func() time.Time, look func() found) found {
	s.mu.RLock()
	before, known := s.found[m]
	s.mu.RUnlock()
	if known && (!before.unsure || now().Before(before.again)) {
		return before
	}
	f := look()
	if f.unsure {
		f.tries = before.tries + 1
		f.again = now().Add(min(firstRetry<<min(before.tries, 10), mostRetry))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil || len(s.found) >= maxFound {
		s.found = map[matched]found{}
	}
	s.found[m] = f
	return f
}

// entry is a policy with what is worked out of it once.
type entry struct {
	*catalog.Policy
	pattern           *pattern.Pattern
	queues, exchanges bool // what can honour all keys (PO-4)
	timeouts          atomic.Uint64
}

// takes reports whether the policy is for queues like q, whatever their names.
func (e *entry) takes(q *catalog.QueueRecord) bool {
	switch e.ApplyTo {
	case catalog.ApplyToAll, catalog.ApplyToQueues:
		return e.queues
	case catalog.ApplyToQuorumQueues:
		return e.queues && q.Type == catalog.QueueQuorum
	case catalog.ApplyToClassicQueues:
		return e.queues && q.Type == catalog.QueueClassic
	case catalog.ApplyToExchanges:
	}
	return false
}

// takesExchanges reports whether the policy is for exchanges, whatever their names.
func (e *entry) takesExchanges() bool {
	return e.exchanges && (e.ApplyTo == catalog.ApplyToAll || e.ApplyTo == catalog.ApplyToExchanges)
}

// vhostPolicies returns the one of a vhost as it is in the view.
func (b *Matcher) vhostPolicies(v *catalog.View, vhost string) *vhostPolicies {
	set, merge := v.PolicySet(vhost), merges(v, vhost)
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.vhosts[vhost]; s != nil && s.set == set && s.merge == merge {
		return s
	}
	before := b.vhosts[vhost]
	if before == nil {
		before = &vhostPolicies{}
	}
	s := &vhostPolicies{set: set, merge: merge, user: entries(v, vhost, false, before.user), operator: entries(v, vhost, true, before.operator)}
	if b.vhosts == nil {
		b.vhosts = map[string]*vhostPolicies{}
	}
	b.vhosts[vhost] = s
	b.forget(v)
	return s
}

// minForget is how many vhosts are kept before a check for deleted ones.
const minForget = 16

// forget drops what is kept of vhosts that are gone, once it is twice what was kept after
// the last time. mu is held.
func (b *Matcher) forget(v *catalog.View) {
	if len(b.vhosts) < max(minForget, 2*b.kept) {
		return
	}
	for name := range b.vhosts {
		if _, exists := v.VHost(name); !exists {
			delete(b.vhosts, name)
		}
	}
	b.kept = len(b.vhosts)
}

// entries returns those of the view; a policy that was there before keeps its own.
func entries(v *catalog.View, vhost string, operator bool, before []*entry) (all []*entry) {
	known := make(map[*catalog.Policy]*entry, len(before))
	for _, e := range before {
		known[e.Policy] = e
	}
	for p := range v.Policies(vhost, operator) {
		if e := known[p]; e != nil {
			all = append(all, e)
			continue
		}
		re, err := pattern.Compile(p.Pattern)
		if err != nil {
			continue // another build accepted it; it matches nothing here
		}
		_, alternate := p.Definition.Get(keyAlternateExchange)
		all = append(all, &entry{
			Policy: p, pattern: re, queues: !alternate, exchanges: alternate && len(p.Definition) == 1,
		})
	}
	slices.SortStableFunc(all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Queue returns the policy and the operator policy in force for a queue, nil for none (PO-3, PO-4).
// If the vhost merges policies, the returned policy combines all that match, and its name lists
// their names.
func (b *Matcher) Queue(v *catalog.View, q *catalog.QueueRecord) (user, operator *catalog.Policy) {
	s := b.vhostPolicies(v, q.VHost)
	if len(s.user) == 0 && len(s.operator) == 0 {
		return nil, nil
	}
	applies := func(e *entry) bool { return e.takes(q) }
	f := s.recall(matched{q.Name, q.Type}, b.now, func() (f found) {
		var unsure bool
		f.user, f.unsure = b.find(s.user, q.VHost, q.Name, s.merge, applies)
		f.operator, unsure = b.find(s.operator, q.VHost, q.Name, s.merge, applies)
		f.unsure = f.unsure || unsure
		return f
	})
	return f.user, f.operator
}

// AlternateExchange returns the alternate exchange of an exchange, from its argument or else its
// policy (EX-12).
func (b *Matcher) AlternateExchange(v *catalog.View, x *catalog.Exchange) (name string, ok bool) {
	if name, ok := x.AlternateExchange(); ok || x.Name == "" {
		return name, ok
	}
	s := b.vhostPolicies(v, x.VHost)
	if len(s.user) == 0 {
		return "", false
	}
	applies := (*entry).takesExchanges
	if !slices.ContainsFunc(s.user, applies) {
		return "", false
	}
	f := s.recall(matched{name: x.Name}, b.now, func() (f found) {
		f.user, f.unsure = b.find(s.user, x.VHost, x.Name, s.merge, applies)
		return f
	})
	if f.user == nil {
		return "", false
	}
	value, _ := f.user.Definition.Get(keyAlternateExchange)
	return value.AsString()
}

// now is the clock of tests, if there is one.
func (b *Matcher) now() time.Time {
	if b.Now != nil {
		return b.Now()
	}
	return time.Now()
}

// Timeouts returns how many matches of a policy's pattern were aborted since the policy was set, or
// since this node started (C-8).
func (b *Matcher) Timeouts(v *catalog.View, p *catalog.Policy) uint64 {
	s := b.vhostPolicies(v, p.VHost)
	for _, e := range slices.Concat(s.user, s.operator) {
		if e.Policy == p {
			return e.timeouts.Load()
		}
	}
	return 0
}

// AllTimeouts returns how many matches of all patterns were aborted because they took too long.
func (b *Matcher) AllTimeouts() uint64 { return b.timeouts.Load() }

func merges(v *catalog.View, vhost string) bool {
	h, ok := v.VHost(vhost)
	return ok && h.MergePolicies
}

// find returns the first of the entries that matches, or all that match as one; unsure: the
// match of one that would have counted was broken off.
func (b *Matcher) find(from []*entry, vhost, name string, merge bool, applies func(*entry) bool) (p *catalog.Policy, unsure bool) {
	var found []*catalog.Policy
	for _, e := range from {
		if !applies(e) {
			continue
		}
		matched, err := e.pattern.Match(name)
		if err != nil {
			unsure = true
			e.timeouts.Add(1)
			b.timeouts.Add(1)
			if b.Warn != nil {
				b.Warn(vhost, err)
			}
		}
		if !matched {
			continue
		}
		if !merge {
			return e.Policy, unsure
		}
		found = append(found, e.Policy)
	}
	switch len(found) {
	case 0:
		return nil, unsure
	case 1:
		return found[0], unsure
	}
	return together(found), unsure
}

// together makes one policy of many: each key from the first that has it.
func together(found []*catalog.Policy) *catalog.Policy {
	p := *found[0]
	p.Definition = p.Definition.Clone()
	names := []string{p.Name}
	for _, q := range found[1:] {
		names = append(names, q.Name)
		for _, f := range q.Definition {
			if _, has := p.Definition.Get(f.Name); !has {
				p.Definition = append(p.Definition, message.Field{Name: f.Name, Value: f.Value})
			}
		}
	}
	p.Name = strings.Join(names, " + ")
	return &p
}
