package catalog

import (
	"encoding/binary"
	"slices"
)

// VHostLimits bound what a vhost holds, and what clients do in it; Unlimited is no limit, 0 is none
// at all (VH-4, VH-14). Channels, Consumers and what follows them need VersionQuotas.
type VHostLimits struct {
	MaxConnections, MaxQueues int64
	MaxChannels, MaxConsumers int64
	MaxMessageRate            int64 // messages published per second
	MaxByteRate               int64 // bytes of their bodies per second
	MaxStoredBytes            int64 // of the bodies that its queues hold
}

// UserLimits bound what a user opens and does, as VHostLimits do.
type UserLimits struct {
	MaxConnections, MaxChannels int64
	MaxConsumers                int64
	MaxMessageRate              int64 // messages published per second
	MaxByteRate                 int64 // bytes of their bodies per second
}

// NoVHostLimits are those of a vhost that has none.
func NoVHostLimits() VHostLimits {
	return VHostLimits{
		MaxConnections: Unlimited, MaxQueues: Unlimited, MaxChannels: Unlimited, MaxConsumers: Unlimited,
		MaxMessageRate: Unlimited, MaxByteRate: Unlimited, MaxStoredBytes: Unlimited,
	}
}

// NoUserLimits are those of a user that has none.
func NoUserLimits() UserLimits {
	return UserLimits{
		MaxConnections: Unlimited, MaxChannels: Unlimited, MaxConsumers: Unlimited,
		MaxMessageRate: Unlimited, MaxByteRate: Unlimited,
	}
}

// NamedLimit is a limit with the name that everybody gives it.
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

// limit is one of a set of limits; the first firstLimits of a set are older than VersionQuotas.
type limit struct {
	name  string
	value *int64
}

const firstLimits = 2

func (l *VHostLimits) each() []limit {
	return []limit{
		{"max-connections", &l.MaxConnections},
		{"max-queues", &l.MaxQueues},
		{"max-channels", &l.MaxChannels},
		{"max-consumers", &l.MaxConsumers},
		{"max-message-rate", &l.MaxMessageRate},
		{"max-byte-rate", &l.MaxByteRate},
		{"max-stored-bytes", &l.MaxStoredBytes},
	}
}

func (l *UserLimits) each() []limit {
	return []limit{
		{"max-connections", &l.MaxConnections},
		{"max-channels", &l.MaxChannels},
		{"max-consumers", &l.MaxConsumers},
		{"max-message-rate", &l.MaxMessageRate},
		{"max-byte-rate", &l.MaxByteRate},
	}
}

func named(all []limit) []NamedLimit {
	out := make([]NamedLimit, len(all))
	for i, x := range all {
		out[i] = NamedLimit{x.name, *x.value}
	}
	return out
}

func set(all []limit, name string, n int64) bool {
	i := slices.IndexFunc(all, func(x limit) bool { return x.name == name })
	if i >= 0 {
		*all[i].value = n
	}
	return i >= 0
}

// newer tells whether limits are set that need VersionQuotas.
func newer(all []limit) bool {
	return slices.ContainsFunc(all[firstLimits:], func(x limit) bool { return *x.value != Unlimited })
}

func (l VHostLimits) newer() bool { return newer(l.each()) }
func (l UserLimits) newer() bool  { return newer(l.each()) }

func (l VHostLimits) check(e Error) *Error { return e.limitsFit(l.each()) }
func (l UserLimits) check(e Error) *Error  { return e.limitsFit(l.each()) }

func (e Error) limitsFit(all []limit) *Error {
	for _, x := range all {
		if err := e.limitFits(x.name, *x.value); err != nil {
			return err
		}
	}
	return nil
}

func appendLimits(b []byte, all []limit) []byte {
	for _, x := range all {
		b = binary.AppendVarint(b, *x.value)
	}
	return b
}

// readLimits reads what appendLimits added.
func (r *reader) readLimits(all []limit) {
	for _, x := range all {
		*x.value = r.varint(x.name)
	}
}

// appendNewer adds the limits that VersionQuotas has brought, in bytes of that version.
func appendNewer(b []byte, all []limit, version Version) []byte {
	if version >= VersionQuotas {
		b = appendLimits(b, all[firstLimits:])
	}
	return b
}

// readNewer reads them.
func (r *reader) readNewer(all []limit) {
	if r.machine >= VersionQuotas {
		r.readLimits(all[firstLimits:])
	}
}

func (r *reader) vhostLimits() VHostLimits {
	l := NoVHostLimits()
	r.readLimits(l.each()[:firstLimits])
	return l
}

func (r *reader) userLimits() UserLimits {
	l := NoUserLimits()
	r.readLimits(l.each()[:firstLimits])
	return l
}
