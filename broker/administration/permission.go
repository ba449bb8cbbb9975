package administration

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/pattern"
)

// Permission gives a user rights in a vhost by three patterns (VH-6).
type Permission = catalog.Permission

// TopicPermission bounds the routing keys of a user at a topic exchange (VH-8).
type TopicPermission = catalog.TopicPermission

// NamedPattern is a pattern under the name of its field.
type NamedPattern struct{ Arg, Text string }

// CheckPatterns refuses patterns that do not compile, all at once (C-8).
func CheckPatterns(about failure.Error, patterns ...NamedPattern) error {
	about.Class = failure.PreconditionFailed
	failed := false
	for _, p := range patterns {
		var err error
		if len(p.Text) > catalog.MaxPatternBytes { // before work is spent on it
			err = tooLong(len(p.Text))
		} else {
			_, err = pattern.Compile(p.Text)
		}
		switch {
		case err == nil:
		case failed:
			about.Reason += "; also " + p.Arg + ": " + err.Error()
		default:
			failed, about.Arg, about.Reason = true, p.Arg, err.Error()
		}
	}
	if !failed {
		return nil
	}
	return &about
}

// tooLong is the length of a pattern above the limit.
type tooLong int

func (n tooLong) Error() string {
	return strconv.Itoa(int(n)) + " bytes, the limit is " + strconv.Itoa(catalog.MaxPatternBytes)
}

// AboutPermission names a permission in errors.
func AboutPermission(vhost, user string) failure.Error {
	return failure.Error{VHost: vhost, Kind: "permission", Name: user}
}

// SetPermission sets what a user may do in a vhost, and reports whether it had no permission
// there (VH-6).
func (ad *Administration) SetPermission(ctx context.Context, p Permission) (created bool, err error) {
	about := AboutPermission(p.VHost, p.User)
	bad := CheckPatterns(about, NamedPattern{"configure", p.Configure}, NamedPattern{"write", p.Write}, NamedPattern{"read", p.Read})
	reply, err := ad.commands.Propose(ctx, about, &catalog.SetPermission{Permission: p}, bad)
	return reply.Created, err
}

// ClearPermission takes from a user all that it may do in a vhost, and reports whether it
// had a permission.
func (ad *Administration) ClearPermission(ctx context.Context, vhost, user string) (deleted bool, err error) {
	reply, err := ad.commands.Propose(ctx, AboutPermission(vhost, user), &catalog.ClearPermission{User: user, VHost: vhost}, nil)
	return reply.Deleted, err
}

// ListPermissions returns the permissions of a vhost, of all if it is "", sorted by vhost
// and user; with user, only its own.
func (ad *Administration) ListPermissions(vhost, user string) ([]Permission, error) {
	v, err := ad.serving.ViewOf(vhost)
	if err != nil {
		return nil, err
	}
	var out []Permission
	for h := range v.VHosts() {
		if vhost != "" && h.Name != vhost {
			continue
		}
		for p := range v.Permissions(h.Name) {
			if user == "" || p.User == user {
				out = append(out, *p)
			}
		}
	}
	return out, nil
}

// AboutTopicPermission names a topic permission in errors.
func AboutTopicPermission(vhost, user string) failure.Error {
	return failure.Error{VHost: vhost, Kind: "topic permission", Name: user}
}

// SetTopicPermission bounds the routing keys of a user at a topic exchange, and reports
// whether there was no bound (VH-8).
func (ad *Administration) SetTopicPermission(ctx context.Context, p TopicPermission) (created bool, err error) {
	about := AboutTopicPermission(p.VHost, p.User)
	bad := CheckPatterns(about, NamedPattern{"write", p.Write}, NamedPattern{"read", p.Read})
	reply, err := ad.commands.Propose(ctx, about, &catalog.SetTopicPermission{TopicPermission: p}, bad)
	return reply.Created, err
}

// ClearTopicPermission takes away the bounds of a user at an exchange, "" for all of the
// vhost, and reports whether there was one.
func (ad *Administration) ClearTopicPermission(ctx context.Context, vhost, user, exchange string) (deleted bool, err error) {
	cmd := catalog.ClearTopicPermission{User: user, VHost: vhost, Exchange: exchange}
	reply, err := ad.commands.Propose(ctx, AboutTopicPermission(vhost, user), &cmd, nil)
	return reply.Deleted, err
}

// ListTopicPermissions returns the topic permissions of a vhost, of all if it is "",
// sorted by vhost, user and exchange; with user, only its own.
func (ad *Administration) ListTopicPermissions(vhost, user string) ([]TopicPermission, error) {
	v, err := ad.serving.ViewOf(vhost)
	if err != nil {
		return nil, err
	}
	var out []TopicPermission
	for h := range v.VHosts() {
		if vhost != "" && h.Name != vhost {
			continue
		}
		for p := range v.TopicPermissions(h.Name) {
			if user == "" || p.User == user {
				out = append(out, *p)
			}
		}
	}
	return out, nil
}
