package administration

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/pattern"
)

// Permission gives a user rights in a vhost, as three patterns (VH-6).
type Permission = catalog.Permission

// TopicPermission limits the routing keys of a user at a topic exchange (VH-8).
type TopicPermission = catalog.TopicPermission

// NamedPattern is a pattern with the name of its field.
type NamedPattern struct{ Arg, Text string }

// CheckPatterns refuses patterns that do not compile, with all of them in one error (C-8).
func CheckPatterns(about failure.Error, patterns ...NamedPattern) error {
	about.Class = failure.PreconditionFailed
	failed := false
	for _, p := range patterns {
		var err error
		if len(p.Text) > catalog.MaxPatternBytes { // before it costs work
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

// tooLong is the error about a pattern above the limit; its value is the length.
type tooLong int

func (n tooLong) Error() string {
	return strconv.Itoa(int(n)) + " bytes, the limit is " + strconv.Itoa(catalog.MaxPatternBytes)
}

// AboutPermission returns an error that only names a permission; callers add what is wrong.
func AboutPermission(vhost, user string) failure.Error {
	return failure.Error{VHost: vhost, Kind: "permission", Name: user}
}

// SetPermission sets what a user may do in a vhost, and reports whether the user had no permission
// there before (VH-6).
func (ad *Administration) SetPermission(ctx context.Context, p Permission) (created bool, err error) {
	about := AboutPermission(p.VHost, p.User)
	bad := CheckPatterns(about, NamedPattern{"configure", p.Configure}, NamedPattern{"write", p.Write}, NamedPattern{"read", p.Read})
	reply, err := ad.commands.Propose(ctx, about, &catalog.SetPermission{Permission: p}, bad)
	return reply.Created, err
}

// ClearPermission removes everything that a user may do in a vhost, and reports whether the user
// had a permission.
func (ad *Administration) ClearPermission(ctx context.Context, vhost, user string) (deleted bool, err error) {
	reply, err := ad.commands.Propose(ctx, AboutPermission(vhost, user), &catalog.ClearPermission{User: user, VHost: vhost}, nil)
	return reply.Deleted, err
}

// ListPermissions returns the permissions of a vhost, or of all vhosts for "", sorted by vhost and
// user. If user is not empty, it returns only those of that user.
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

// AboutTopicPermission returns an error that only names a topic permission; callers add what is
// wrong.
func AboutTopicPermission(vhost, user string) failure.Error {
	return failure.Error{VHost: vhost, Kind: "topic permission", Name: user}
}

// SetTopicPermission limits the routing keys of a user at a topic exchange, and reports whether
// there was no limit before (VH-8).
func (ad *Administration) SetTopicPermission(ctx context.Context, p TopicPermission) (created bool, err error) {
	about := AboutTopicPermission(p.VHost, p.User)
	bad := CheckPatterns(about, NamedPattern{"write", p.Write}, NamedPattern{"read", p.Read})
	reply, err := ad.commands.Propose(ctx, about, &catalog.SetTopicPermission{TopicPermission: p}, bad)
	return reply.Created, err
}

// ClearTopicPermission removes the limits of a user at an exchange, or at all exchanges of the
// vhost for "", and reports whether there was one.
func (ad *Administration) ClearTopicPermission(ctx context.Context, vhost, user, exchange string) (deleted bool, err error) {
	cmd := catalog.ClearTopicPermission{User: user, VHost: vhost, Exchange: exchange}
	reply, err := ad.commands.Propose(ctx, AboutTopicPermission(vhost, user), &cmd, nil)
	return reply.Deleted, err
}

// ListTopicPermissions returns the topic permissions of a vhost, or of all vhosts for "", sorted by
// vhost, user and exchange. If user is not empty, it returns only those of that user.
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
