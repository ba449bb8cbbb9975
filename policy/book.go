package policy

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/pattern"
	"github.com/quorate/quorate/message"
)

// Book finds the policies of queues and exchanges. It keeps the compiled patterns of each
// vhost, and what it found, as long as its policies stay the same. It may be used concurrently; the zero value
// is ready.
type Book struct {
	// Warn is told, if it is set, of a pattern that takes too long (C-8). It may be called
	// concurrently, once for each name and view of the vhost's policies.
	Warn func(vhost string, err error)

	mu     sync.Mutex
	vhosts map[string]*shelf
	kept   int // vhosts after the last look at which are gone
}

// shelf holds the policies of one vhost, those that count first in front (PO-3).
type shelf struct {
	set            catalog.PolicySet
	merge          bool // VHost.MergePolicies
	user, operator []*entry

	mu    sync.RWMutex
	found map[queueName]found // what was found; bounded by maxFound
}

type queueName struct {
	name string
	kind catalog.QueueType
}

type found struct{ user, operator *catalog.Policy }

// maxFound bounds the queues of a vhost whose policies are remembered.
const maxFound = 100_000

// recall returns what look finds for a queue, remembering it.
func (s *shelf) recall(q queueName, look func() found) found {
	s.mu.RLock()
	f, known := s.found[q]
	s.mu.RUnlock()
	if known {
		return f
	}
	f = look()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil || len(s.found) >= maxFound {
		s.found = map[queueName]found{}
	}
	s.found[q] = f
	return f
}

type entry struct {
	*catalog.Policy
	pattern           *pattern.Pattern
	queues, exchanges bool // what can honour all keys (PO-4)
}

// shelf returns the one of a vhost as it is in the view.
func (b *Book) shelf(v *catalog.View, vhost string) *shelf {
	set, merge := v.PolicySet(vhost), merges(v, vhost)
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.vhosts[vhost]; s != nil && s.set == set && s.merge == merge {
		return s
	}
	s := &shelf{set: set, merge: merge, user: entries(v, vhost, false), operator: entries(v, vhost, true)}
	if b.vhosts == nil {
		b.vhosts = map[string]*shelf{}
	}
	b.vhosts[vhost] = s
	b.forget(v)
	return s
}

// minForget is how many vhosts are kept before it is looked which of them are gone.
const minForget = 16

// forget drops what is kept of vhosts that are gone, once it is twice what was kept after
// the last time. mu is held.
func (b *Book) forget(v *catalog.View) {
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

func entries(v *catalog.View, vhost string, operator bool) (all []*entry) {
	for p := range v.Policies(vhost, operator) {
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

// Queue returns the policy and the operator policy that are in force for a queue, nil for
// none (PO-3, PO-4). Where the vhost merges policies, the policy is made of all that match;
// its name has those of all.
func (b *Book) Queue(v *catalog.View, q *catalog.QueueRecord) (user, operator *catalog.Policy) {
	s := b.shelf(v, q.VHost)
	if len(s.user) == 0 && len(s.operator) == 0 {
		return nil, nil
	}
	applies := func(e *entry) bool {
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
	f := s.recall(queueName{q.Name, q.Type}, func() found {
		return found{
			b.find(s.user, q.VHost, q.Name, s.merge, applies), b.find(s.operator, q.VHost, q.Name, s.merge, applies),
		}
	})
	return f.user, f.operator
}

// AlternateExchange returns the alternate exchange of an exchange: its own argument, else
// what its policy gives (EX-12).
func (b *Book) AlternateExchange(v *catalog.View, x *catalog.Exchange) (name string, ok bool) {
	if name, ok := x.AlternateExchange(); ok || x.Name == "" {
		return name, ok
	}
	s := b.shelf(v, x.VHost)
	if len(s.user) == 0 {
		return "", false
	}
	p := b.find(s.user, x.VHost, x.Name, s.merge, func(e *entry) bool {
		return e.exchanges && (e.ApplyTo == catalog.ApplyToAll || e.ApplyTo == catalog.ApplyToExchanges)
	})
	if p == nil {
		return "", false
	}
	value, _ := p.Definition.Get(keyAlternateExchange)
	return value.AsString()
}

func merges(v *catalog.View, vhost string) bool {
	h, ok := v.VHost(vhost)
	return ok && h.MergePolicies
}

// find returns the first of the entries that matches, or all that match as one.
func (b *Book) find(from []*entry, vhost, name string, merge bool, applies func(*entry) bool) *catalog.Policy {
	var found []*catalog.Policy
	for _, e := range from {
		if !applies(e) {
			continue
		}
		matched, err := e.pattern.Match(name)
		if err != nil && b.Warn != nil {
			b.Warn(vhost, err)
		}
		if !matched {
			continue
		}
		if !merge {
			return e.Policy
		}
		found = append(found, e.Policy)
	}
	switch len(found) {
	case 0:
		return nil
	case 1:
		return found[0]
	}
	return together(found)
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
