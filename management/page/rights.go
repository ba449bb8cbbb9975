package page

import "slices"

// rights are what the user may do, as the API says.
type rights struct {
	VHost     string `json:"vhost"`
	Configure bool   `json:"configure"`
	Write     bool   `json:"write"`
	Read      bool   `json:"read"`
}

// To returns the user's rights to a queue or an exchange. Like Can it only decides what is shown: without an answer
// nothing is offered. A page asks for few things, each of them once.
func (v *visit) To(kind, vhost, name string) rights {
	key := [3]string{kind, vhost, name}
	may, asked := v.rights[key]
	if !asked {
		_ = v.get(&may, "/v1/"+kind+"s/%s/%s/rights", vhost, name) // refused: no rights
		if v.rights == nil {
			v.rights = map[[3]string]rights{}
		}
		v.rights[key] = may
	}
	return may
}

// rightsIn returns the user's rights in all vhosts in which it has a permission.
func (v *visit) rightsIn() (all []rights, err error) {
	return all, v.get(&all, "/v1/rights")
}

// In returns the rights that the user has to some name or other in a vhost. It is for what needs a right to a thing that
// the user has yet to name.
func (v *visit) In(vhost string) rights {
	all, _ := v.rightsIn() // refused: no rights
	if at := slices.IndexFunc(all, func(r rights) bool { return r.VHost == vhost }); at >= 0 {
		return all[at]
	}
	return rights{}
}

// declarable are the vhosts in which something can be declared.
func declarable(all []rights) (vhosts []string) {
	for _, r := range all {
		if r.Configure {
			vhosts = append(vhosts, r.VHost)
		}
	}
	return vhosts
}
