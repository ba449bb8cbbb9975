package permission

import "context"

// Rights are what a caller may do to an object, or to any object of a vhost.
type Rights struct{ Configure, Write, Read bool }

// everything is what callers may do where nobody has to log in.
func everything() Rights { return Rights{true, true, true} }

// RightsTo returns what the context's caller may do to an object, whether it exists or not (VH-6). Errors: NotFound for a
// vhost that does not exist, AccessRefused for one in which the caller has no permission.
func (ps *Permissions) RightsTo(ctx context.Context, t Thing) (Rights, error) {
	who, err := ps.logins.Who(ctx)
	if err != nil {
		return Rights{}, err
	}
	v := ps.view()
	if err := vhostExists(v, t.VHost); err != nil {
		return Rights{}, err
	}
	if who == nil {
		return everything(), nil
	}
	g, err := ps.Permission(v, who, t.VHost)
	if err != nil {
		return Rights{}, err
	}
	may := func(r right) bool { return g.Matches(r, t.matched()) }
	return Rights{Configure: may(Configure), Write: may(Write), Read: may(Read)}, nil
}

// RightsIn returns the vhosts in which the context's caller has a permission, with the rights that it gives for any name
// at all. Names are not matched.
func (ps *Permissions) RightsIn(ctx context.Context) (map[string]Rights, error) {
	who, err := ps.logins.Who(ctx)
	if err != nil {
		return nil, err
	}
	v, out := ps.view(), map[string]Rights{}
	for h := range v.VHosts() {
		if who == nil {
			out[h.Name] = everything()
		} else if g := ps.grantIn(v, who, h.Name); g != nil {
			out[h.Name] = Rights{Configure: g.patterns[Configure] != nil, Write: g.patterns[Write] != nil, Read: g.patterns[Read] != nil}
		}
	}
	return out, nil
}
