package topology

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/inventory"
	"github.com/quorate/quorate/cmd/operator/spec"
	"github.com/quorate/quorate/cmd/operator/table"
)

func readPermission(o *v1alpha1.QuoratePermission) (subject, field.ErrorList) {
	p, faults := spec.ReadPermission(o)
	return permission{p}, faults
}

func removalOfPermission(o *v1alpha1.QuoratePermission) removal { return removalOf(o.Spec.Deletion) }

// permission is the subject of a QuoratePermission: the permission of a user in a vhost, and all its topic permissions
// there.
type permission struct{ spec.Permission }

func (p permission) name() inventory.PermissionName {
	return inventory.PermissionName{VHost: p.VHost, User: p.User}
}

func (p permission) identity() string { return p.VHost + "\x00" + p.User }
func (p permission) words() string {
	return fmt.Sprintf("permission of user %q in vhost %q", p.User, p.VHost)
}

func (p permission) compare(ctx context.Context, s *session) (bool, []table.Difference, error) {
	found, _, err := s.inventory.Rights(ctx, p.name(), s.maxAge.duration())
	if err != nil {
		return false, nil, err
	}
	return found.Granted, p.differences(found), nil
}

// rights are the wanted ones, as the broker would have them.
func (p permission) rights() inventory.Rights {
	r := inventory.Rights{Granted: true, Configure: p.Configure, Write: p.Write, Read: p.Read, Topics: map[string]inventory.Topic{}}
	for _, t := range p.Topics {
		r.Topics[t.Exchange] = inventory.Topic{Write: t.Write, Read: t.Read}
	}
	return r
}

func (p permission) differences(found inventory.Rights) []table.Difference {
	out := table.CompareText(nil, "configure", p.Configure, found.Configure)
	out = table.CompareText(out, "write", p.Write, found.Write)
	out = table.CompareText(out, "read", p.Read, found.Read)
	wanted := p.rights().Topics
	for _, x := range slices.Sorted(maps.Keys(wanted)) {
		if f, ok := found.Topics[x]; !ok || f != wanted[x] {
			out = append(out, table.Difference{Field: "topics[" + x + "]", Wanted: wanted[x].String(), Found: topicText(f, ok)})
		}
	}
	for _, x := range slices.Sorted(maps.Keys(found.Topics)) {
		if _, ok := wanted[x]; !ok {
			out = append(out, table.Difference{Field: "topics[" + x + "]", Wanted: table.Absent, Found: found.Topics[x].String()})
		}
	}
	return out
}

func topicText(t inventory.Topic, has bool) string {
	if !has {
		return table.Absent
	}
	return t.String()
}

// apply sets the topic permissions that are wanted, then the permission, and then clears the topic permissions that are
// not: they restrict, so that in between the user can do less, not more.
func (p permission) apply(ctx context.Context, s *session) (created bool, err error) {
	if err := s.notOwn(ctx, p.User, p.words()); err != nil {
		return false, err
	}
	for _, t := range p.Topics {
		err := s.call(ctx, func(ctx context.Context, c *client.Client) error {
			_, err := c.SetTopicPermission(ctx, client.TopicPermission{User: p.User, VHost: p.VHost, Exchange: t.Exchange, Write: t.Write, Read: t.Read})
			return err
		})
		if err != nil {
			return false, err
		}
	}
	err = s.call(ctx, func(ctx context.Context, c *client.Client) error {
		created, err = c.SetPermission(ctx, client.Permission{User: p.User, VHost: p.VHost, Configure: p.Configure, Write: p.Write, Read: p.Read})
		return err
	})
	if err != nil {
		return created, err
	}
	found, _, err := s.inventory.Rights(ctx, p.name(), s.maxAge.duration())
	if err != nil {
		return created, err
	}
	wanted := p.rights()
	for x := range found.Topics {
		if _, ok := wanted.Topics[x]; ok {
			continue
		}
		if err := p.clearTopic(ctx, s, x); err != nil {
			return created, err
		}
	}
	s.inventory.PutRights(ctx, p.name(), wanted)
	return created, nil
}

// clearTopic removes the restriction at an exchange; "" are all of the vhost.
func (p permission) clearTopic(ctx context.Context, s *session, exchange string) error {
	return s.call(ctx, func(ctx context.Context, c *client.Client) error {
		_, err := c.ClearTopicPermission(ctx, client.TopicPermissionRef{VHost: p.VHost, User: p.User, Exchange: exchange})
		return gone(err)
	})
}

// remove takes the permission before the restrictions: in between the user can do less, not more.
func (p permission) remove(ctx context.Context, s *session, _ removal) error {
	if err := s.notOwn(ctx, p.User, p.words()); err != nil {
		return left(err)
	}
	err := s.call(ctx, func(ctx context.Context, c *client.Client) error {
		_, err := c.ClearPermission(ctx, client.PermissionRef{VHost: p.VHost, User: p.User})
		return gone(err)
	})
	if err == nil {
		err = p.clearTopic(ctx, s, "")
	}
	if err == nil {
		s.inventory.DropRights(ctx, p.name())
	}
	return err
}
