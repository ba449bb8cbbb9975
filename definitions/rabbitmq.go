package definitions

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// adapt replaces what only RabbitMQ has with the nearest equivalent and warns of each difference
// (VH-13). It replaces commands and never changes them, because a document may be planned again.
func (p *planner) adapt(s *Step) error {
	switch c := s.Command.(type) {
	case *catalog.PutVHost:
		s.adaptVHost(*c)
	case *catalog.PutPolicy:
		s.adaptPolicy(*c)
	case *catalog.PutParameter:
		s.adaptParameter(c)
	case *catalog.DeclareExchange:
		return s.adaptExchange(c)
	case *catalog.DeclareQueue:
		h, ok := p.trial.View().VHost(c.VHost)
		s.adaptQueue(*c, ok && h.DefaultQueueType == catalog.QueueClassic)
	}
	return nil
}

func (s *Step) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// typeStream is a queue type that only RabbitMQ has.
const typeStream = "stream"

// adaptVHost takes a copy, as adapt must not change the document.
func (s *Step) adaptVHost(c catalog.PutVHost) {
	if c.DefaultQueueType == typeStream {
		s.warn(`default_queue_type = "stream" becomes %q: there are no streams`, catalog.QueueQuorum)
		c.DefaultQueueType = catalog.QueueQuorum
	}
	if c.Tracing {
		s.warn("tracing is kept without effect: there is no firehose")
	}
	s.Command = &c
}

// foreignKey returns why a RabbitMQ policy key has no counterpart; "" for all other keys.
func foreignKey(name string) string {
	switch name {
	case "ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size", "ha-promote-on-shutdown", "ha-promote-on-failure":
		return "every queue is replicated, on three nodes unless target-group-size says otherwise"
	case "queue-mode", "queue-version":
		return keptOnDisk
	case "queue-master-locator":
		return "leaders are spread; queue-leader-locator says otherwise"
	case "shards-per-node", "routing-key":
		return "there are no sharded queues; bind queues to an exchange of type x-consistent-hash"
	case "max-age", "initial-cluster-size":
		return noStreams
	}
	switch {
	case strings.HasPrefix(name, "stream-"):
		return noStreams
	case strings.HasPrefix(name, "federation-"):
		return noFederation
	case strings.HasPrefix(name, "shovel"):
		return noShovels
	}
	return ""
}

const (
	keptOnDisk   = "every queue keeps its messages on disk"
	noStreams    = "there are no streams"
	noFederation = "there is no federation; let a program consume at one end and publish at the other"
	noShovels    = "there are no shovels; let a program consume at one end and publish at the other"
)

// adaptPolicy leaves out the keys without a counterpart. A policy that loses all of them is
// skipped: if it stood there empty, it would hide the next one that matches (PO-3).
func (s *Step) adaptPolicy(c catalog.PutPolicy) {
	kept := make(message.Table, 0, len(c.Definition))
	for _, f := range c.Definition {
		if why := foreignKey(f.Name); why != "" {
			s.warn("%s = %s is left out: %s", f.Name, f.Value, why)
			continue
		}
		kept = append(kept, f)
	}
	switch {
	case c.ApplyTo == typeStream+"s":
		s.warn("apply-to = %q: %s", c.ApplyTo, noStreams)
		s.skip = "is left out: it applies to nothing here"
	case len(kept) == 0 && len(c.Definition) > 0:
		s.skip = "is left out: none of its keys has a counterpart; what it matches gets the next policy that does"
	}
	c.Definition = kept
	s.Command = &c
}

// adaptParameter warns that the parameter has no effect; it is kept for a later export.
func (s *Step) adaptParameter(c *catalog.PutParameter) {
	if c.VHost == "" {
		return // global parameters are notes about their cluster
	}
	switch {
	case strings.HasPrefix(c.Component, "federation-"):
		s.warn("is kept without effect: %s", noFederation)
	case strings.HasPrefix(c.Component, "shovel"):
		s.warn("is kept without effect: %s", noShovels)
	default:
		s.warn("is kept without effect: nothing here reads parameters of the component %q", c.Component)
	}
}

// adaptExchange resolves x-delayed-message to the type behind it (DLY-2).
func (s *Step) adaptExchange(c *catalog.DeclareExchange) error {
	resolved, err := c.Resolved()
	if err != nil {
		return err
	}
	if resolved.Type != c.Type {
		s.warn("becomes a %s exchange that heeds x-delay: messages are routed and stored when they are published, and wait in their queues", resolved.Type)
	}
	s.Command = &resolved
	return nil
}

// adaptQueue settles the type, which a document may leave open, before it removes the
// arguments that imply it.
func (s *Step) adaptQueue(c catalog.DeclareQueue, classicByDefault bool) {
	if c.Type == "" {
		c.Type = s.typeOf(&c, classicByDefault)
	}
	kept := make(message.Table, 0, len(c.Arguments))
	for _, f := range c.Arguments {
		if why := argument.LeftOut(f.Name); why != "" {
			s.warn("%s = %s is left out: %s", f.Name, f.Value, why)
			continue
		}
		if strings.HasPrefix(f.Name, "x-") && argument.Find(f.Name) == nil {
			s.warn("%s is kept without effect: no queue here knows it", f.Name)
		}
		kept = append(kept, f)
	}
	if v, ok := kept.Get(argument.MaxPriority); ok && c.Type == catalog.QueueClassic {
		if n, _ := v.AsInt(); n > catalog.MostExactPriorities {
			s.warn("x-max-priority = %d: a queue has 32 levels, which higher priorities share with their neighbours", n)
		}
	}
	c.Arguments = kept
	s.Command = &c
}

// typeOf finds the type of a queue that names none and warns, since the choice decides about
// replication.
func (s *Step) typeOf(c *catalog.DeclareQueue, classicByDefault bool) catalog.QueueType {
	switch {
	case !c.Durable || c.AutoDelete || classicByDefault:
		return catalog.QueueClassic
	case argument.AsksForClassic(c.Arguments):
		s.warn("becomes a classic queue, though it names no type: its arguments are those of one")
		return catalog.QueueClassic
	}
	s.warn("becomes a quorum queue, the default of its vhost: it names no type")
	return catalog.QueueQuorum
}

// exportedType is the type that importers expect for the exchange (DLY-2).
func exportedType(x *catalog.Exchange) string {
	if x.Delays() {
		return catalog.ExchangeDelayed
	}
	return string(x.Type)
}
