package spec

import (
	"cmp"
	"slices"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/scope"
	"github.com/quorate/quorate/internal/pattern"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// Policy is what a QuoratePolicy asks for.
type Policy struct {
	VHost, Name      string
	Operator         bool
	Pattern, ApplyTo string
	Priority         int64
	Definition       message.Table
}

// ReadPolicy reads and checks a policy.
func ReadPolicy(p *v1alpha1.QuoratePolicy) (Policy, field.ErrorList) {
	s := &p.Spec
	out := Policy{
		VHost: vhostOr(s.VHost), Name: cmp.Or(s.Name, p.Name), Operator: s.Operator, Pattern: s.Pattern,
		ApplyTo: cmp.Or(s.ApplyTo, string(catalog.ApplyToAll)), Priority: s.Priority,
	}
	definition, faults := readTable("definition", &apiextensionsv1.JSON{Raw: s.Definition.Raw})
	if len(faults) > 0 {
		return out, faults
	}
	out.Definition = definition
	named := fields{"name": "name", "pattern": "pattern", "apply-to": "applyTo", "definition": "definition"}
	c := catalog.Policy{
		VHost: out.VHost, Name: out.Name, Operator: out.Operator, Pattern: out.Pattern,
		ApplyTo: catalog.ApplyTo(out.ApplyTo), Priority: out.Priority, Definition: out.Definition,
	}
	faults = faultsOf(names.CheckPlain(c.Name, "", failure.Error{VHost: c.VHost, Kind: "policy", Name: c.Name}), "", named)
	if len(c.Pattern) <= catalog.MaxPatternBytes { // a longer one costs work; the catalog refuses it
		faults = append(faults, faultsOf(policy.Check(&c), "definition", named)...)
	}
	return out, append(faults, faultsOf(tried(newTrial(c.VHost), &catalog.PutPolicy{Policy: c}), "definition", named)...)
}

// Demand is what the policy needs to be allowed.
func (p Policy) Demand() scope.Demand {
	return scope.Demand{VHost: p.VHost, OperatorPolicy: p.Operator}
}

// User is what a QuorateUser asks for.
type User struct {
	Name   string
	Tags   []string // sorted, never nil
	Limits client.UserLimits
}

// ReadUser reads and checks a user.
func ReadUser(u *v1alpha1.QuorateUser) (User, field.ErrorList) {
	s := &u.Spec
	out := User{Name: cmp.Or(s.Name, u.Name), Tags: append([]string{}, s.Tags...)}
	slices.Sort(out.Tags)
	if l := s.Limits; l != nil {
		out.Limits = client.UserLimits{
			MaxConnections: l.MaxConnections, MaxChannels: l.MaxChannels, MaxConsumers: l.MaxConsumers, MaxMessageRate: l.MaxMessageRate,
			MaxByteRate: l.MaxByteRate, MaxQueues: l.MaxQueues, MaxStoredBytes: l.MaxStoredBytes,
		}
	}
	named := fields{"name": "name", "tags": "tags"}
	about := failure.Error{Kind: "user", Name: out.Name}
	faults := faultsOf(names.CheckPlain(out.Name, ":", about), "", named)
	user := catalog.User{Name: out.Name, Tags: out.Tags, UserLimits: catalog.NoUserLimits()}
	return out, append(faults, faultsOf(tried(newTrial(defaultVHost), &catalog.PutUser{User: user}), "limits", named)...)
}

// Demand is what the user needs to be allowed.
func (u User) Demand() scope.Demand { return scope.Demand{User: u.Name, Tags: u.Tags} }

// Permission is what a QuoratePermission asks for.
type Permission struct {
	VHost, User            string
	Configure, Write, Read string
	Topics                 []v1alpha1.TopicPermission
}

// ReadPermission reads and checks a permission.
func ReadPermission(p *v1alpha1.QuoratePermission) (Permission, field.ErrorList) {
	s := &p.Spec
	out := Permission{
		VHost: vhostOr(s.VHost), User: s.User, Configure: s.Configure, Write: s.Write, Read: s.Read, Topics: s.Topics,
	}
	var faults field.ErrorList
	if s.User == "" {
		faults = append(faults, field.Required(at("user"), "name a user of the broker"))
	}
	for _, x := range []struct{ name, text string }{{"configure", s.Configure}, {"write", s.Write}, {"read", s.Read}} {
		faults = append(faults, checkPattern(at(x.name), x.text)...)
	}
	for i, t := range s.Topics {
		if t.Exchange == "" { // VH-8
			faults = append(faults, field.Required(at("topics").Index(i).Child("exchange"), "name a topic exchange"))
		}
		faults = append(faults, checkPattern(at("topics").Index(i).Child("write"), t.Write)...)
		faults = append(faults, checkPattern(at("topics").Index(i).Child("read"), t.Read)...)
	}
	return out, faults
}

// Demand is what the permission needs to be allowed. The user may be anybody: what is in its vhost is the namespace's.
func (p Permission) Demand() scope.Demand { return scope.Demand{VHost: p.VHost} }

// checkPattern compiles a pattern as the broker does, unless it is too long (C-8).
func checkPattern(path *field.Path, text string) field.ErrorList {
	if len(text) > catalog.MaxPatternBytes {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, strconv.Itoa(len(text))+" bytes, the limit is "+strconv.Itoa(catalog.MaxPatternBytes))}
	}
	if _, err := pattern.Compile(text); err != nil {
		return field.ErrorList{field.Invalid(path, text, err.Error())}
	}
	return nil
}
