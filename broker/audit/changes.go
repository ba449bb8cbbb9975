package audit

import (
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// field is one property of an object, as audit records show it; the value "" stands for none or for the default. A
// secret is compared but never recorded.
type field struct {
	name, value string
	secret      bool
}

// What a record shows of a secret.
const (
	secretSet     = "set"
	secretChanged = "changed"
)

// differences returns the fields whose values differ.
func differences(before, after []field) (out []Change) {
	old := make(map[string]field, len(before))
	for _, f := range before {
		old[f.name] = f
	}
	for _, f := range after {
		was := old[f.name]
		delete(old, f.name)
		if f.value != was.value {
			out = append(out, f.change(was.value))
		}
	}
	for _, f := range before { // in their order, which the map has lost
		if _, gone := old[f.name]; gone && f.value != "" {
			is := field{name: f.name, secret: f.secret}
			out = append(out, is.change(f.value))
		}
	}
	return out
}

// change returns the change of a field from the value was. For a secret it shows only that the secret was set or
// changed.
func (f *field) change(was string) Change {
	c := Change{Field: f.name, Before: was, After: f.value}
	if !f.secret {
		return c
	}
	if f.value != "" {
		c.After = secretSet
	}
	if was != "" {
		c.Before = secretSet
		if f.value != "" {
			c.After = secretChanged
		}
	}
	return c
}

// changesOf returns what a command has changed, and whether it has changed anything. r is the reply to the command;
// before is the view that its proposer had.
func changesOf(before *catalog.View, cmd catalog.Command, r catalog.Reply) ([]Change, bool) {
	switch c := cmd.(type) {
	case *catalog.DeclareQueue, *catalog.DeleteQueue, *catalog.DrainDeleteQueue, *catalog.DeclareExchange, *catalog.DeleteExchange,
		*catalog.Bind, *catalog.Unbind:
		return changesOfTopology(before, cmd, r)
	case *catalog.PutUser, *catalog.ChangeUser, *catalog.DeleteUser, *catalog.SetUserLimits:
		return changesOfUser(before, cmd, r)
	case *catalog.SetPermission:
		old, _ := before.Permission(c.User, c.VHost)
		return differences(permissionFields(old), permissionFields(&c.Permission)), replaced(c.OnlyNew, old == nil, r)
	case *catalog.ClearPermission:
		old, known := before.Permission(c.User, c.VHost)
		return differences(permissionFields(old), nil), happened(r.Deleted, known, r)
	case *catalog.SetTopicPermission:
		old, _ := before.TopicPermission(c.User, c.VHost, c.Exchange)
		return differences(topicFields(old), topicFields(&c.TopicPermission)), replaced(c.OnlyNew, old == nil, r)
	case *catalog.ClearTopicPermission:
		old, known := before.TopicPermission(c.User, c.VHost, c.Exchange)
		return differences(topicFields(old), nil), happened(r.Deleted, known, r)
	case *catalog.PutPolicy:
		old, _ := before.Policy(c.VHost, c.Name, c.Operator)
		return differences(policyFields(old), policyFields(&c.Policy)), replaced(c.OnlyNew, old == nil, r)
	case *catalog.DeletePolicy:
		old, known := before.Policy(c.VHost, c.Name, c.Operator)
		return differences(policyFields(old), nil), happened(r.Deleted, known, r)
	case *catalog.PutVHost, *catalog.DeleteVHost, *catalog.SetVHostLimits:
		return changesOfVHost(before, cmd, r)
	case *catalog.PutParameter:
		// Parameters with a component but no vhost are the broker's own, such as tokens. They are not recorded here.
		changed := replaced(c.OnlyNew, true, r) && (c.VHost != "" || c.Component == "")
		return []Change{{Field: "value", After: secretChanged}}, changed
	case *catalog.DeleteParameter:
		_, known := before.Parameter(c.VHost, c.Component, c.Name)
		return []Change{{Field: "value", After: "removed"}}, happened(r.Deleted, known, r) && (c.VHost != "" || c.Component == "")
	}
	return nil, false
}

// happened reports whether an object was created or removed. was is whether the state before allowed that; it decides
// for a repeated command, whose reply may not report the change.
func happened(reported, was bool, r catalog.Reply) bool { return reported || r.Repeated && was }

// replaced reports whether a command that replaces an object has changed anything. With onlyNew the command leaves an
// existing object alone.
func replaced(onlyNew, missing bool, r catalog.Reply) bool {
	return !onlyNew || happened(r.Created, missing, r)
}

// changesOfTopology is changesOf for queues, exchanges and bindings. Declaring an object that exists changes nothing.
func changesOfTopology(before *catalog.View, cmd catalog.Command, r catalog.Reply) ([]Change, bool) {
	switch c := cmd.(type) {
	case *catalog.DeclareQueue:
		_, known := before.Queue(c.VHost, c.Name)
		return differences(nil, queueFields(&catalog.QueueRecord{
			Type: c.Type, Durable: c.Durable, Exclusive: c.Exclusive, AutoDelete: c.AutoDelete, Arguments: c.Arguments, DeclaredBy: c.DeclaredBy,
		})), happened(r.Created, !known, r)
	case *catalog.DeleteQueue:
		old, known := before.QueueByUID(c.UID)
		return differences(queueFields(old), nil), happened(r.Deleted, known, r)
	case *catalog.DrainDeleteQueue:
		old, known := before.QueueByUID(c.UID)
		return append(differences(queueFields(old), nil), Change{Field: "state", After: "drain-deleting"}), known && old.DrainDeleting == 0
	case *catalog.DeclareExchange:
		_, known := before.Exchange(c.VHost, c.Name)
		return differences(nil, exchangeFields(&catalog.Exchange{
			Type: c.Type, Durable: c.Durable, AutoDelete: c.AutoDelete, Internal: c.Internal, Arguments: c.Arguments,
		})), happened(r.Created, !known, r)
	case *catalog.DeleteExchange:
		old, known := before.Exchange(c.VHost, c.Name)
		return differences(exchangeFields(old), nil), happened(r.Deleted, known, r)
	case *catalog.Bind:
		return differences(nil, bindingFields(c.Key, c.Arguments)), happened(r.Created, true, r)
	case *catalog.Unbind:
		return differences(bindingFields(c.Key, c.Arguments), nil), happened(r.Deleted, true, r)
	}
	return nil, false
}

// changesOfUser is changesOf for users. PutUser leaves the limits of an existing user as they were.
func changesOfUser(before *catalog.View, cmd catalog.Command, r catalog.Reply) ([]Change, bool) {
	switch c := cmd.(type) {
	case *catalog.PutUser:
		old, known := before.User(c.Name)
		is := c.User
		if known {
			is.UserLimits = old.UserLimits
		}
		return differences(userFields(old), userFields(&is)), replaced(c.OnlyNew, !known, r)
	case *catalog.ChangeUser:
		old, _ := before.User(c.Name)
		is := c.Of(old)
		return differences(userFields(old), userFields(&is)), true
	case *catalog.DeleteUser:
		old, known := before.User(c.Name)
		return differences(userFields(old), nil), happened(r.Deleted, known, r)
	case *catalog.SetUserLimits:
		old, known := before.User(c.User)
		if !known {
			old = &catalog.User{Name: c.User, UserLimits: catalog.NoUserLimits()}
		}
		is := *old
		is.UserLimits = c.Limits
		return differences(userFields(old), userFields(&is)), true
	}
	return nil, false
}

// changesOfVHost is changesOf for vhosts. The queues that are deleted with a vhost are counted, not listed.
func changesOfVHost(before *catalog.View, cmd catalog.Command, r catalog.Reply) ([]Change, bool) {
	switch c := cmd.(type) {
	case *catalog.PutVHost:
		old, known := before.VHost(c.Name)
		is := c.VHost
		if known {
			is.VHostLimits = old.VHostLimits
		}
		return differences(vhostFields(old), vhostFields(&is)), replaced(c.OnlyNew, !known, r)
	case *catalog.DeleteVHost:
		old, known := before.VHost(c.Name)
		gone := differences(vhostFields(old), nil)
		if n := before.QueueCountIn(c.Name); n > 0 {
			gone = append(gone, Change{Field: "queues", Before: strconv.Itoa(n)})
		}
		return gone, happened(r.Deleted, known, r)
	case *catalog.SetVHostLimits:
		old, known := before.VHost(c.VHost)
		if !known {
			old = &catalog.VHost{Name: c.VHost, VHostLimits: catalog.NoVHostLimits()}
		}
		is := *old
		is.VHostLimits = c.Limits
		return differences(vhostFields(old), vhostFields(&is)), true
	}
	return nil, false
}

// flag returns a boolean field. It has no value if it is as usual, so that records show only what is unusual.
func flag(name string, is, usual bool) field {
	if is == usual {
		return field{name: name}
	}
	return field{name: name, value: strconv.FormatBool(is)}
}

// onlyIf returns value, or "" if the field is as usual.
func onlyIf(is bool, value string) string {
	if is {
		return value
	}
	return ""
}

// limitFields returns limits as fields, with the names of the API but _ for -. A limit that is not set has no value.
func limitFields(all []catalog.NamedLimit) []field {
	out := make([]field, len(all))
	for i, l := range all {
		if out[i].name = strings.ReplaceAll(l.Name, "-", "_"); l.Value != catalog.Unlimited {
			out[i].value = strconv.FormatInt(l.Value, 10)
		}
	}
	return out
}

// tableFields returns a field for each entry of a table, so that a record shows which entry has changed.
func tableFields(prefix string, t message.Table) []field {
	out := make([]field, len(t))
	for i := range t {
		out[i] = field{name: prefix + "." + t[i].Name, value: t[i].Value.String()}
	}
	return out
}

// queueFields returns none for nil, a queue that did not exist; then all fields of the other side count as changed. The
// functions for other objects do the same.
func queueFields(q *catalog.QueueRecord) []field {
	if q == nil {
		return nil
	}
	return append([]field{
		{name: "type", value: string(q.Type)},
		flag("durable", q.Durable, true), flag("exclusive", q.Exclusive, false),
		flag("auto_delete", q.AutoDelete, false),
		{name: "declared_by", value: q.DeclaredBy},
	}, tableFields("arguments", q.Arguments)...)
}

// exchangeFields returns none for nil.
func exchangeFields(x *catalog.Exchange) []field {
	if x == nil {
		return nil
	}
	return append([]field{
		{name: "type", value: string(x.Type)},
		flag("durable", x.Durable, true), flag("auto_delete", x.AutoDelete, false),
		flag("internal", x.Internal, false),
	}, tableFields("arguments", x.Arguments)...)
}

func bindingFields(key string, args message.Table) []field {
	return append([]field{{name: "routing_key", value: key}}, tableFields("arguments", args)...)
}

// userFields returns none for nil. The hash of the password is a secret.
func userFields(u *catalog.User) []field {
	if u == nil {
		return nil
	}
	return append([]field{
		{name: "tags", value: names(u.Tags)},
		{name: "password", value: u.PasswordHash, secret: true},
		{name: "hashing_algorithm", value: u.Algorithm},
	}, limitFields(u.NamedLimits())...)
}

func names(list []string) string {
	sorted := slices.Sorted(slices.Values(list))
	return strings.Join(sorted, ",")
}

// permissionFields returns none for nil.
func permissionFields(p *catalog.Permission) []field {
	if p == nil {
		return nil
	}
	return []field{{name: "configure", value: p.Configure}, {name: "write", value: p.Write}, {name: "read", value: p.Read}}
}

// topicFields returns none for nil.
func topicFields(p *catalog.TopicPermission) []field {
	if p == nil {
		return nil
	}
	return []field{{name: "exchange", value: p.Exchange}, {name: "write", value: p.Write}, {name: "read", value: p.Read}}
}

// policyFields returns none for nil.
func policyFields(p *catalog.Policy) []field {
	if p == nil {
		return nil
	}
	return append([]field{
		{name: "pattern", value: p.Pattern}, {name: "apply_to", value: string(p.ApplyTo)}, {name: "priority", value: strconv.FormatInt(p.Priority, 10)},
	}, tableFields("definition", p.Definition)...)
}

// vhostFields returns none for nil.
func vhostFields(h *catalog.VHost) []field {
	if h == nil {
		return nil
	}
	return append([]field{
		{name: "description", value: h.Description},
		{name: "tags", value: names(h.Tags)},
		{name: "default_queue_type", value: string(h.DefaultQueueType)},
		flag("tracing", h.Tracing, false), flag("protected_from_deletion", h.Protected, false), flag("merge_policies", h.MergePolicies, false),
		flag("delayed_publish", h.DelayedPublish, false), flag("import_deaths", h.ImportDeaths, false),
		{name: "unknown_arguments", value: onlyIf(h.RefuseUnknown, "refuse")},
	}, limitFields(h.NamedLimits())...)
}
