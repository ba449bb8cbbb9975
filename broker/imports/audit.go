package imports

import (
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/definitions"
)

// actOfObject returns the audit record for an object that an import creates, if the object gets a
// record of its own: if it changes rights or governs other objects.
func actOfObject(s *definitions.Step) (audit.Act, bool) {
	switch c := s.Command.(type) {
	case *catalog.PutVHost:
		return audit.Act{Operation: audit.OpVHostPut, VHost: c.Name, Kind: "vhost", Name: c.Name}, true
	case *catalog.SetVHostLimits:
		return audit.Act{Operation: audit.OpVHostLimits, VHost: c.VHost, Kind: "vhost", Name: c.VHost}, true
	case *catalog.PutUser:
		return audit.Act{Operation: audit.OpUserPut, Kind: "user", Name: c.Name}, true
	case *catalog.SetPermission:
		return audit.Act{Operation: audit.OpPermissionSet, VHost: c.VHost, Kind: "permission", Name: c.User}, true
	case *catalog.SetTopicPermission:
		return audit.Act{Operation: audit.OpTopicPermissionSet, VHost: c.VHost, Kind: "topic permission", Name: c.User}, true
	case *catalog.PutPolicy:
		return audit.Act{Operation: audit.OpPolicyPut, VHost: c.VHost, Kind: "policy", Name: c.Name}, true
	case *catalog.PutParameter:
		return audit.Act{Operation: audit.OpParameterPut, VHost: c.VHost, Kind: "parameter", Name: c.Name}, true
	}
	return audit.Act{}, false
}
