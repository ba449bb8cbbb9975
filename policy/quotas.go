package policy

import (
	"math"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// Quotas bound what clients do with a queue; Unlimited is no bound (VH-15).
type Quotas struct {
	MaxMessageRate int64 // messages published into it per second
	MaxByteRate    int64 // bytes of their bodies per second
	MaxConsumers   int64
}

// NoQuotas are those of a queue that has none.
func NoQuotas() Quotas {
	return Quotas{MaxMessageRate: Unlimited, MaxByteRate: Unlimited, MaxConsumers: Unlimited}
}

func (a *arguments) quotas(e *Effective) {
	if n, ok := a.integer(argMessageRate, 0, math.MaxInt64); ok {
		e.Quotas.MaxMessageRate = n
	}
	if n, ok := a.integer(argByteRate, 0, math.MaxInt64); ok {
		e.Quotas.MaxByteRate = n
	}
	if n, ok := a.integer(argMaxConsumers, 0, math.MaxInt64); ok {
		e.Quotas.MaxConsumers = n
	}
}

// ArgumentsRate tells whether arguments of a queue bound what is published into it.
func ArgumentsRate(args message.Table) bool {
	_, messages := args.Get(argMessageRate)
	_, bytes := args.Get(argByteRate)
	return messages || bytes
}

// PoliciesRate tells whether a policy of a vhost bounds what is published into queues.
func PoliciesRate(v *catalog.View, vhost string) bool {
	for _, operator := range [...]bool{false, true} {
		for p := range v.Policies(vhost, operator) {
			for i := range p.Definition {
				switch "x-" + p.Definition[i].Name {
				case argMessageRate, argByteRate:
					return true
				}
			}
		}
	}
	return false
}
