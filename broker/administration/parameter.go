package administration

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/catalog"
)

// Parameter is a JSON value that belongs to a component of a vhost, or to the cluster (VH-9). It has no effect.
type Parameter = catalog.Parameter

// aboutParameter returns an error that only names a parameter; callers add what is wrong.
func aboutParameter(vhost, name string) failure.Error {
	kind := "parameter"
	if vhost == "" {
		kind = "global parameter"
	}
	return failure.Error{VHost: vhost, Kind: kind, Name: name}
}

// ListParameters returns the parameters of a vhost, sorted by component and name, or the global ones for "". The
// caller must be allowed to see the whole vhost (VH-12).
func (ad *Administration) ListParameters(ctx context.Context, vhost string) ([]Parameter, error) {
	if vhost != "" {
		if err := ad.permissions.WholeSight(ctx, vhost); err != nil {
			return nil, err
		}
	}
	v, err := ad.serving.ViewOf(vhost)
	if err != nil {
		return nil, err
	}
	var out []Parameter
	for p := range v.Parameters(vhost) {
		if vhost != "" || p.Component == "" { // the broker itself keeps secrets under components without a vhost
			out = append(out, *p)
		}
	}
	return out, nil
}

// PutGlobalParameter sets a global parameter to a JSON value, and reports whether it is new. A vhost's parameters come
// from imported definitions alone: nothing would heed new ones.
func (ad *Administration) PutGlobalParameter(ctx context.Context, name, value string) (created bool, err error) {
	about := aboutParameter("", name)
	bad := names.CheckPlain(name, "", about)
	switch {
	case bad != nil:
	case name == "":
		about.Class, about.Arg, about.Reason = failure.PreconditionFailed, "name", "is empty; choose a name"
		bad = &about
	case !json.Valid([]byte(value)):
		about.Class, about.Arg, about.Value = failure.PreconditionFailed, "value", strconv.Itoa(len(value))+" bytes"
		about.Reason = "is not JSON"
		bad = &about
	}
	reply, err := ad.commands.Propose(ctx, about, &catalog.PutParameter{Parameter: Parameter{Name: name, Value: value}}, bad)
	return reply.Created, err
}

// DeleteParameter removes a parameter of a vhost, or for "" a global one, which has no component. It reports whether
// there was one.
func (ad *Administration) DeleteParameter(ctx context.Context, vhost, component, name string) (deleted bool, err error) {
	about := aboutParameter(vhost, name)
	var bad error
	if vhost == "" && component != "" {
		about.Class, about.Arg, about.Value = failure.NotFound, "component", component
		about.Reason = "global parameters have no component"
		bad = &about
	}
	reply, err := ad.commands.Propose(ctx, about, &catalog.DeleteParameter{VHost: vhost, Component: component, Name: name}, bad)
	return reply.Deleted, err
}
