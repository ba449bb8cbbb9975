package policy

import (
	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// ArgumentsRate reports whether the arguments of a queue limit the rate of publishing into it
// (VH-15).
func ArgumentsRate(args message.Table) bool {
	_, messages := args.Get(argument.MessageRate)
	_, bytes := args.Get(argument.ByteRate)
	return messages || bytes
}

// PoliciesRate reports whether a policy of a vhost limits the rate of publishing into queues.
func PoliciesRate(v *catalog.View, vhost string) bool {
	for _, operator := range [...]bool{false, true} {
		for p := range v.Policies(vhost, operator) {
			for i := range p.Definition {
				switch "x-" + p.Definition[i].Name {
				case argument.MessageRate, argument.ByteRate:
					return true
				}
			}
		}
	}
	return false
}
