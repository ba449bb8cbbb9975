package definitions

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// Action says what an import does with an object.
type Action uint8

// The actions.
const (
	// Create: it is not there, and is made.
	Create Action = iota
	// Keep: it is there already, just so.
	Keep
	// Differ: one of its name is there and is left as it is.
	Differ
	// Refuse: it cannot be made.
	Refuse
	// Skip: it is nothing that an import makes.
	Skip
)

// Step is what becomes of one object.
type Step struct {
	Object
	Action Action
	Reason string // with Differ, Refuse and Skip
	// Warnings say what is otherwise than the document has it (VH-13), a sentence each.
	Warnings []string
}

// Plan returns a step for each object of a document, in the order in which they are to be
// carried out. vet says what the catalog does not check; nil: nothing.
//
// Every object is tried on a copy of the catalog, after those before it. So the plan says
// what will happen as long as nobody else changes anything in between.
func Plan(d *Document, v *catalog.View, vet func(*Object) error) []Step {
	p := planner{before: v, trial: catalog.From(v), vet: vet}
	p.hold(v)
	// What the finalised version does not allow yet is only late: who carries it out tries again.
	p.trial.Apply(v.Index(), v.Now(), &catalog.RaiseVersion{Version: catalog.NewestVersion})
	steps := make([]Step, len(d.Objects))
	for i := range d.Objects {
		s := &steps[i]
		s.Object = d.Objects[i]
		s.Action, s.Reason = p.plan(s)
	}
	return steps
}

// planner tries every object on a copy of the catalog. Only adapt and vet know more than the
// catalog does.
type planner struct {
	before *catalog.View
	trial  *catalog.Catalog
	vet    func(*Object) error
	holder catalog.Node // stands for the members of queues: the importer places them
}

// hold chooses who holds the queues of the trial: a node that has not come yet, in a cluster that
// has just been founded, for then the queues are only late.
func (p *planner) hold(v *catalog.View) {
	for n := range v.Nodes() {
		p.holder = *n
		return
	}
	p.holder = catalog.Node{ID: "awaited", Epoch: 1}
	c := &catalog.RegisterNode{ID: p.holder.ID, Epoch: p.holder.Epoch}
	if v.Version() >= catalog.VersionStores {
		c.Store = "awaited"
	}
	p.trial.Apply(v.Index(), v.Now(), c)
}

// plan decides about one object and, if it is to be created, applies it to the trial, where later
// objects find it.
func (p *planner) plan(s *Step) (Action, string) {
	o := &s.Object
	if o.skip == "" {
		if err := p.adapt(s); err != nil {
			return Refuse, err.Error()
		}
	}
	if o.skip != "" {
		return Skip, o.skip
	}
	p.adopt(o)
	if p.vet != nil && !p.exists(o) {
		if err := p.vet(o); err != nil {
			return Refuse, err.Error()
		}
	}
	if differs := p.limitsDiffer(o); differs != "" {
		return Differ, differs
	}
	if l, is := o.Command.(*catalog.SetVHostLimits); is {
		if h, ok := p.trial.View().VHost(l.VHost); ok && h.VHostLimits == l.Limits {
			return Keep, ""
		}
	}
	if p.hasBinding(o) {
		return Keep, ""
	}
	existed := p.exists(o)
	command := o.Command
	if q, is := command.(*catalog.DeclareQueue); is {
		placed := *q
		placed.Members, placed.Leader = []id.NodeID{p.holder.ID}, p.holder.ID
		if !q.Durable {
			placed.Home = p.holder.Epoch
		}
		command = &placed
	}
	v := p.trial.View()
	switch r := p.trial.Apply(v.Index(), v.Now(), command); {
	case r.Err != nil && existed:
		return Differ, r.Err.Error()
	case r.Err != nil:
		return Refuse, r.Err.Error()
	case existed && !adopts(o):
		return Keep, ""
	}
	return Create, ""
}

// adopt lets the document's settings count for "/" if it is still as a cluster begins with,
// which nobody has made.
func (p *planner) adopt(o *Object) {
	c, is := o.Command.(*catalog.PutVHost)
	if !is {
		return
	}
	if h, ok := p.trial.View().VHost(c.Name); ok && h.Pristine() && !c.Equal(h) {
		o.Command = &catalog.PutVHost{VHost: c.VHost}
	}
}

func adopts(o *Object) bool {
	c, is := o.Command.(*catalog.PutVHost)
	return is && !c.OnlyNew
}

// exists reports whether something of the object's name is there.
func (p *planner) exists(o *Object) bool {
	v := p.trial.View()
	ok := false
	switch c := o.Command.(type) {
	case *catalog.PutVHost:
		_, ok = v.VHost(c.Name)
	case *catalog.PutUser:
		_, ok = v.User(c.Name)
	case *catalog.PutParameter:
		_, ok = v.Parameter(c.VHost, c.Component, c.Name)
	case *catalog.PutPolicy:
		_, ok = v.Policy(c.VHost, c.Name, c.Operator)
	case *catalog.DeclareExchange:
		_, ok = v.Exchange(c.VHost, c.Name)
	case *catalog.DeclareQueue:
		_, ok = v.Queue(c.VHost, c.Name)
	case *catalog.SetPermission:
		_, ok = v.Permission(c.User, c.VHost)
	case *catalog.SetTopicPermission:
		_, ok = v.TopicPermission(c.User, c.VHost, c.Exchange)
	}
	return ok
}

// limitsDiffer compares what the catalog leaves out of its comparisons.
func (p *planner) limitsDiffer(o *Object) string {
	switch c := o.Command.(type) {
	case *catalog.PutUser:
		if u, ok := p.trial.View().User(c.Name); ok && u.UserLimits != c.UserLimits {
			return limitsText(u.NamedLimits(), c.NamedLimits())
		}
	case *catalog.SetVHostLimits:
		// Limits that nobody has set before the import are no difference.
		if h, ok := p.before.VHost(c.VHost); ok && h.VHostLimits != c.Limits && h.VHostLimits != catalog.NoVHostLimits() {
			return limitsText(h.NamedLimits(), c.Limits.NamedLimits())
		}
	}
	return ""
}

// limitsText tells of the limits that differ.
func limitsText(have, given []catalog.NamedLimit) string {
	var is, says []string
	for i, l := range have {
		if l != given[i] {
			is = append(is, fmt.Sprintf("%s = %d", l.Name, l.Value))
			says = append(says, strconv.FormatInt(given[i].Value, 10))
		}
	}
	return fmt.Sprintf("has %s, the document says %s; set limits by themselves", strings.Join(is, " and "), strings.Join(says, " and "))
}

// hasBinding reports whether a binding is there whose arguments look the same in JSON, which
// has fewer types than AMQP: one that was exported is not made a second time.
func (p *planner) hasBinding(o *Object) bool {
	c, is := o.Command.(*catalog.Bind)
	if !is {
		return false
	}
	v := p.trial.View()
	for b := range v.BindingsBetween(c.VHost, c.Source, c.DestinationKind, c.Destination, c.Key) {
		if b.Arguments.EqualClass(c.Arguments) || bytes.Equal(b.Arguments.AppendJSON(nil), c.Arguments.AppendJSON(nil)) {
			return true
		}
	}
	return false
}
