package definitions

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// Action is what an import does with an object.
type Action uint8

// The actions.
const (
	// Create: the object does not exist and is made.
	Create Action = iota
	// Keep: the object exists as the document has it.
	Keep
	// Differ: an object of this name exists with other properties and is left as it is.
	Differ
	// Refuse: the object cannot be made.
	Refuse
	// Skip: an import does not make such objects.
	Skip
)

// Step is the plan for one object.
type Step struct {
	Object
	Action Action
	Reason string // with Differ, Refuse and Skip
	// Warnings list what differs from the document (VH-13), a sentence each.
	Warnings []string
}

// Plan returns a step for each object of a document, in the order in which they are to be carried
// out. vet checks what the catalog does not; nil: nothing.
//
// It tries every object on a copy of the catalog, after those before it. So the plan holds as long
// as nobody else changes the catalog in between.
func Plan(d *Document, v *catalog.View, vet func(*Object) error) []Step {
	p := planner{before: v, trial: catalog.From(v), vet: vet}
	p.hold(v)
	// What the finalised version does not allow yet is no fault: the importer retries until the
	// version allows it.
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

// hold chooses the node that holds the queues of the trial. In a cluster that was just founded no
// node may be registered yet; a made-up node stands in, since the importer waits for a real one.
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
	p.dropDeclarer(s)
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

// adopt applies the document's settings to "/" if that vhost is still as the cluster began, since
// no user has made it.
func (p *planner) adopt(o *Object) {
	c, is := o.Command.(*catalog.PutVHost)
	if !is {
		return
	}
	if h, ok := p.trial.View().VHost(c.Name); ok && h.Pristine() && !c.Equal(h) {
		o.Command = &catalog.PutVHost{VHost: c.VHost}
	}
}

// dropDeclarer leaves out who declared a queue while the cluster is being upgraded to the version that knows
// declarers, which may take days: queues get none until then (VH-17). A new cluster begins with that version at
// once; the importer waits for it.
func (p *planner) dropDeclarer(s *Step) {
	c, is := s.Command.(*catalog.DeclareQueue)
	version := p.before.Version()
	if !is || c.DeclaredBy == "" || version == catalog.VersionFirst || version >= catalog.VersionDeclarers {
		return
	}
	if !p.exists(&s.Object) {
		s.warn("declared_by = %q is left out: it needs version %d, and version %d is finalised; finish the upgrade first to keep it",
			c.DeclaredBy, catalog.VersionDeclarers, version)
	}
	nobodys := *c
	nobodys.DeclaredBy = ""
	s.Command = &nobodys
}

func adopts(o *Object) bool {
	c, is := o.Command.(*catalog.PutVHost)
	return is && !c.OnlyNew
}

// exists reports whether an object of this name exists.
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

// limitsDiffer compares the limits, which the catalog does not compare.
func (p *planner) limitsDiffer(o *Object) string {
	switch c := o.Command.(type) {
	case *catalog.PutUser:
		if u, ok := p.trial.View().User(c.Name); ok && u.UserLimits != c.UserLimits {
			return limitsText(u.NamedLimits(), c.NamedLimits())
		}
	case *catalog.SetVHostLimits:
		// Limits that were not set before the import do not count as different.
		if h, ok := p.before.VHost(c.VHost); ok && h.VHostLimits != c.Limits && h.VHostLimits != catalog.NoVHostLimits() {
			return limitsText(h.NamedLimits(), c.Limits.NamedLimits())
		}
	}
	return ""
}

// limitsText names the limits that differ.
func limitsText(have, given []catalog.NamedLimit) string {
	var is, says []string
	for i, l := range have {
		if l != given[i] {
			is = append(is, fmt.Sprintf("%s = %d", l.Name, l.Value))
			says = append(says, strconv.FormatInt(given[i].Value, 10))
		}
	}
	return fmt.Sprintf("has %s, the document has %s; change limits with their own command", strings.Join(is, " and "), strings.Join(says, " and "))
}

// hasBinding reports whether a binding exists whose arguments look the same in JSON. JSON has fewer
// types than AMQP; without this check an exported binding would be made a second time.
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
