package online

import (
	"slices"

	"github.com/quorate/quorate/client"
)

// Arguments that say where dead letters and unroutable messages go.
const (
	argDeadLetterExchange = "x-dead-letter-exchange"
	argDeadLetterKey      = "x-dead-letter-routing-key"
	argAlternateExchange  = "alternate-exchange"
)

// name is a queue or an exchange.
type name struct {
	vhost, name string
	exchange    bool
}

// topology says to which queues each queue may dead-letter. It knows no routing keys, and so may name too many.
type topology struct {
	queues map[name]int // place in the list
	byHost map[string][]int
	routes map[name][]name // of exchanges
}

// newTopology reads what a cluster has.
func newTopology(queues []client.QueueInfo, exchanges []client.ExchangeInfo, bindings []client.Binding) *topology {
	t := &topology{queues: map[name]int{}, byHost: map[string][]int{}, routes: map[name][]name{}}
	for i, q := range queues {
		t.queues[name{q.VHost, q.Name, false}] = i
		t.byHost[q.VHost] = append(t.byHost[q.VHost], i)
	}
	for _, x := range exchanges {
		if other, ok := x.Arguments[argAlternateExchange].(string); ok {
			from := name{x.VHost, x.Name, true}
			t.routes[from] = append(t.routes[from], name{x.VHost, other, true})
		}
	}
	for _, b := range bindings {
		from := name{b.VHost, b.Source, true}
		t.routes[from] = append(t.routes[from], name{b.VHost, b.Destination, b.ToExchange})
	}
	return t
}

// targets returns the queues that a queue may dead-letter to, besides itself.
func (t *topology) targets(q *client.QueueInfo) []int {
	x, ok := q.EffectiveArguments[argDeadLetterExchange].(string)
	if !ok {
		return nil
	}
	if x == "" {
		key, ok := q.EffectiveArguments[argDeadLetterKey].(string)
		if !ok {
			return t.byHost[q.VHost] // the messages' own keys decide
		}
		if i, ok := t.queues[name{q.VHost, key, false}]; ok {
			return []int{i}
		}
		return nil
	}
	var out []int
	seen := map[name]bool{}
	for todo := []name{{q.VHost, x, true}}; len(todo) > 0; {
		from := todo[0]
		todo = todo[1:]
		if seen[from] {
			continue
		}
		seen[from] = true
		if i, ok := t.queues[from]; ok {
			out = append(out, i)
		}
		if from.exchange {
			todo = append(todo, t.routes[from]...)
		}
	}
	return out
}

// groups returns the queues' places in an order in which each stands before those that it dead-letters to: what leaves
// a queue after its copy was made is then in the copy of another queue made later, or in its own. Queues that dead-letter to
// each other in a circle are one group.
func (t *topology) groups(queues []client.QueueInfo) [][]int {
	s := components{t: t, queues: queues, number: make([]int, len(queues)), low: make([]int, len(queues)), on: make([]bool, len(queues))}
	for i := range queues {
		if s.number[i] == 0 {
			s.visit(i)
		}
	}
	slices.Reverse(s.found)
	return s.found
}

// components finds strongly connected components by Tarjan's algorithm (SIAM Journal on Computing 1, 1972), which
// yields each behind those to which it leads.
type components struct {
	t      *topology
	queues []client.QueueInfo
	number []int // in the order of visits, from 1; 0: not visited
	low    []int
	on     []bool // on the stack
	stack  []int
	last   int
	found  [][]int
}

func (s *components) visit(i int) {
	s.last++
	s.number[i], s.low[i] = s.last, s.last
	s.stack, s.on[i] = append(s.stack, i), true
	for _, j := range s.t.targets(&s.queues[i]) {
		switch {
		case s.number[j] == 0:
			s.visit(j)
			s.low[i] = min(s.low[i], s.low[j])
		case s.on[j]:
			s.low[i] = min(s.low[i], s.number[j])
		}
	}
	if s.low[i] != s.number[i] {
		return
	}
	at := slices.Index(s.stack, i)
	group := slices.Clone(s.stack[at:])
	s.stack = s.stack[:at]
	for _, j := range group {
		s.on[j] = false
	}
	slices.Sort(group)
	s.found = append(s.found, group)
}
