package administration

import (
	"context"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/catalog"
)

// VHost is a namespace with its settings (VH-1, VH-3).
type VHost = catalog.VHost

// VHostLimits limit what a vhost holds; Unlimited stands for no limit (VH-4, VH-14).
type VHostLimits = catalog.VHostLimits

// NamedLimit is one of the limits of a vhost or a user, under the name that clients give it.
type NamedLimit = catalog.NamedLimit

// NoVHostLimits returns the limits of a vhost without limits.
func NoVHostLimits() VHostLimits { return catalog.NoVHostLimits() }

// QueueType is "quorum" or "classic".
type QueueType = catalog.QueueType

// Unlimited is a limit that is not set.
const Unlimited = catalog.Unlimited

// AboutVHost returns an error that only names a vhost; callers add what is wrong.
func AboutVHost(name string) failure.Error {
	return failure.Error{VHost: name, Kind: "vhost", Name: name}
}

// PutVHost creates a vhost, or replaces the settings of the existing one, and reports whether the
// vhost is new (VH-2). Limits apply only to a new vhost. The user who creates a vhost gets all
// permissions in it.
func (ad *Administration) PutVHost(ctx context.Context, h VHost) (created bool, err error) {
	about := AboutVHost(h.Name)
	if h.DefaultQueueType == "" {
		h.DefaultQueueType = catalog.QueueQuorum
	}
	reply, err := ad.commands.Propose(ctx, about, &catalog.PutVHost{VHost: h}, names.CheckPlain(h.Name, "", about))
	if err != nil || !reply.Created {
		return reply.Created, err
	}
	who, err := ad.logins.Who(ctx)
	if err != nil || who == nil || who.External() {
		return true, err
	}
	_, err = ad.commands.Propose(audit.WithoutNotes(ctx), AboutPermission(h.Name, who.User()), &catalog.SetPermission{OnlyNew: true, Permission: Permission{
		User: who.User(), VHost: h.Name, Configure: ".*", Write: ".*", Read: ".*",
	}}, nil)
	if err == nil {
		audit.NotesOf(ctx).Note(audit.Change{Field: "permission." + who.User(), After: ".* .* .*"})
	}
	return true, err
}

// DeleteVHost removes a vhost with all its queues, exchanges, policies and permissions, and ends
// its consumers. It reports whether there was one. It refuses to delete a protected vhost (VH-2).
func (ad *Administration) DeleteVHost(ctx context.Context, name string) (deleted bool, err error) {
	reply, err := ad.commands.Propose(ctx, AboutVHost(name), &catalog.DeleteVHost{Name: name}, nil)
	return reply.Deleted, failure.AsState(err)
}

// SetVHostLimits replaces the limits of a vhost (VH-4). What exists already stays, even above a
// limit.
func (ad *Administration) SetVHostLimits(ctx context.Context, name string, l VHostLimits) error {
	_, err := ad.commands.Propose(ctx, AboutVHost(name), &catalog.SetVHostLimits{VHost: name, Limits: l}, nil)
	return err
}

// VHostInfo is a vhost with the number of its queues.
type VHostInfo struct {
	VHost
	Queues int
}

// ListVHosts returns vhosts, sorted by name. A caller with the tag monitoring gets all of them; one
// with the tag management gets those in which it has a permission (VH-12).
func (ad *Administration) ListVHosts(ctx context.Context) ([]VHostInfo, error) {
	if err := ad.logins.Require(ctx, identity.TagManagement); err != nil {
		return nil, err
	}
	v, err := ad.serving.ViewOf("")
	if err != nil {
		return nil, err
	}
	var out []VHostInfo
	for h := range v.VHosts() {
		if _, err := ad.permissions.Sight(ctx, h.Name); err == nil {
			out = append(out, VHostInfo{VHost: *h, Queues: v.QueueCountIn(h.Name)})
		}
	}
	return out, nil
}

// DefaultQueueTypeOf returns the type of queues whose declaration in the vhost names none (Q-3,
// VH-3).
func DefaultQueueTypeOf(v *catalog.View, vhost string) catalog.QueueType {
	if h, ok := v.VHost(vhost); ok {
		return h.DefaultQueueType
	}
	return ""
}
