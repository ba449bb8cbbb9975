// Package spec reads the specifications of objects that are in a broker: it applies the defaults, converts
// the arguments, and checks all of it with the broker's own code, so that a fault is found when the object is
// written and has the same words as in the broker. The webhook refuses what has faults; the controllers show
// them in a condition where there is no webhook.
//
// The package only computes; all functions may be called concurrently.
package spec

import (
	"cmp"
	"errors"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/table"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// defaultVHost is that of objects which name none.
const defaultVHost = "/"

// vhostOr returns the vhost of a specification. The API server fills in the default; objects from files may lack it.
func vhostOr(name string) string { return cmp.Or(name, defaultVHost) }

// ClusterOf returns the QuorateCluster that a reference in an object of a namespace means.
func ClusterOf(r v1alpha1.ClusterReference, namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: cmp.Or(r.Namespace, namespace), Name: r.Name}
}

// at returns the path of a field of the specification.
func at(name string) *field.Path { return field.NewPath("spec").Child(name) }

// readTable reads arguments or a definition; faults are those of the JSON itself.
func readTable(name string, json *apiextensionsv1.JSON) (message.Table, field.ErrorList) {
	if json == nil {
		return nil, nil
	}
	t, faults := table.Parse(json.Raw)
	var all field.ErrorList
	for _, f := range faults {
		all = append(all, field.Invalid(field.NewPath("spec", name+f.Path), field.OmitValueType{}, f.Reason))
	}
	return t, all
}

// fields are the fields of a specification that the broker's code calls otherwise.
type fields map[string]string

// faultsOf turns errors of the broker's code into errors of fields. An argument is a key of the field that
// tableField names; "" is for specifications without arguments.
func faultsOf(err error, tableField string, named fields) field.ErrorList {
	if err == nil {
		return nil
	}
	var out field.ErrorList
	for _, e := range failure.Faults(err) {
		out = append(out, fault(e, tableField, named))
	}
	return out
}

// fault converts one error; an error without an argument is about the whole specification.
func fault(err error, tableField string, named fields) *field.Error {
	arg, value, reason := "", "", err.Error()
	var a *argument.Error
	var f *failure.Error
	var c *catalog.Error
	switch {
	case errors.As(err, &a):
		arg, value, reason = a.Arg, a.Value, a.Reason
	case errors.As(err, &f):
		arg, value, reason = f.Arg, f.Value, f.Reason
	case errors.As(err, &c):
		arg, value, reason = c.Arg, c.Value, c.Reason
	}
	path := field.NewPath("spec")
	switch own, is := named[arg]; {
	case is:
		path = path.Child(own)
	case arg != "" && tableField != "":
		path = path.Child(tableField).Key(arg)
	}
	if value == "" {
		return field.Invalid(path, field.OmitValueType{}, reason)
	}
	return field.Invalid(path, strings.Trim(value, `"`), reason)
}

// newTrial returns a catalog with one vhost, in which an object is made to find the faults that only the catalog
// knows.
func newTrial(vhost string) *catalog.Catalog {
	c := catalog.New()
	c.Apply(1, 0, &catalog.RaiseVersion{Version: catalog.NewestVersion})
	c.Apply(2, 0, &catalog.PutVHost{VHost: catalog.VHost{
		Name: vhost, VHostLimits: catalog.NoVHostLimits(), DefaultQueueType: catalog.QueueQuorum,
	}})
	return c
}

// tried makes an object in a trial and returns the catalog's refusal.
func tried(c *catalog.Catalog, cmd catalog.Command) error {
	if r := c.Apply(3, 0, cmd); r.Err != nil {
		return r.Err
	}
	return nil
}

// warnings words arguments without effect.
func warnings(tableField string, all []policy.Unknown) []string {
	var out []string
	for _, u := range all {
		text := "spec." + tableField + "[" + u.Name + "] has no effect: the broker does not know it"
		if u.Advice != "" {
			text += "; " + u.Advice
		}
		out = append(out, text)
	}
	return out
}
