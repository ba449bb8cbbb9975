package definitions

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// Names in RabbitMQ's documents.
const (
	componentOperatorPolicy = "operator_policy"
	componentVHostLimits    = "vhost-limits"
	namesOfBroker           = "amq."
)

// Parse reads a document. With vhost it takes only what lies in that vhost; all objects of a
// FormatVHost document go there, and those that name no vhost. The error is *Faults; then no part of the document is usable.
func Parse(text []byte, vhost string) (*Document, error) {
	faults := &Faults{}
	if len(text) > MaxBytes {
		faults.add("$", fmt.Sprintf("has %d bytes, the limit is %d", len(text), MaxBytes))
		return nil, faults
	}
	top, ok := decodeObject(text, faults)
	if !ok {
		return nil, faults
	}
	p := parser{vhost: vhost, doc: &Document{Format: top.text("rabbitmq_definition_format", FormatCluster)}}
	p.read(&top)
	if faults.Total > 0 {
		return nil, faults
	}
	slices.SortStableFunc(p.doc.Objects, func(a, b Object) int { return cmp.Compare(a.Kind, b.Kind) })
	return p.doc, nil
}

// ParseTable reads a JSON object as a table, as Parse reads the arguments of a queue: whole numbers
// become 64-bit integers. An empty text is an empty table. The error is *Faults.
func ParseTable(text []byte) (message.Table, error) {
	if len(text) == 0 {
		return nil, nil
	}
	faults := &Faults{}
	top, ok := decodeObject(text, faults)
	if !ok {
		return nil, faults
	}
	table := top.fields()
	if faults.Total > 0 {
		return nil, faults
	}
	return table, nil
}

// decodeObject decodes a text that is one object; otherwise it adds a fault.
func decodeObject(text []byte, faults *Faults) (entry, bool) {
	top := entry{faults: faults, path: "$"}
	v, ok := decode(text, faults)
	if !ok {
		return top, false
	}
	if top.object, ok = v.(object); !ok {
		faults.add("$", "is "+kindOf(v)+"; want an object")
	}
	return top, ok
}

// parser turns the lists of a document into commands. It continues after faults, to report all of
// them at once.
type parser struct {
	vhost string // the only one; "": all
	doc   *Document
}

// read reads the known lists and passes over unknown ones. Faults are then sorted by their place;
// Parse sorts the objects by Kind, so that each comes after those that it needs.
func (p *parser) read(top *entry) {
	if p.doc.Format == FormatVHost && p.vhost == "" {
		top.fault("rabbitmq_definition_format", "is "+FormatVHost+": its objects name no vhost; name the vhost to import them into")
	}
	for _, list := range []struct {
		name string
		read func(*entry)
	}{
		{"users", p.user},
		{"vhosts", p.vhostOf},
		{"permissions", p.permission},
		{"topic_permissions", p.topicPermission},
		{"parameters", p.parameter},
		{"global_parameters", p.globalParameter},
		{"policies", p.policy},
		{"queues", p.queue},
		{"exchanges", p.exchange},
		{"bindings", p.binding},
	} {
		p.each(top, list.name, list.read)
	}
	slices.SortFunc(top.faults.List, func(a, b Fault) int { return comparePaths(a.Path, b.Path) })
}

// comparePaths orders by list, then by number.
func comparePaths(a, b string) int {
	listA, restA, _ := strings.Cut(a, "[")
	listB, restB, _ := strings.Cut(b, "[")
	nA, _ := strconv.Atoi(restA[:max(0, strings.IndexByte(restA, ']'))])
	nB, _ := strconv.Atoi(restB[:max(0, strings.IndexByte(restB, ']'))])
	return cmp.Or(cmp.Compare(listA, listB), cmp.Compare(nA, nB), cmp.Compare(a, b))
}

// each calls read for every object of a list; elements that are not objects are faults.
func (p *parser) each(top *entry, name string, read func(*entry)) {
	v, ok := top.get(name)
	if !ok {
		return
	}
	list, is := v.([]any)
	if !is {
		top.wrong(name, "a list", v)
		return
	}
	for i, x := range list {
		e := entry{faults: top.faults, path: "$." + name + "[" + strconv.Itoa(i) + "]"}
		if e.object, is = x.(object); !is {
			top.faults.add(e.path, "is "+kindOf(x)+"; want an object")
			continue
		}
		read(&e)
	}
}

// in returns the vhost of an object, and whether the import includes it.
func (p *parser) in(e *entry) (vhost string, wanted bool) {
	if p.doc.Format == FormatVHost {
		return p.vhost, true
	}
	if _, named := e.get("vhost"); !named && p.vhost != "" { // older documents of a vhost do not say that they are
		return p.vhost, true
	}
	vhost = e.need("vhost")
	return vhost, p.vhost == "" || vhost == p.vhost
}

// add appends an object.
func (p *parser) add(e *entry, o Object) {
	o.Path = e.path
	p.doc.Objects = append(p.doc.Objects, o)
}

// user reads a user. A clear password is kept apart from the command, for the importer to hash. An
// import into one vhost takes no users.
func (p *parser) user(e *entry) {
	limits := e.within("limits")
	u := catalog.User{
		Name: e.need("name"), PasswordHash: e.text("password_hash", ""), Algorithm: e.text("hashing_algorithm", ""),
		Tags: e.texts("tags"),
	}
	for _, l := range catalog.NoUserLimits().NamedLimits() {
		u.SetLimit(l.Name, limits.integer(l.Name, l.Value))
	}
	if u.PasswordHash == "" {
		u.Algorithm = ""
	}
	o := Object{Kind: KindUser, Name: u.Name, Command: &catalog.PutUser{User: u, OnlyNew: true}}
	if u.PasswordHash == "" {
		o.Password = e.text("password", "")
	}
	if p.vhost == "" {
		p.add(e, o)
	}
}

// vhostOf reads a vhost. Its settings are in its metadata or beside its name.
func (p *parser) vhostOf(e *entry) {
	meta := e.within("metadata")
	name := e.need("name")
	if p.vhost != "" && name != p.vhost {
		return
	}
	tags := e.texts("tags")
	if _, has := e.get("tags"); !has {
		tags = meta.texts("tags")
	}
	h := catalog.VHost{
		Name: name, Tags: tags,
		Description:      e.text("description", meta.text("description", "")),
		DefaultQueueType: catalog.QueueType(e.text("default_queue_type", meta.text("default_queue_type", ""))),
		Tracing:          e.boolean("tracing", meta.boolean("tracing", false)),
		Protected:        e.boolean("protected_from_deletion", meta.boolean("protected_from_deletion", false)),
		MergePolicies:    meta.boolean("merge_policies", false),
		DelayedPublish:   meta.boolean("delayed_publish", false),
		ImportDeaths:     meta.boolean("import_deaths", false),
		RefuseUnknown:    meta.oneOf("unknown_arguments", unknownWarn, unknownRefuse) == unknownRefuse,
		VHostLimits:      catalog.NoVHostLimits(),
	}
	if h.DefaultQueueType == "" || h.DefaultQueueType == "undefined" {
		h.DefaultQueueType = catalog.QueueQuorum
	}
	p.add(e, Object{Kind: KindVHost, Name: name, Command: &catalog.PutVHost{VHost: h, OnlyNew: true}})
	if l := vhostLimits(e, "limits"); l != catalog.NoVHostLimits() {
		p.limits(e, name, l)
	}
}

func (p *parser) limits(e *entry, vhost string, l catalog.VHostLimits) {
	p.add(e, Object{Kind: KindVHostLimits, Name: vhost, Command: &catalog.SetVHostLimits{VHost: vhost, Limits: l}})
}

// vhostLimits reads limits as an object, or as a list of objects with name and value.
func vhostLimits(e *entry, name string) catalog.VHostLimits {
	l := catalog.NoVHostLimits()
	known := l.NamedLimits()
	v, _ := e.get(name)
	list, is := v.([]any)
	if !is {
		inner := e.within(name)
		for _, x := range known {
			l.SetLimit(x.Name, inner.integer(x.Name, x.Value))
		}
		return l
	}
	for i, x := range list {
		inner := entry{faults: e.faults, path: e.path + "." + name + "[" + strconv.Itoa(i) + "]"}
		if inner.object, is = x.(object); !is {
			e.wrong(name+"["+strconv.Itoa(i)+"]", "an object", x)
			continue
		}
		name := inner.need("name")
		if slices.ContainsFunc(known, func(x catalog.NamedLimit) bool { return x.Name == name }) {
			l.SetLimit(name, inner.integer("value", catalog.Unlimited))
		}
	}
	return l
}

// permission reads a permission; its three patterns are all required, as an absent one could not be
// distinguished from "nothing".
func (p *parser) permission(e *entry) {
	x := catalog.Permission{User: e.need("user"), Configure: e.need("configure"), Write: e.need("write"), Read: e.need("read")}
	var wanted bool
	if x.VHost, wanted = p.in(e); wanted {
		p.add(e, Object{Kind: KindPermission, VHost: x.VHost, Name: x.User, Command: &catalog.SetPermission{Permission: x, OnlyNew: true}})
	}
}

// topicPermission reads a topic permission of the vhosts that are wanted.
func (p *parser) topicPermission(e *entry) {
	x := catalog.TopicPermission{User: e.need("user"), Exchange: e.need("exchange"), Write: e.need("write"), Read: e.need("read")}
	var wanted bool
	if x.VHost, wanted = p.in(e); wanted {
		p.add(e, Object{
			Kind: KindTopicPermission, VHost: x.VHost, Name: x.User + " at " + x.Exchange,
			Command: &catalog.SetTopicPermission{TopicPermission: x, OnlyNew: true},
		})
	}
}

// parameter reads a parameter. Two components stand for operator policies and vhost limits.
func (p *parser) parameter(e *entry) {
	x := catalog.Parameter{Component: e.need("component"), Name: e.need("name")}
	var wanted bool
	if x.VHost, wanted = p.in(e); !wanted {
		return
	}
	switch x.Component {
	case componentOperatorPolicy:
		inner := e.within("value")
		p.putPolicy(&inner, x.VHost, x.Name, true)
		p.doc.Objects[len(p.doc.Objects)-1].Path = e.path
	case componentVHostLimits:
		p.limits(e, x.VHost, vhostLimits(e, "value"))
	default:
		value, _ := e.object.get("value")
		x.Value = string(appendJSON(nil, value))
		p.add(e, Object{Kind: KindParameter, VHost: x.VHost, Name: x.Component + " " + x.Name, Command: &catalog.PutParameter{Parameter: x, OnlyNew: true}})
	}
}

// globalParameter reads a global parameter. Those that RabbitMQ keeps about itself are skipped with
// the reason.
func (p *parser) globalParameter(e *entry) {
	name := e.need("name")
	value, _ := e.object.get("value")
	o := Object{Kind: KindGlobalParameter, Name: name, Command: &catalog.PutParameter{
		Parameter: catalog.Parameter{Name: name, Value: string(appendJSON(nil, value))}, OnlyNew: true,
	}}
	if strings.HasPrefix(name, "internal") || strings.HasPrefix(name, "imported_definition") {
		o.skip = "belongs to the broker that exported it"
	}
	if p.vhost == "" {
		p.add(e, o)
	}
}

// policy reads a policy of users; operators' policies come as parameters of the component
// operator_policy.
func (p *parser) policy(e *entry) {
	name := e.need("name")
	if vhost, wanted := p.in(e); wanted {
		p.putPolicy(e, vhost, name, false)
	}
}

// putPolicy reads what policies of users and of operators have in common.
func (p *parser) putPolicy(e *entry, vhost, name string, operator bool) {
	x := catalog.Policy{
		VHost: vhost, Name: name, Operator: operator, Pattern: e.need("pattern"),
		ApplyTo: catalog.ApplyTo(e.text("apply-to", string(catalog.ApplyToAll))), Priority: e.integer("priority", 0),
		Definition: e.table("definition"),
	}
	p.add(e, Object{Kind: KindPolicy, VHost: vhost, Name: name, Command: &catalog.PutPolicy{Policy: x, OnlyNew: true}})
}

// queue reads a queue. Its type may be a member, an argument, or absent; planning decides the last case.
func (p *parser) queue(e *entry) {
	x := catalog.DeclareQueue{
		Name: e.need("name"), Type: catalog.QueueType(e.text("type", "")),
		Durable: e.boolean("durable", true), AutoDelete: e.boolean("auto_delete", false), Arguments: e.table("arguments"),
		DeclaredBy: e.text("declared_by", ""),
	}
	var wanted bool
	if x.VHost, wanted = p.in(e); !wanted {
		return
	}
	o := Object{Kind: KindQueue, VHost: x.VHost, Name: x.Name, Command: &x}
	if x.Type == "" {
		if v, named := x.Arguments.Get(argument.QueueType); named {
			if s, is := v.AsString(); is {
				x.Type = catalog.QueueType(s)
			}
		}
	}
	if strings.HasPrefix(x.Name, namesOfBroker) {
		o.skip = "queues whose names begin with " + namesOfBroker + " come and go with their clients"
	}
	p.add(e, o)
}

// exchange reads an exchange and skips those that every vhost has anyway.
func (p *parser) exchange(e *entry) {
	x := catalog.DeclareExchange{
		Name: e.need("name"), Type: catalog.ExchangeType(e.need("type")), Durable: e.boolean("durable", true),
		AutoDelete: e.boolean("auto_delete", false), Internal: e.boolean("internal", false), Arguments: e.table("arguments"),
	}
	var wanted bool
	if x.VHost, wanted = p.in(e); !wanted {
		return
	}
	o := Object{Kind: KindExchange, VHost: x.VHost, Name: x.Name, Command: &x}
	if x.Name == "" || strings.HasPrefix(x.Name, namesOfBroker) {
		o.skip = "exchanges of the broker itself are in every vhost"
	}
	p.add(e, o)
}

// binding reads a binding and skips those of the default exchange, which nobody can make.
func (p *parser) binding(e *entry) {
	x := catalog.Bind{
		Source: e.need("source"), Destination: e.need("destination"), Key: e.text("routing_key", ""), Arguments: e.table("arguments"),
	}
	switch to := e.need("destination_type"); to {
	case "queue", "":
	case "exchange":
		x.DestinationKind = catalog.ToExchange
	default:
		e.fault("destination_type", "is "+strconv.Quote(to)+`; want "queue" or "exchange"`)
	}
	var wanted bool
	if x.VHost, wanted = p.in(e); !wanted {
		return
	}
	o := Object{Kind: KindBinding, VHost: x.VHost, Name: bindingName(&x), Command: &x}
	if x.Source == "" {
		o.skip = "the default exchange leads to every queue by itself"
	}
	p.add(e, o)
}

func bindingName(x *catalog.Bind) string {
	return x.Source + " → " + x.Destination + " by " + strconv.Quote(x.Key)
}
