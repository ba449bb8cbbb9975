package permission

import (
	"strconv"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
)

// SendRight is what a sender may do at an exchange. It holds as long as the
// view has the AccessSet Set.
type SendRight struct {
	Set   catalog.AccessSet
	Err   error
	Topic *Grant // limits the keys at a topic exchange; nil: nothing does
	Any   bool   // may publish with any user_id (MSG-3)
}

// Decide returns what a user may do at an exchange; callers fill in Set.
func (ps *Permissions) Decide(v *catalog.View, who *identity.Identity, x Thing) (d SendRight) {
	user := who.User()
	d.Any = who.Is(identity.TagImpersonator)
	if !who.External() {
		now, exists := v.User(user)
		if !exists {
			d.Err = identity.Unauthenticated("user " + strconv.Quote(user) + " does not exist any more")
			return d
		}
		d.Any = identity.Of(now).Is(identity.TagImpersonator)
	}
	g, err := ps.Permission(v, who, x.VHost)
	if err != nil {
		d.Err = err
		return d
	}
	if !g.Matches(Write, x.matched()) {
		d.Err = x.refused(user, Write.String())
		return d
	}
	d.Topic = ps.TopicPermission(v, who, x.VHost, x.Name)
	return d
}
