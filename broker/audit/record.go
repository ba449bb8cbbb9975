package audit

import (
	"strconv"
	"strings"

	"github.com/quorate/quorate/cluster/event"
)

// Limits of a record (AU-4).
const (
	// NameBytes limits a name in a record, ValueBytes the value of a field, ChangesBytes all fields
	// together, and ReasonBytes the reason of a refusal.
	NameBytes    = 255
	ValueBytes   = 256
	ChangesBytes = 1024
	ReasonBytes  = 512
	// auditClientBytes limits the name that a client gives itself.
	auditClientBytes = 128
)

// Change is a field of an object, before and after.
type Change = event.Change

// bounded cuts text to a number of bytes. The result is valid UTF-8, because messages between nodes
// must be.
func bounded(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// boundedChanges cuts long values, and leaves out fields beyond ChangesBytes.
func boundedChanges(all []Change) []Change {
	left := ChangesBytes
	for i := range all {
		c := &all[i]
		c.Field, c.Before, c.After = bounded(c.Field, ValueBytes), bounded(c.Before, ValueBytes), bounded(c.After, ValueBytes)
		if left -= len(c.Field) + len(c.Before) + len(c.After); left < 0 {
			return append(all[:i], Change{Field: "left_out", After: strconv.Itoa(len(all)-i) + " fields"})
		}
	}
	return all
}

// changesText shows changes in one line of the log.
func changesText(all []Change) string {
	var b strings.Builder
	for i := range all {
		c := &all[i]
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(c.Field + ": " + strconv.Quote(c.Before) + " -> " + strconv.Quote(c.After))
	}
	return b.String()
}
