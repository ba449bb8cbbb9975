package broker

import (
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/definitions"
	"strconv"
)

// noteImported notes what an import came to, if it has made anything.
func noteImported(a *act, s *ImportSummary) {
	if s.Counts[ImportCreated] == 0 {
		return
	}
	for _, n := range []struct {
		name  string
		count int
	}{
		{"created", s.Counts[ImportCreated]},
		{"different", s.Counts[ImportDifferent]},
		{"refused", s.Counts[ImportRefused]},
		{"failed", s.Counts[ImportFailed]},
	} {
		if n.count > 0 {
			a.note(Change{Field: n.name, After: strconv.Itoa(n.count)})
		}
	}
}

// actOfObject is the act of making an object of an import that has a record of its own: one that
// says who may do what, or governs others.
func actOfObject(s *definitions.Step) (Act, bool) {
	switch c := s.Command.(type) {
	case *catalog.PutVHost:
		return Act{Operation: OpVHostPut, VHost: c.Name, Kind: "vhost", Name: c.Name}, true
	case *catalog.SetVHostLimits:
		return Act{Operation: OpVHostLimits, VHost: c.VHost, Kind: "vhost", Name: c.VHost}, true
	case *catalog.PutUser:
		return Act{Operation: OpUserPut, Kind: "user", Name: c.Name}, true
	case *catalog.SetPermission:
		return Act{Operation: OpPermissionSet, VHost: c.VHost, Kind: "permission", Name: c.User}, true
	case *catalog.SetTopicPermission:
		return Act{Operation: OpTopicPermissionSet, VHost: c.VHost, Kind: "topic permission", Name: c.User}, true
	case *catalog.PutPolicy:
		return Act{Operation: OpPolicyPut, VHost: c.VHost, Kind: "policy", Name: c.Name}, true
	case *catalog.PutParameter:
		return Act{Operation: OpParameterPut, VHost: c.VHost, Kind: "parameter", Name: c.Name}, true
	}
	return Act{}, false
}
