package catalog

import (
	"encoding/binary"
	"slices"
)

// VHostLimits bound what a vhost holds, and what clients do in it; Unlimited is no limit, 0 allows
// none (VH-4, VH-14). All but the first two need VersionQuotas.
type VHostLimits struct {
	MaxConnections, MaxQueues int64
	MaxChannels, MaxConsumers int64
	MaxMessageRate            int64 // messages published per second
	MaxByteRate               int64 // bytes of their bodies per second
	MaxStoredBytes            int64 // of the bodies that its queues hold
}

// UserLimits bound what a user opens, does and declares, in the same way as VHostLimits. MaxQueues
// and MaxStoredBytes need VersionDeclarers.
type UserLimits struct {
	MaxConnections, MaxChannels int64
	MaxConsumers                int64
	MaxMessageRate              int64 // messages published per second
	MaxByteRate                 int64 // bytes of their bodies per second
	MaxQueues                   int64 // that it has declared (VH-17)
	MaxStoredBytes              int64 // of the bodies that these hold
}

// NoVHostLimits returns the limits of a vhost without any.
func NoVHostLimits() VHostLimits {
	return VHostLimits{
		MaxConnections: Unlimited, MaxQueues: Unlimited, MaxChannels: Unlimited, MaxConsumers: Unlimited,
		MaxMessageRate: Unlimited, MaxByteRate: Unlimited, MaxStoredBytes: Unlimited,
	}
}

// NoUserLimits returns the limits of a user without any.
func NoUserLimits() UserLimits {
	return UserLimits{
		MaxConnections: Unlimited, MaxChannels: Unlimited, MaxConsumers: Unlimited,
		MaxMessageRate: Unlimited, MaxByteRate: Unlimited, MaxQueues: Unlimited, MaxStoredBytes: Unlimited,
	}
}

// NamedLimit is a limit with its name in the API, the CLI and definitions.
type NamedLimit struct {
	Name  string
	Value int64
}

// NamedLimits returns the limits in the order of their byte form.
func (l VHostLimits) NamedLimits() []NamedLimit {
	return named(l.each())
}

// NamedLimits returns the limits in the order of their byte form.
func (l UserLimits) NamedLimits() []NamedLimit {
	return named(l.each())
}

// SetLimit sets the limit of a name; false: there is no such limit.
func (l *VHostLimits) SetLimit(name string, n int64) bool { return set(l.each(), name, n) }

// SetLimit sets the limit of a name; false: there is no such limit.
func (l *UserLimits) SetLimit(name string, n int64) bool { return set(l.each(), name, n) }

// limit is one limit of a set, which is in the order of the versions.
type limit struct {
	name  string
	since Version // the version that introduced it
	value *int64
}

// each lists the limits in the order of their byte form. New ones go to the end of their version's
// group.
func (l *VHostLimits) each() []limit {
	return []limit{
		{"max-connections", VersionFirst, &l.MaxConnections},
		{"max-queues", VersionFirst, &l.MaxQueues},
		{"max-channels", VersionQuotas, &l.MaxChannels},
		{"max-consumers", VersionQuotas, &l.MaxConsumers},
		{"max-message-rate", VersionQuotas, &l.MaxMessageRate},
		{"max-byte-rate", VersionQuotas, &l.MaxByteRate},
		{"max-stored-bytes", VersionQuotas, &l.MaxStoredBytes},
	}
}

// each lists the limits in the order of their byte form, which is by version.
func (l *UserLimits) each() []limit {
	return []limit{
		{"max-connections", VersionFirst, &l.MaxConnections},
		{"max-channels", VersionFirst, &l.MaxChannels},
		{"max-consumers", VersionQuotas, &l.MaxConsumers},
		{"max-message-rate", VersionQuotas, &l.MaxMessageRate},
		{"max-byte-rate", VersionQuotas, &l.MaxByteRate},
		{"max-queues", VersionDeclarers, &l.MaxQueues},
		{"max-stored-bytes", VersionDeclarers, &l.MaxStoredBytes},
	}
}

// named copies the limits with their names, for display.
func named(all []limit) []NamedLimit {
	out := make([]NamedLimit, len(all))
	for i, x := range all {
		out[i] = NamedLimit{x.name, *x.value}
	}
	return out
}

// set writes the limit of a name; false if the name is unknown.
func set(all []limit, name string, n int64) bool {
	i := slices.IndexFunc(all, func(x limit) bool { return x.name == name })
	if i >= 0 {
		*all[i].value = n
	}
	return i >= 0
}

// limitsSince returns the version that a node must know to read the limits that are set.
func limitsSince(all []limit) Version {
	needs := VersionFirst
	for _, x := range all {
		if *x.value != Unlimited {
			needs = max(needs, x.since)
		}
	}
	return needs
}

func (l VHostLimits) check(e Error) *Error { return e.limitsFit(l.each()) }
func (l UserLimits) check(e Error) *Error  { return e.limitsFit(l.each()) }

// limitsFit checks all limits and names the first that is below Unlimited.
func (e Error) limitsFit(all []limit) *Error {
	for _, x := range all {
		if err := e.limitFits(x.name, *x.value); err != nil {
			return err
		}
	}
	return nil
}

// appendFirst writes the limits of VersionFirst.
func appendFirst(b []byte, all []limit) []byte {
	for _, x := range all {
		if x.since == VersionFirst {
			b = binary.AppendVarint(b, *x.value)
		}
	}
	return b
}

// readFirst reads what appendFirst wrote.
func (r *reader) readFirst(all []limit) {
	for _, x := range all {
		if x.since == VersionFirst {
			*x.value = r.varint(x.name)
		}
	}
}

// appendNewer writes the limits that later versions introduced, as far as version includes them.
func appendNewer(b []byte, all []limit, version Version) []byte {
	for _, x := range all {
		if x.since > VersionFirst && x.since <= version {
			b = binary.AppendVarint(b, *x.value)
		}
	}
	return b
}

// readNewer reads what appendNewer wrote.
func (r *reader) readNewer(all []limit) {
	for _, x := range all {
		if x.since > VersionFirst && x.since <= r.machine {
			*x.value = r.varint(x.name)
		}
	}
}

// vhostLimits reads the limits of the first version; all others are Unlimited until readNewer sets
// them.
func (r *reader) vhostLimits() VHostLimits {
	l := NoVHostLimits()
	r.readFirst(l.each())
	return l
}

// userLimits reads the limits of the first version; all others are Unlimited until readNewer sets
// them.
func (r *reader) userLimits() UserLimits {
	l := NoUserLimits()
	r.readFirst(l.each())
	return l
}
