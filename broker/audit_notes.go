package broker

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/definitions"
)

// What is noted of acts that are more, or something else, than a command to the catalog.

// counted notes how many there were of what an act took away, or set going, if there were any.
func (a *act) counted(what string, n uint64) {
	if n > 0 {
		a.note(Change{Field: what, Before: strconv.FormatUint(n, 10)})
	}
}

// lost notes the messages that went with a queue.
func (a *act) lost(d Deleted) {
	if a == nil {
		return
	}
	a.mu.Lock()
	changed := a.changed
	a.mu.Unlock()
	if changed {
		a.counted("messages", d.Ready+d.Unsettled+d.Delayed+d.Backlog)
	}
}

// started notes a long job.
func (a *act) started(op *Operation) {
	a.note(Change{Field: "operation", After: op.ID.String()}, Change{Field: "target", After: op.Target})
}

// imported notes what an import came to, if it has made anything.
func (a *act) imported(s *ImportSummary) {
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

// withoutAct returns a context in which nothing is noted.
func withoutAct(ctx context.Context) context.Context {
	return context.WithValue(ctx, actKey{}, (*act)(nil))
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
