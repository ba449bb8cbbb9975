package broker

import (
	"strconv"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
)

// sendRight is what a sender may do at an exchange as long as set is the view's.
type sendRight struct {
	set   catalog.AccessSet
	err   error
	topic *grant // bounds the keys at a topic exchange; nil: nothing does
	any   bool   // may publish with any user_id (MSG-3)
}

// decide returns what somebody may do at an exchange, but for set.
func (ps *permissions) decide(v *catalog.View, who *identity.Identity, x thing) (d sendRight) {
	user := who.User()
	d.any = who.Is(identity.TagImpersonator)
	if !who.Stranger() {
		now, exists := v.User(user)
		if !exists {
			d.err = identity.Unauthenticated("user " + strconv.Quote(user) + " does not exist any more")
			return d
		}
		d.any = identity.Of(now).Is(identity.TagImpersonator)
	}
	g, err := ps.permission(v, who, x.vhost)
	if err != nil {
		d.err = err
		return d
	}
	if !ps.matches(g, write, x.matched()) {
		d.err = x.refused(user, write.String())
		return d
	}
	d.topic = ps.topicPermission(v, who, x.vhost, x.name)
	return d
}
