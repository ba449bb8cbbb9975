package catalog

import (
	"iter"
	"slices"
)

// User looks a user up.
func (v *View) User(name string) (*User, bool) { return v.users.get(name) }

// Users goes over all users, sorted by name.
func (v *View) Users() iter.Seq[*User] { return values(v.users) }

// Permission returns a user's permission in a vhost; false: none.
func (v *View) Permission(user, vhost string) (*Permission, bool) {
	h, _ := v.vhosts.get(vhost)
	return h.permissions.get(user)
}

// Permissions goes over all permissions of a vhost, sorted by user.
func (v *View) Permissions(vhost string) iter.Seq[*Permission] {
	h, _ := v.vhosts.get(vhost)
	return values(h.permissions)
}

// TopicPermission returns a user's restriction at a topic exchange; false: none.
func (v *View) TopicPermission(user, vhost, exchange string) (*TopicPermission, bool) {
	h, _ := v.vhosts.get(vhost)
	if h.topicPermissions.len() == 0 {
		return nil, false
	}
	p := TopicPermission{User: user, Exchange: exchange}
	return h.topicPermissions.get(p.identity())
}

// TopicPermissions goes over all topic permissions of a vhost, sorted by user and
// exchange.
func (v *View) TopicPermissions(vhost string) iter.Seq[*TopicPermission] {
	h, _ := v.vhosts.get(vhost)
	return values(h.topicPermissions)
}

// Policy looks a policy, or an operator's policy, up.
func (v *View) Policy(vhost, name string, operator bool) (*Policy, bool) {
	h, _ := v.vhosts.get(vhost)
	return h.policiesOf(operator).get(name)
}

// Policies goes over the policies of a vhost, or over the operators' ones, sorted by name.
func (v *View) Policies(vhost string, operator bool) iter.Seq[*Policy] {
	h, _ := v.vhosts.get(vhost)
	return values(*h.policiesOf(operator))
}

// PolicySet identifies the policies of a vhost in one view, for caches: two are equal if no policy
// changed in between.
type PolicySet struct{ user, operator *treeNode[string, *Policy] }

// PolicySet returns the identity of a vhost's policies.
func (v *View) PolicySet(vhost string) PolicySet {
	h, _ := v.vhosts.get(vhost)
	return PolicySet{h.policies.root, h.operatorPolicies.root}
}

// Parameter looks a parameter up; global ones have the vhost "".
func (v *View) Parameter(vhost, component, name string) (*Parameter, bool) {
	return v.parameters.get(parameterIdentity(vhost, component, name))
}

// Parameters goes over the parameters of a vhost, or over the global ones for "", sorted
// by component and name.
func (v *View) Parameters(vhost string) iter.Seq[*Parameter] {
	return slices.Values(v.parametersOf(vhost))
}

// AccessSet identifies the users and their rights in a vhost in one view, for caches: two are equal
// if none of them changed in between.
type AccessSet struct {
	users            *treeNode[string, *User]
	permissions      *treeNode[string, *Permission]
	topicPermissions *treeNode[string, *TopicPermission]
}

// AccessSet returns the identity of a vhost's users and rights.
func (v *View) AccessSet(vhost string) AccessSet {
	h, _ := v.vhosts.get(vhost)
	return AccessSet{v.users.root, h.permissions.root, h.topicPermissions.root}
}
